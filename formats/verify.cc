#include "formats/verify.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <map>
#include <set>

#include "base/blobs.h"
#include "base/files/leaf.h"
#include "base/text.h"
#include "formats/archive/symlink.h"
#include "formats/archive/zip.h"
#include "formats/directory/weight_files.h"
#include "formats/one_model.h"

namespace weightfs {
namespace {

constexpr uint16_t kStoredMethod = 0;  // of a member of a zip that is not compressed

bool has_checksum(const Part& part) { return part.digest || part.crc32 || part.md5; }

std::string hex32(uint32_t number) {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", number);
  return text.data();
}

// The checksums of some bytes, all that any part of the model carries: members may share bytes.
struct Checksums {
  std::optional<Digest> sha256;
  std::optional<Sha1> sha1;
  std::optional<Md5> md5;
  uint32_t crc32 = 0;
};

// Which of them to compute; CRC-32 costs next to nothing.
struct ChecksumKinds {
  bool sha256 = false;
  bool sha1 = false;
  bool md5 = false;
};

// The names of the checksums that differ; empty if all match.
std::string difference(const Part& part, const Checksums& sums) {
  std::string out;
  const auto compare = [&](const char* name, const std::string& found, const std::string& wanted) {
    if (found != wanted) out += fmt::format("{}{} is {}, should be {}", out.empty() ? "" : "; ", name, found, wanted);
  };
  if (part.digest) compare("SHA-256", sums.sha256->hex(), part.digest->hex());
  if (part.md5) compare("MD5", sums.md5->hex(), part.md5->hex());
  if (part.crc32) compare("CRC-32", hex32(sums.crc32), hex32(*part.crc32));
  return out;
}

// The bytes of a file as they are stored.
struct Stored {
  std::string key;              // equal where the bytes are the same
  const Source* zip = nullptr;  // their zip, if they are in one whose members may share them
  uint64_t zip_occupies = 0;
  uint64_t size = 0;
};

Result<Stored> stored_of(const Source& source) {
  if (const auto range = TRY(archive::stored_range_of(source))) {
    const Source* const zip = range->bytes.whole().get();
    return Stored{fmt::format("zip {} {}+{} {} {}", reinterpret_cast<uintptr_t>(zip), range->bytes.offset(),
                              range->bytes.size(), range->method, range->size),
                  zip, zip->occupied(), range->bytes.size()};
  }
  std::string identity = source.identity();
  if (identity.empty()) identity = fmt::format("at {}", reinterpret_cast<uintptr_t>(&source));
  return Stored{std::move(identity), nullptr, 0, source.size()};
}

// Limits the bytes read from zips by their size in storage.
class Limits {
 public:
  Result<void> take(const Stored& stored, uint64_t decoded) {
    if (stored.zip == nullptr) return {};
    Used& used = used_[stored.zip];
    TRY_VOID(add(used.stored, stored.size, limit(stored.zip_occupies, 2, 64'000'000), "stored"));
    return add(used.decoded, decoded, limit(stored.zip_occupies, 1'000, 1'000'000'000), "decoded");
  }

 private:
  struct Used {
    uint64_t stored = 0, decoded = 0;
  };

  static uint64_t limit(uint64_t bytes, uint64_t factor, uint64_t base) {
    uint64_t product = 0;
    const bool huge = __builtin_mul_overflow(bytes, factor, &product);
    return huge || product > UINT64_MAX - base ? UINT64_MAX : product + base;
  }

  static Result<void> add(uint64_t& used, uint64_t more, uint64_t limit, const char* what) {
    if (more > limit - used)
      return failure(Code::unsupported,
                     fmt::format("not checked: the limit of {} of {} bytes is exceeded", human_size(limit), what));
    used += more;
    return {};
  }

  std::map<const Source*, Used> used_;
};

// Whether reading all of a file compares its checksums: it is a compressed member, or a blob of a store.
Result<bool> is_compared_by_reading(const Source& source) {
  if (source.verification() != VerifiedBy::unknown) return true;
  const auto range = TRY(archive::stored_range_of(source));
  return range && range->method != kStoredMethod;
}

class Verifier {
 public:
  Verifier(const Model& model, const std::function<void(const Progress&)>& report) : model_(model), report_(report) {
    for (const Part& part : model.parts) {
      by_path_.emplace(part.path, &part);
      count(part);
    }
    for (const Part& blob : *model.packed) count(blob);
    for (const Part& member : *model.inner_members) count(member);
    for (const NamedBlob& blob : *model.named_blobs) {
      wanted_.sha1 = wanted_.sha1 || blob.sha1;
      count(blob.file);
    }
    for (const CheckedFile& file : *model.checked_files) total_ += file.bytes_in_ranges();
    for (const size_t tensor : *model.checked_tensors) total_ += model.tensors[tensor].source.size();
  }

  // Only what holds bytes of `read`, or may hold others that were read, and is not compared by reading it.
  Verification run_for(const ReadBytes& known, Others others) {
    const ReadBytes* const read = others == Others::none ? &known : nullptr;
    for (const Part& part : model_.parts)
      if (has_checksum(part)) check_if_read(part, read);
    for (const Part& member : *model_.inner_members) check_if_read(member, read);
    for (const NamedBlob& blob : *model_.named_blobs)
      if (!may_differ(blob) && is_most_read(blob, blob.sha1 ? &known : read)) check_named(blob);
    for (const CheckedFile& file : *model_.checked_files) {
      CheckedFile some{file.name, file.bytes, file.order, file.is_table, {}};
      for (const RangeChecksum& range : file.ranges)
        if (read == nullptr || read->has_any_of(*file.bytes, range.offset, range.size)) some.ranges.push_back(range);
      if (!some.ranges.empty()) check_ranges(some);
    }
    return std::move(out_);
  }

  Verification run() {
    std::set<std::string_view> named;
    for (const NamedBlob& blob : *model_.named_blobs) {
      const bool is_new = named.insert(blob.file.path).second;
      out_.checked += check_named(blob) && is_new ? uint64_t{1} : 0;
    }
    for (const Part& part : model_.parts) {
      if (has_checksum(part))
        out_.checked += check(part) && !named.contains(part.path) ? uint64_t{1} : 0;
      else if (!named.contains(part.path))
        ++out_.unchecked;
    }
    // The models in an archive are verified by themselves.
    if (!model_.nested)
      for (const Part& member : *model_.inner_members) out_.checked += check(member) ? uint64_t{1} : 0;
    for (const Part& blob : *model_.packed)
      if (check(blob)) out_.packed.push_back(blob.path);
    for (const CheckedFile& file : *model_.checked_files) check_ranges(file);
    for (const size_t tensor : *model_.checked_tensors) check_tensor(model_.tensors[tensor]);
    for (const std::string& path : *model_.unlisted)
      out_.add_wrong(fmt::format("{}: not in the container's list of its files", quoted(path)));
    return std::move(out_);
  }

 private:
  void count(const Part& part) {
    wanted_.sha256 = wanted_.sha256 || part.digest;
    wanted_.md5 = wanted_.md5 || part.md5;
    if (const auto source = part.source.peek(); source && has_checksum(part)) total_ += (*source)->size();
  }

  // Whether it matches.
  bool check(const Part& part) { return take(part, compare(part)); }

  bool check_named(const NamedBlob& blob) {
    auto compared = blob.sha1 ? compare_sha1(blob) : blob.git_id ? compare_git_id(blob) : compare(blob.file);
    if (compared && !compared->empty() && may_differ(blob)) {
      out_.add_edited(fmt::format("{}: modified after the download, and differs from it", quoted(blob.file.path)));
      return false;
    }
    if (compared && !compared->empty() && !blob.stated_in.empty())
      *compared +=
          fmt::format(" by {}{}", blob.stated_in, blob.is_modified ? "; the file was modified after that" : "");
    return take(blob.file, compared);
  }

  // People edit a config.json that they have downloaded, but no weights.
  bool may_differ(const NamedBlob& blob) {
    if (!blob.is_modified || model_.has_members || is_named_as_weights(name_of(blob.file))) return false;
    if (!weights_) weights_ = weight_files_of(model_);
    return std::ranges::find(*weights_, blob.file.path) == weights_->end();
  }

  static std::string_view name_of(const Part& file) {
    return std::string_view(file.path).substr(file.path.rfind('/') + 1);
  }

  bool take(const Part& part, const Result<std::string>& compared) {
    if (!compared)
      out_.add_unreadable(about(part, compared.error()));
    else if (!compared->empty())
      out_.add_wrong(fmt::format("{}: {}", quoted(part.path), *compared));
    return compared && compared->empty();
  }

  // A reader of a few bytes of a large file does not wait for its digest.
  static bool is_most_read(const NamedBlob& blob, const ReadBytes* read) {
    const auto source = blob.file.source.peek();
    if (!source) return false;
    const uint64_t size = (*source)->size();
    if (read != nullptr && size <= kMaxVerifiedFirst) return read->has_any_of(**source, 0, size);
    if (read != nullptr) return read->has_most_of(**source);
    const auto place = (*source)->place(0, Opens::nothing);
    return place && place->leaf != nullptr;
  }

  // What the names and types of all tensors are in was read, too.
  void check_if_read(const Part& part, const ReadBytes* read) {
    const auto source = part.source.peek();
    if (!source) return;  // nothing was read of it
    const Source& bytes = **source;
    if (read == nullptr || part.is_structure ? !is_ready(bytes) : !read->has_any_of(bytes, 0, bytes.size())) return;
    const auto is_compared = is_compared_by_reading(bytes);
    if (!is_compared || !*is_compared) check(part);
  }

  void check_ranges(const CheckedFile& file) {
    const auto on_bytes = [&](uint64_t count) {
      read_ += count;
      if (report_) report_({file.name, read_, total_});
    };
    const auto on_sum = [&](const RangeChecksum& range, uint32_t stored, uint32_t found) {
      if (stored == found) {
        ++out_.ranges;
        return;
      }
      const std::string what = range.tensor < model_.tensors.size()
                                   ? fmt::format("tensor {}", quoted(model_.tensors.name(range.tensor)))
                                   : fmt::format("{}: the block at {}", quoted(file.name), range.offset);
      if (out_.wrong.size() < Verification::kMaxLines) ++out_.wrong_ranges;
      out_.add_wrong(fmt::format("{}: CRC-32C is {}, should be {}", what, hex32(found), hex32(stored)));
    };
    if (const auto done = each_range_sum(file, on_bytes, on_sum); !done)
      out_.add_unreadable(with_message(done.error(), fmt::format("{}: {}", quoted(file.name), done.error().message)));
  }

  // Reading it compares its checksums.
  void check_tensor(const TensorView& tensor) {
    const std::string name = fmt::format("tensor {}", quoted(tensor.name));
    const uint64_t size = tensor.source.size();
    for (uint64_t offset = 0; offset < size;) {
      if (report_) report_({name, read_, total_});
      auto got = tensor.source.read_ahead(offset, buffer_, {0, size});
      if (got && *got == 0) got = failure(Code::io, "it ended before its size");
      if (!got) return out_.add_unreadable({got.error().code, fmt::format("{}: {}", name, got.error().message)});
      offset += *got;
      read_ += *got;
    }
    ++out_.tensors;
  }

  // Errors of members include their names.
  static Error about(const Part& part, const Error& error) {
    const std::string name = quoted(part.path);
    return error.message.starts_with(name) ? error : Error{error.code, fmt::format("{}: {}", name, error.message)};
  }

  Result<std::string> compare(const Part& part) {
    const Part* file = archive::resolve_link(&part, [this](const std::string& path) {
      const auto found = by_path_.find(path);
      return found == by_path_.end() ? nullptr : found->second;
    });
    if (file == nullptr)
      return failure(Code::not_found, fmt::format("a link to {}, which does not exist", quoted(part.link_target)));
    const SourcePtr source = TRY(file->source.get());
    return difference(part, TRY(sums_of(part, *source)));
  }

  Result<std::string> compare_sha1(const NamedBlob& blob) {
    const SourcePtr source = TRY(blob.file.source.get());
    const Sha1 found = *TRY(sums_of(blob.file, *source)).sha1;
    return found == *blob.sha1 ? "" : fmt::format("SHA-1 is {}, should be {}", found.hex(), blob.sha1->hex());
  }

  static Result<std::string> compare_git_id(const NamedBlob& blob) {
    const SourcePtr source = TRY(blob.file.source.get());
    const Sha1 found = TRY(git_blob_id(*source));
    if (found == *blob.git_id) return "";
    if (TRY(sha1(*source)) == *blob.git_id) return "";  // the ETag of a proxy
    return fmt::format("Git object id is {}, should be {}", found.hex(), blob.git_id->hex());
  }

  // Reads shared bytes once.
  Result<Checksums> sums_of(const Part& part, const Source& source) {
    const Stored stored = TRY(stored_of(source));
    const auto known = known_.find(stored.key);
    if (known != known_.end()) {
      read_ += source.size();
      return known->second;
    }
    TRY_VOID(limits_.take(stored, source.size()));
    Result<Checksums> sums = read(part, source);
    if (sums || is_about_the_bytes(sums.error())) known_.emplace(stored.key, sums);
    return sums;
  }

  Result<Checksums> read(const Part& part, const Source& source) {
    auto sha256 = wanted_.sha256 ? std::optional<Sha256>(std::in_place) : std::nullopt;
    auto sha1 = wanted_.sha1 ? std::optional<Sha1Sum>(std::in_place) : std::nullopt;
    auto md5 = wanted_.md5 ? std::optional<Md5Sum>(std::in_place) : std::nullopt;
    Checksums sums;
    // The store compares a blob's digest itself, and drops wrong bytes.
    if (part.digest) TRY_VOID(source.prefetch({0, source.size()}));
    for (uint64_t offset = 0; offset < source.size();) {
      if (report_) report_({part.path, read_, total_});
      const size_t got = TRY(source.read_ahead(offset, buffer_, {0, source.size()}));
      if (got == 0) return failure(Code::io, "the source ended before its size");
      const auto bytes = std::span<const std::byte>(buffer_).first(got);
      if (sha256) sha256->update(bytes);
      if (sha1) sha1->update(bytes);
      if (md5) md5->update(bytes);
      sums.crc32 = crc32(sums.crc32, bytes);
      offset += got;
      read_ += got;
    }
    if (sha256) sums.sha256 = sha256->finish();
    if (sha1) sums.sha1 = sha1->finish();
    if (md5) sums.md5 = md5->finish();
    return sums;
  }

  const Model& model_;
  const std::function<void(const Progress&)>& report_;
  std::map<std::string_view, const Part*> by_path_;
  std::optional<std::vector<std::string>> weights_;  // the files that hold tensors, once they were asked for
  ChecksumKinds wanted_;
  std::map<std::string, Result<Checksums>> known_;  // by Stored::key
  Limits limits_;
  uint64_t total_ = 0;
  uint64_t read_ = 0;
  std::vector<std::byte> buffer_{size_t{1} << 20};
  Verification out_;
};

}  // namespace

void Verification::add_wrong(std::string line) {
  if (wrong.size() == kMaxLines)
    ++more;
  else
    wrong.push_back(std::move(line));
}

void Verification::add_edited(std::string line) {
  if (edited.size() == kMaxLines)
    ++more;
  else
    edited.push_back(std::move(line));
}

void Verification::add_unreadable(Error error) {
  if (unreadable.size() == kMaxLines)
    ++more;
  else
    unreadable.push_back(std::move(error));
}

Verification verify(const Model& model, const std::function<void(const Progress&)>& report) {
  return Verifier(model, report).run();
}

void ReadBytes::Ranges::add(uint64_t begin, uint64_t end) {
  auto next = ends.upper_bound(begin);
  if (next != ends.begin() && std::prev(next)->second >= begin) begin = (--next)->first;
  for (; next != ends.end() && next->first <= end; next = ends.erase(next)) end = std::max(end, next->second);
  ends.emplace(begin, end);
}

bool ReadBytes::add(const Source& source) {
  bool is_all_known = true;
  for (uint64_t at = 0; at < source.size();) {
    auto place = source.place(at, Opens::files);
    if (!place || place->length == 0) return false;
    at += place->length;
    is_all_known = is_all_known && place->leaf != nullptr;
    if (place->leaf == nullptr) continue;
    Ranges& of_leaf = ranges_[place->leaf];
    if (of_leaf.owner == nullptr) of_leaf.owner = std::move(place->owner);
    of_leaf.add(place->offset, place->offset + place->length);
  }
  return is_all_known;
}

bool ReadBytes::has_most_of(const Source& source) const {
  const auto place = source.place(0, Opens::nothing);
  if (!place || place->leaf == nullptr) return false;  // no file was opened for it
  uint64_t bytes = 0;
  if (const auto read = ranges_.find(place->leaf); read != ranges_.end())
    for (const auto& [begin, end] : read->second.ends) bytes += end - begin;
  return bytes >= source.size() / 2;
}

bool ReadBytes::has_any_of(const Source& source, uint64_t offset, uint64_t length) const {
  if (length == 0 || offset >= source.size()) return false;
  const auto place = source.place(offset, Opens::nothing);
  if (!place || place->leaf == nullptr) return false;  // no file was opened for it
  if (place->length < length) return true;             // the others may be in files that were read
  const auto read = ranges_.find(place->leaf);
  if (read == ranges_.end()) return false;
  const auto behind = read->second.ends.lower_bound(place->offset + place->length);
  return behind != read->second.ends.begin() && std::prev(behind)->second > place->offset;
}

Result<void> compare_files_of(const Model& model, const ReadBytes& read, Others others) {
  const Verification found = Verifier(model, nullptr).run_for(read, others);
  if (!found.unreadable.empty()) return failure(found.unreadable.front());
  if (found.wrong.empty()) return {};
  return failure(Code::mismatch, found.wrong.front());
}

Result<void> compare_files_of_tensors(const Model& model, std::span<const size_t> tensors) {
  const bool has_digests =
      !model.checked_files->empty() || !model.named_blobs->empty() || !model.inner_members->empty();
  if (!has_digests && std::ranges::none_of(model.parts, has_checksum)) return {};
  ReadBytes read;
  bool is_all_known = true;
  for (const size_t i : tensors)
    if (!model.tensors.is_refused(i)) is_all_known = read.add(model.tensors[i].source) && is_all_known;
  return compare_files_of(model, read, is_all_known ? Others::none : Others::any);
}

}  // namespace weightfs
