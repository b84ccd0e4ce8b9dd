#include "formats/verify.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "base/text.h"
#include "formats/archive/symlink.h"
#include "formats/directory/weight_files.h"
#include "formats/one_model.h"

namespace weightfs {
namespace {

// What was read, of which the checksums are compared.
struct WasRead {
  const ReadBytes& known;
  Others others;

  // Null if other bytes may have been read, too.
  const ReadBytes* only_known() const { return others == Others::none ? &known : nullptr; }
};

// Whether a read compares it. A layer, and what reads of tensors compare, are compared anyway.
bool is_for_reads(const FileCheck& check) {
  const bool has_sums =
      std::holds_alternative<FileChecksums>(check.expected) || std::holds_alternative<RangeChecksums>(check.expected);
  return has_sums && check.of != FileCheck::Of::layer;
}

class Verifier {
 public:
  // Compares everything if `read` is null.
  Verifier(const Model& model, const std::function<void(const Progress&)>& report, const WasRead* read)
      : model_(model), read_(read), reader_(report) {
    for (const Part& part : model.parts) {
      by_path_.emplace(part.path, &part);
      want(part.checksums, part.source);
    }
    for (const FileCheck& check : *model.checks) {
      if (check.is_stated_outside()) named_.insert(check.subject);
      std::visit([&](const auto& expected) { want(expected, check.bytes); }, check.expected);
    }
  }

  // What is stated outside of the files comes first, then the parts, and then the rest.
  Verification run() {
    for (const FileCheck& check : *model_.checks)
      if (check.is_stated_outside()) run(check);
    for (const Part& part : model_.parts) run(part);
    for (const FileCheck& check : *model_.checks)
      if (!check.is_stated_outside()) run(check);
    return std::move(out_);
  }

 private:
  void want(const FileChecksums& sums, const Later<SourcePtr>& file) {
    sums_.want(sums);
    if (const auto source = file.peek(); source && !sums.empty()) reader_.add_total((*source)->size());
  }
  void want(const RangeChecksums& ranges, const Later<SourcePtr>& file) {
    if (const auto source = file.peek()) reader_.add_total(ranges.bytes_in_ranges((*source)->size()));
  }
  void want(const CheckedTensors& checked, const Later<SourcePtr>& /*file*/) {
    for (const size_t tensor : checked.tensors) reader_.add_total(model_.tensors[tensor].source.size());
  }
  void want(const Unlisted& /*file*/, const Later<SourcePtr>& /*file*/) {}

  void run(const Part& part) {
    const bool is_named = named_.contains(part.path);
    if (part.checksums.empty()) {
      if (!is_named) ++out_.unchecked;
      return;
    }
    if (read_ != nullptr && !is_read(part.source, part.is_structure, read_->only_known())) return;
    if (take(part.path, compare(part)) && !is_named) ++out_.checked;
  }

  void run(const FileCheck& check) {
    if (read_ != nullptr && !is_for_reads(check)) return;
    std::visit([&](const auto& expected) { run(check, expected); }, check.expected);
  }

  void run(const FileCheck& check, const FileChecksums& expected) {
    if (check.is_stated_outside()) return run_stated(check, expected);
    if (read_ != nullptr && !is_read(check.bytes, false, read_->only_known())) return;
    // The models in an archive are verified by themselves.
    const bool is_nested = model_.has_members && model_.nested;
    if (read_ == nullptr && check.of == FileCheck::Of::member && is_nested) return;
    if (!take(check.subject, compare(check.subject, check.bytes, expected))) return;
    if (check.of == FileCheck::Of::layer)
      out_.packed.push_back(check.subject);
    else
      ++out_.checked;
  }

  void run_stated(const FileCheck& check, const FileChecksums& expected) {
    if (read_ != nullptr) {
      // Only external data of ONNX states an SHA-1 here. Its tensors are ranges of the file, so the bytes read are
      // known.
      const bool is_known = expected.get<Sha1>() != nullptr;
      if (may_differ(check) || !is_most_read(check.bytes, is_known ? &read_->known : read_->only_known())) return;
    }
    const bool is_first = reported_.insert(check.subject).second;
    auto compared = compare(check.subject, check.bytes, expected);
    if (compared && !compared->empty() && may_differ(check))
      return add(out_.edited,
                 fmt::format("{}: modified after the download, and differs from it", quoted(check.subject)));
    if (compared && !compared->empty() && !check.stated_in.empty())
      *compared +=
          fmt::format(" by {}{}", check.stated_in, check.is_modified ? "; the file was modified after that" : "");
    const bool is_right = take(check.subject, compared);
    if (is_first && is_right) ++out_.checked;
  }

  void run(const FileCheck& check, const RangeChecksums& all) {
    const SourcePtr file = check.bytes.peek().value_or(nullptr);
    if (file == nullptr) return;
    const ReadBytes* const read = read_ == nullptr ? nullptr : read_->only_known();
    if (read == nullptr) return compare_ranges(check, *file, all);
    RangeChecksums some{all.order, all.is_table, {}};
    for (const RangeChecksum& range : all.ranges)
      if (read->has_any_of(*file, range.offset, range.size)) some.ranges.push_back(range);
    compare_ranges(check, *file, some);
  }

  // Reading a tensor compares its checksums.
  void run(const FileCheck& /*check*/, const CheckedTensors& checked) {
    for (const size_t i : checked.tensors) {
      const TensorView& tensor = model_.tensors[i];
      const std::string name = fmt::format("tensor {}", quoted(tensor.name));
      if (const auto read = reader_.read(name, tensor.source, [](std::span<const std::byte>) {}); !read)
        add(out_.unreadable, {read.error().code, fmt::format("{}: {}", name, read.error().message)});
      else
        ++out_.tensors;
    }
  }

  void run(const FileCheck& check, const Unlisted& /*file*/) {
    add(out_.wrong, fmt::format("{}: not in the container's list of its files", quoted(check.subject)));
  }

  // People edit a config.json that they have downloaded, but no weights.
  bool may_differ(const FileCheck& check) {
    const std::string_view name = std::string_view(check.subject).substr(check.subject.rfind('/') + 1);
    if (!check.is_modified || model_.has_members || is_named_as_weights(name)) return false;
    if (!weights_) weights_ = weight_files_of(model_);
    return std::ranges::find(*weights_, check.subject) == weights_->end();
  }

  template <class Line>
  void add(std::vector<Line>& lines, std::type_identity_t<Line> line) {
    if (lines.size() == Verification::kMaxLines)
      ++out_.more;
    else
      lines.push_back(std::move(line));
  }

  // Reports what was found. Whether it matches.
  bool take(const std::string& path, const Result<std::string>& compared) {
    const std::string name = quoted(path);
    if (!compared) {
      const Error& error = compared.error();  // those of members include their names
      add(out_.unreadable,
          error.message.starts_with(name) ? error : Error{error.code, fmt::format("{}: {}", name, error.message)});
    } else if (!compared->empty()) {
      add(out_.wrong, fmt::format("{}: {}", name, *compared));
    }
    return compared && compared->empty();
  }

  void compare_ranges(const FileCheck& check, const Source& file, const RangeChecksums& ranges) {
    const auto on_bytes = [&](uint64_t count) {
      reader_.add_read(count);
      reader_.show(check.subject);
    };
    const auto on_sum = [&](const RangeChecksum& range, uint32_t stored, uint32_t found) {
      if (stored == found) {
        ++out_.ranges;
        return;
      }
      const std::string what = range.tensor < model_.tensors.size()
                                   ? fmt::format("tensor {}", quoted(model_.tensors.name(range.tensor)))
                                   : fmt::format("{}: the block at {}", quoted(check.subject), range.offset);
      if (out_.wrong.size() < Verification::kMaxLines) ++out_.wrong_ranges;
      add(out_.wrong, fmt::format("{}: CRC-32C is {}, should be {}", what, Crc32{found}.hex(), Crc32{stored}.hex()));
    };
    if (const auto done = each_range_sum(file, ranges, on_bytes, on_sum); !done)
      add(out_.unreadable,
          with_message(done.error(), fmt::format("{}: {}", quoted(check.subject), done.error().message)));
  }

  Result<std::string> compare(const Part& part) {
    const Part* file = archive::resolve_link(&part, [this](const std::string& path) {
      const auto found = by_path_.find(path);
      return found == by_path_.end() ? nullptr : found->second;
    });
    if (file == nullptr)
      return failure(Code::not_found, fmt::format("a link to {}, which does not exist", quoted(part.link_target)));
    return compare(part.path, file->source, part.checksums);
  }

  Result<std::string> compare(const std::string& path, const Later<SourcePtr>& file, const FileChecksums& expected) {
    const SourcePtr source = TRY(file.get());
    return sums_.difference(path, *source, expected);
  }

  const Model& model_;
  const WasRead* const read_;
  std::map<std::string_view, const Part*> by_path_;
  std::set<std::string_view> named_;                 // files with stated checksums
  std::set<std::string_view> reported_;              // of them, those that were compared: each is one file
  std::optional<std::vector<std::string>> weights_;  // the files that hold tensors, once they were asked for
  ReportingReader reader_;
  FileHasher sums_{reader_};
  Verification out_;
};

}  // namespace

Verification verify(const Model& model, const std::function<void(const Progress&)>& report) {
  return Verifier(model, report, nullptr).run();
}

Result<void> compare_files_of(const Model& model, const ReadBytes& read, Others others) {
  const WasRead was_read{read, others};
  const Verification found = Verifier(model, nullptr, &was_read).run();
  if (!found.unreadable.empty()) return failure(found.unreadable.front());
  if (found.wrong.empty()) return {};
  return failure(Code::mismatch, found.wrong.front());
}

Result<void> compare_files_of_tensors(const Model& model, std::span<const size_t> tensors) {
  const bool has_any = std::ranges::any_of(*model.checks, is_for_reads) ||
                       std::ranges::any_of(model.parts, [](const Part& part) { return !part.checksums.empty(); });
  if (!has_any) return {};
  ReadBytes read;
  bool is_all_known = true;
  for (const size_t i : tensors)
    if (!model.tensors.is_refused(i)) is_all_known = read.add(model.tensors[i].source) && is_all_known;
  return compare_files_of(model, read, is_all_known ? Others::none : Others::any);
}

}  // namespace weightfs
