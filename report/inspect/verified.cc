#include "report/inspect/verified.h"

#include <fmt/core.h>

#include <vector>

#include "base/text.h"
#include "report/text/words.h"

namespace weightfs {
namespace {

std::string summarize_files(const Model& model, const Verification& found) {
  const std::string tensors = counted(model.tensors.size(), "tensor", "tensors");
  std::vector<std::string> compared;
  if (found.checked > 0)
    compared.push_back(found.checked == 1 ? "1 file matches its checksum"
                                          : fmt::format("{} files match their checksums", found.checked));
  if (found.ranges > 0)
    compared.push_back(found.ranges == 1 ? "1 range of a file matches its checksum"
                                         : fmt::format("{} ranges of files match their checksums", found.ranges));
  if (found.tensors > 0)
    compared.push_back(found.tensors == 1 ? "1 tensor matches its checksums"
                                          : fmt::format("{} tensors match their checksums", found.tensors));
  if (found.packed.size() == 1) compared.push_back(fmt::format("layer {} matches", found.packed.front()));
  if (found.packed.size() > 1) compared.push_back(fmt::format("{} layers match their digests", found.packed.size()));
  if (compared.empty()) return fmt::format("{} has no checksums; structure valid, {}", model.format, tensors);
  const bool is_every_file = found.unchecked == 0 || !found.packed.empty() || found.ranges > 0 || found.tensors > 0;
  const uint64_t other_tensors = model.tensors.size() - found.tensors;
  if (found.tensors > 0 && other_tensors > 0) compared.push_back(fmt::format("{} have none", other_tensors));
  if (!is_every_file) compared.push_back(fmt::format("{} have none", found.unchecked));
  return enumerated(compared);
}

}  // namespace

std::string summarize(const Model& model, const Verification& found) {
  const size_t others = model.chosen->alternatives.size();
  const std::string text = summarize_files(model, found);
  if (others == 0) return text;
  return fmt::format("{}; not verified: {}, which --file opens", text, counted(others, "alternative", "alternatives"));
}

std::string count_wrong(const Verification& found) {
  const uint64_t files = found.wrong.size() - found.wrong_ranges;
  std::vector<std::string> wrong;
  if (files > 0) wrong.push_back(counted(files, "wrong file", "wrong files"));
  if (found.wrong_ranges > 0)
    wrong.push_back(counted(found.wrong_ranges, "wrong range of a file", "wrong ranges of files"));
  return enumerated(wrong);
}

std::string count_unreadable(const Model& model, const Verification& found) {
  const bool may_be_tensors = has_check<CheckedTensors>(*model.checks);
  return counted(found.unreadable.size(), may_be_tensors ? "file or tensor" : "file",
                 may_be_tensors ? "files or tensors" : "files");
}

}  // namespace weightfs
