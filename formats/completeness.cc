#include "formats/completeness.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "formats/common/missing_shards.h"
#include "formats/grouped.h"
#include "formats/model.h"

namespace weightfs {
namespace {

// From the worst on: wrong bytes first, and last what may pass.
constexpr std::array kFromWorst = {Code::mismatch,  Code::corrupt,     Code::not_found, Code::absent,
                                   Code::forbidden, Code::unsupported, Code::network,   Code::unreachable,
                                   Code::resource,  Code::io,          Code::stale};
static_assert(kFromWorst.size() == kCodes);

// What else the model lacks than for the reason: shards, which may be missing beside damaged ones, or another file.
std::string second_reason(const Model& model, const Error& reason) {
  if (!MissingShards::is_report(reason.message)) {
    const auto report = std::ranges::find_if(model.warnings, MissingShards::is_report);
    if (report != model.warnings.end()) return *report;
  }
  const Lacks& lacks = *model.lacks;
  for (const Code code : kFromWorst) {
    const Lacks::Group& group = lacks.by_code[static_cast<size_t>(code)];
    if (lacks.files > (lacks.short_by > 0 ? 0U : 1U) && code != reason.code && group.count > 0) return group.first;
  }
  return "";
}

uint64_t refused_tensors(const TensorList& tensors) {
  uint64_t refused = 0;
  for (size_t i = 0; i < tensors.size(); ++i) refused += tensors.is_refused(i) ? 1u : 0u;
  return refused;
}

}  // namespace

Completeness completeness_of(const Model& model) {
  const Lacks& lacks = *model.lacks;
  const uint64_t all_refused = refused_tensors(model.tensors);
  const uint64_t refused = all_refused - std::min(all_refused, lacks.passed_over_tensors);
  Completeness out{.tensors = model.tensors.size() + lacks.missing_tensors,
                   .unreadable = refused + lacks.missing_tensors,
                   .files = lacks.files,
                   .short_by = lacks.short_by,
                   .reason = {},
                   .second = {}};
  for (const Code code : kFromWorst) {
    const Lacks::Group& group = lacks.by_code[static_cast<size_t>(code)];
    if (group.count > 0 && !out.reason) out.reason = Error{code, group.first};
  }
  if (!out.reason && refused > 0) out.reason = Error{Code::corrupt, "see warnings.txt"};
  if (out.reason) out.second = second_reason(model, *out.reason);
  return out;
}

bool may_lack_tensors(const Model& model) {
  return model.lacks->missing_tensors > 0 || model.lacks->files > model.lacks->lost.size();
}

bool has_all_tensors(const Model& model) {
  const Completeness completeness = completeness_of(model);
  return completeness.unreadable == 0 && completeness.short_by == 0 && !may_lack_tensors(model);
}

std::optional<Error> reason_of_missing(const Model& model, std::string_view tensor) {
  const Lacks& lacks = *model.lacks;
  uint64_t known = 0;
  for (const Lacks::LostFile& file : lacks.lost) {
    if (std::ranges::find(file.tensors, tensor) != file.tensors.end()) return file.reason;
    known += file.tensors.size();
  }
  if (lacks.files <= lacks.lost.size() && lacks.missing_tensors <= known) return std::nullopt;
  const Completeness completeness = completeness_of(model);
  if (completeness.is_complete()) return std::nullopt;
  return Error{completeness.reason->code,
               fmt::format("not in what could be read of the model; {}", to_sentence(completeness))};
}

Error reason_of_refused(const Model& model, std::string_view tensor) {
  for (const Lacks::LostFile& file : model.lacks->lost)
    if (std::ranges::find(file.tensors, tensor) != file.tensors.end()) return file.reason;
  const Completeness completeness = completeness_of(model);
  if (completeness.short_by > 0) return {completeness.reason->code, to_sentence(completeness)};
  Error reason = completeness.reason.value_or(Error{Code::unsupported, "see warnings.txt"});
  const std::string name = fmt::format("tensor {}: ", quoted(tensor));
  for (const std::string& line : model.warnings)
    if (line.find(name) != line.npos) reason.message = line;
  return reason;
}

const Error& worse(const Error& a, const Error& b) {
  const auto place = [](const Error& error) { return std::ranges::find(kFromWorst, error.code); };
  return place(b) < place(a) ? b : a;
}

Code code_of_lack(const Error& error) {
  return error.code == Code::unsupported && error.name != nullptr ? Code::corrupt : error.code;
}

namespace {

std::string sentence_of_cut_file(const Completeness& completeness) {
  std::string out = fmt::format("the file ends {} early", exact_size(completeness.short_by));
  if (completeness.unreadable > 0)
    out += fmt::format(": {} of {} tensors refused", completeness.unreadable, completeness.tensors);
  out += "; interrupted download?";
  if (!completeness.second.empty()) out += fmt::format(" {}", completeness.second);
  return out;
}

// A reason without the number of tensors at its end, if that is the one at the beginning of the sentence.
std::string_view without_count(std::string_view reason, const Completeness& completeness) {
  for (const char* const state : {"refused", "missing"})
    if (const std::string count = "; " + lost_tensors(completeness.unreadable, state); reason.ends_with(count))
      reason.remove_suffix(count.size());
  return reason;
}

// What the reason is a reason for: "7 of 20 tensors cannot be read: ". Missing shards are counted in theirs.
std::string beginning(const Completeness& completeness) {
  const auto& [tensors, unreadable, files, short_by, reason, second] = completeness;
  if (unreadable > 0) return fmt::format("{} of {} tensors cannot be read: ", unreadable, tensors);
  if (files == 0) return "the model is incomplete: ";
  if (MissingShards::is_report(reason->message)) return "";
  const bool is_missing = reason->code == Code::not_found || reason->code == Code::absent;
  const char* const state = !is_missing ? "cannot be read" : files == 1 ? "is missing" : "are missing";
  return fmt::format("{} {} {}: ", files, files == 1 ? "file" : "files", state);
}

}  // namespace

std::string to_sentence(const Completeness& completeness) {
  if (completeness.is_complete()) return "";
  if (completeness.short_by > 0) return sentence_of_cut_file(completeness);
  std::string out = beginning(completeness);
  out += without_count(completeness.reason->message, completeness);
  if (!completeness.second.empty()) out += fmt::format("; {}", without_count(completeness.second, completeness));
  return out;
}

}  // namespace weightfs
