#include "report/compare/select_tensors.h"

#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "base/budget.h"
#include "base/text.h"
#include "formats/completeness.h"
#include "report/text/words.h"

namespace weightfs {
namespace {

bool matches(const std::string& pattern, const std::string& name) {
  return name == pattern || ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

// Why a pattern may not have all of its matches; nothing if it has.
std::optional<Error> reason_of_lost_match(const compare::FoundModel& found, const std::string& pattern) {
  for (const Lacks::LostFile& file : found.model->lacks->lost)
    for (const std::string& name : file.tensors)
      if (matches(pattern, join_path(found.path, name))) return Error{file.reason.code, file.reason.message};
  return reason_of_missing(*found.model, pattern);
}

std::optional<Error> reason_of_lost_match(const std::vector<compare::FoundModel>& models, const std::string& pattern) {
  std::optional<Error> worst;
  for (const compare::FoundModel& found : models) {
    auto reason = reason_of_lost_match(found, pattern);
    if (reason && (!worst || &worse(*worst, *reason) != &*worst)) worst = std::move(reason);
  }
  return worst;
}

bool is_number(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == text.npos; }

}  // namespace

std::string full_name(const TensorView& tensor) {
  return tensor.scope.empty() ? std::string(tensor.name) : fmt::format("{}/{}", tensor.scope, tensor.name);
}

std::string full_name(const compare::FoundModel& found, const TensorView& tensor) {
  return join_path(found.path, full_name(tensor));
}

std::string layer_of(std::string_view name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find_first_of("./", begin), name.size());
    if (begin > 0 && is_number(name.substr(begin, end - begin))) return std::string(name.substr(0, end));
    begin = end + 1;
  }
  return {};
}

namespace {

constexpr uint64_t kRepeats = 100;  // how often the bytes of the files may be read
constexpr uint64_t kMaxStored = UINT64_MAX / kRepeats / 2;
constexpr uint64_t kStepsOfTensor = 15;  // Cost::step: of opening it and writing 3 KB of JSON

}  // namespace

void FigureCost::add(const TensorView& tensor, uint64_t bytes) {
  const Source* const file = tensor.source.whole().get();
  if (file != nullptr && files_.insert(file).second) stored_ += std::min(file->size(), kMaxStored - stored_);
  bytes_ = bytes > UINT64_MAX - bytes_ ? UINT64_MAX : bytes_ + bytes;
  ++tensors_;
}

Result<void> FigureCost::check() const {
  constexpr uint64_t kUnexplained = uint64_t{16} << 30;  // bytes that may be read whatever the files have
  if (bytes_ > kUnexplained + kRepeats * stored_)
    return failure(Code::unsupported,
                   fmt::format("the tensors have {}, but their files only {}; use --sample, or fewer tensors",
                               human_size(bytes_), human_size(stored_)));
  if (!Budget(stored_).charge(Cost::step, tensors_ * kStepsOfTensor))
    return failure(Code::unsupported, fmt::format("figures of {} tensors take longer than their files of {} allow; "
                                                  "name fewer tensors",
                                                  tensors_, human_size(stored_)));
  return {};
}

Result<std::vector<compare::TensorPlace>> select_tensors(const std::vector<compare::FoundModel>& models,
                                                         const std::vector<std::string>& patterns) {
  std::vector<compare::TensorPlace> selected;
  std::vector<bool> has_match(patterns.size());
  for (size_t m = 0; m < models.size(); ++m) {
    const TensorList& tensors = models[m].model->tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const std::string name = patterns.empty() ? "" : full_name(models[m], tensors[i]);
      bool is_selected = patterns.empty();
      for (size_t p = 0; p < patterns.size(); ++p) {
        if (!matches(patterns[p], name)) continue;
        has_match[p] = true;
        is_selected = true;
      }
      if (is_selected) selected.push_back({m, i});
    }
  }
  for (size_t p = 0; p < patterns.size(); ++p) {
    if (has_match[p]) continue;
    const auto reason = reason_of_lost_match(models, patterns[p]);
    return reason ? failure(reason->code, fmt::format("{}: {}", quoted(patterns[p]), reason->message))
                  : failure(Code::not_found, fmt::format("no tensor matches {}", quoted(patterns[p])));
  }
  return selected;
}

std::optional<Error> reason_of_incomplete(const std::vector<compare::FoundModel>& models,
                                          const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    if (pattern.find_first_of("*?[") == pattern.npos) continue;
    if (auto reason = reason_of_lost_match(models, pattern))
      return Error{reason->code, fmt::format("{} may match more tensors: {}", quoted(pattern), reason->message)};
  }
  return std::nullopt;
}

Result<std::vector<size_t>> select_tensors(const ModelPtr& model, const std::vector<std::string>& patterns) {
  std::vector<size_t> selected;
  for (const compare::TensorPlace& place : TRY(select_tensors({compare::FoundModel{"", model}}, patterns)))
    selected.push_back(place.index);
  return selected;
}

}  // namespace weightfs
