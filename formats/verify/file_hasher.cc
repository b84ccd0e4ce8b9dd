#include "formats/verify/file_hasher.h"

#include <fmt/core.h>

#include <optional>
#include <utility>

#include "base/text.h"
#include "formats/archive/zip.h"

namespace weightfs {
namespace {

// `bytes` times `factor`, and `base`, or the largest number.
uint64_t limit_of(uint64_t bytes, uint64_t factor, uint64_t base) {
  uint64_t product = 0;
  const bool huge = __builtin_mul_overflow(bytes, factor, &product);
  return huge || product > UINT64_MAX - base ? UINT64_MAX : product + base;
}

Result<void> add_within(uint64_t& used, uint64_t more, uint64_t limit, const char* what) {
  if (more > limit - used)
    return failure(Code::unsupported,
                   fmt::format("not checked: the limit of {} of {} bytes is exceeded", human_size(limit), what));
  used += more;
  return {};
}

// The expected name in Git, if it is the name or the SHA-1 of the bytes, which is the ETag of a proxy; else the name.
Result<GitId> git_id_of(const Source& source, const GitId& expected) {
  const GitId found{TRY(git_blob_id(source))};
  if (found == expected || TRY(sha1(source)) != expected.id) return found;
  return expected;
}

// Computes a checksum of a kind, if it is wanted.
template <class Sum>
class Computed {
 public:
  explicit Computed(bool is_wanted) : sum_(is_wanted ? std::optional<Hasher<Sum>>(std::in_place) : std::nullopt) {}

  void update(std::span<const std::byte> bytes) {
    if (sum_) sum_->update(bytes);
  }
  void add_to(FileChecksums& sums) {
    if (sum_) sums.set(sum_->finish());
  }

 private:
  std::optional<Hasher<Sum>> sum_;
};

// The place of a kind among the alternatives.
template <class Sum>
constexpr size_t kPlace = Checksum(Sum()).index();

}  // namespace

void ReportingReader::show(std::string_view path) const {
  if (report_) report_({path, read_, total_});
}

Result<void> ReportingReader::read(std::string_view path, const Source& source,
                                   const std::function<void(std::span<const std::byte>)>& use) {
  for (uint64_t offset = 0; offset < source.size();) {
    show(path);
    const size_t got = TRY(source.read_ahead(offset, buffer_, {0, source.size()}));
    if (got == 0) return failure(Code::io, "the source ended before its size");
    use(std::span<const std::byte>(buffer_).first(got));
    offset += got;
    read_ += got;
  }
  return {};
}

void FileHasher::want(const FileChecksums& expected) {
  for (const Checksum& sum : expected.all()) wanted_.set(sum.index());
}

Result<std::string> FileHasher::difference(std::string_view path, const Source& source, const FileChecksums& expected) {
  const std::vector<Checksum> all = expected.all();
  const GitId* const git_id = expected.get<GitId>();
  FileChecksums found;
  if (git_id == nullptr || all.size() > 1) found = TRY(sums_of(path, source, expected.get<Digest>() != nullptr));
  if (git_id != nullptr) {
    found.set(TRY(git_id_of(source, *git_id)));
    reader_.add_read(source.size());
  }
  std::string out;
  for (const Checksum& sum : found.all())
    for (const Checksum& wanted : all)
      if (sum.index() == wanted.index() && sum != wanted)
        out +=
            fmt::format("{}{} is {}, should be {}", out.empty() ? "" : "; ", name_of(sum), hex_of(sum), hex_of(wanted));
  return out;
}

Result<FileHasher::Stored> FileHasher::stored_of(const Source& source) {
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

Result<void> FileHasher::take(const Stored& stored, uint64_t decoded) {
  if (stored.zip == nullptr) return {};
  Used& used = used_[stored.zip];
  TRY_VOID(add_within(used.stored, stored.size, limit_of(stored.zip_occupies, 2, 64'000'000), "stored"));
  return add_within(used.decoded, decoded, limit_of(stored.zip_occupies, 1'000, 1'000'000'000), "decoded");
}

Result<FileChecksums> FileHasher::sums_of(std::string_view path, const Source& source, bool is_named_by_digest) {
  const Stored stored = TRY(stored_of(source));
  const auto known = known_.find(stored.key);
  if (known != known_.end()) {
    reader_.add_read(source.size());
    return known->second;
  }
  TRY_VOID(take(stored, source.size()));
  Result<FileChecksums> sums = read(path, source, is_named_by_digest);
  if (sums || is_about_the_bytes(sums.error())) known_.emplace(stored.key, sums);
  return sums;
}

Result<FileChecksums> FileHasher::read(std::string_view path, const Source& source, bool is_named_by_digest) {
  Computed<Digest> sha256(wanted_[kPlace<Digest>]);
  Computed<Sha1> sha1(wanted_[kPlace<Sha1>]);
  Computed<Md5> md5(wanted_[kPlace<Md5>]);
  Crc32 crc;  // costs next to nothing
  // The store compares a blob's digest itself, and drops wrong bytes.
  if (is_named_by_digest) TRY_VOID(source.prefetch({0, source.size()}));
  TRY_VOID(reader_.read(path, source, [&](std::span<const std::byte> bytes) {
    sha256.update(bytes);
    sha1.update(bytes);
    md5.update(bytes);
    crc.value = crc32(crc.value, bytes);
  }));
  FileChecksums sums(crc);
  sha256.add_to(sums);
  sha1.add_to(sums);
  md5.add_to(sums);
  return sums;
}

}  // namespace weightfs
