#include "report/info/file_facts.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "formats/completeness.h"
#include "formats/format.h"
#include "fs/tree/listing.h"

namespace weightfs::info {
namespace {

constexpr size_t kMostAlternatives = 3;

// "3 GGUF", "onnx/model.onnx": files of a format that has several are counted.
std::vector<std::string> alternatives_of(const summary::Summary& summary) {
  std::map<std::string_view, size_t> counts;
  std::vector<std::string> out;
  for (const summary::Alternative& one : summary.alternatives) {
    if (traits_of(one.format).has_many_quantisations)
      ++counts[format_named(one.format)->title];
    else
      out.push_back(one.path);
  }
  std::vector<std::string> counted;
  for (const auto& [title, count] : counts) counted.push_back(fmt::format("{} {}", count, title));
  out.insert(out.begin(), counted.begin(), counted.end());
  return out;
}

// Whether a part is bytes in the file of a model, such as the metadata in a TFLite file.
bool is_inside(const Part& part, const Model& model) {
  if (!model.stored_bytes) return false;
  const auto source = part.source.peek();
  return source && dynamic_cast<const Slice*>(source->get()) != nullptr;
}

// Whether the parts include the file of the model itself besides its members, such as a TFLite file with a zip behind
// it.
bool has_own_file(const Model& model) {
  return std::ranges::any_of(model.parts, [&](const Part& part) {
    const auto source = part.source.peek();
    return source && model.stored_bytes == (*source)->size();
  });
}

// The number of files; of a model in several, that of those with weights.
std::string count_of_files(const Subject& subject) {
  if (std::string text = weight_files_text(subject); !text.empty()) return text;
  const Model& model = subject.model;
  if (model.has_members) {
    const size_t members = model.parts.size();
    return has_own_file(model) ? "1" : grouped(members) + (members == 1 ? " member" : " members");
  }
  const auto outside = std::ranges::count_if(model.parts, [&](const Part& part) { return !is_inside(part, model); });
  const size_t count = std::max<size_t>(static_cast<size_t>(outside), model.parts.empty() ? 0 : 1);
  return count > 1 ? fmt::format("{}, {}", grouped(count), bytes_text(file_bytes(model))) : grouped(count);
}

// Where the digests of the files with weights are stated that `verify` compares; "" if none is known of members of a
// container.
std::string unverified_text(const Subject& subject) {
  constexpr const char* kLater = "digest {}: not compared yet";
  const Model& model = subject.model;
  const auto& weights = subject.summary.weight_files;
  const auto has_weights = [&](const std::string& path) {
    return model.has_members || model.parts.size() == 1 || std::ranges::find(weights, path) != weights.end();
  };
  for (const FileCheck& check : *model.checks)
    if (check.is_stated_outside() && has_weights(check.subject))
      return fmt::format(kLater, check.stated_in.empty()         ? "in the model"
                                 : check.stated_in == "its name" ? "in the name"
                                                                 : "beside the file");
  const auto has_any = [&](const auto& is_known) {
    return std::ranges::any_of(model.parts, [&](const Part& part) { return has_weights(part.path) && is_known(part); });
  };
  if (has_any([](const Part& part) { return part.checksums.get<Digest>() != nullptr; }))
    return fmt::format(kLater, "in the manifest");
  if (model.parts.empty() || (model.parts.size() > 1 && model.has_members)) return "";
  if (has_any([](const Part& part) { return !part.checksums.empty(); }) || has_check<RangeChecksums>(*model.checks) ||
      has_check<CheckedTensors>(*model.checks))
    return "checksums in the file: not compared yet";
  return "not verified (no digest known)";
}

// Warnings of the summary, but for that which stands in place of the number of parameters.
std::vector<std::string> warnings_about_facts(const Subject& subject) {
  const std::vector<std::string>& all = subject.model.warnings;
  std::vector<std::string> out;
  std::ranges::copy_if(subject.summary.warnings, std::back_inserter(out), [&](const std::string& warning) {
    return std::ranges::find(all, warning) == all.end() &&
           warning.find(": the number of parameters is ") == warning.npos;
  });
  return out;
}

}  // namespace

VerifiedBy verification_of(const Model& model) {
  auto worst = VerifiedBy::unknown;
  const Source* last = nullptr;
  for (const TensorView& tensor : model.tensors) {
    const Source* const file = tensor.source.whole().get();
    if (file != nullptr && file != last) worst = worse(worst, file->verification());
    last = file;
  }
  return worst;
}

std::string verification_text(const Subject& subject) {
  const std::string_view verified = to_text(verification_of(subject.model));
  return verified.empty() ? unverified_text(subject) : fmt::format("verified: {}", verified);
}

FilesText files_text(const Subject& subject) {
  FilesText out{count_of_files(subject)};
  if (const auto completeness = completeness_of(subject.model); !completeness.is_complete()) {
    out.is_needed = true;
    out.text +=
        completeness.short_by > 0 ? fmt::format("; {} missing", bytes_text(completeness.short_by)) : "; incomplete";
  }
  if (const std::string verified = verification_text(subject); !verified.empty()) out.text += "; " + verified;
  if (!subject.summary.alternatives.empty()) {
    out.is_needed = true;
    out.text += "; also here: " + listed(alternatives_of(subject.summary), kMostAlternatives);
  }
  return out;
}

std::string weight_files_text(const Subject& subject) {
  const Model& model = subject.model;
  const auto& weights = subject.summary.weight_files;
  if (weights.size() < 2 || model.has_members) return "";
  const bool are_shards = weights.front().find("-of-") != std::string::npos;
  std::set<std::string_view> inside;
  for (const Part& part : model.parts)
    if (is_inside(part, model)) inside.insert(part.path);
  const auto count = std::ranges::count_if(weights, [&](const std::string& path) { return !inside.contains(path); });
  return count < 2 ? "" : fmt::format("{} {}", count, are_shards ? "shards" : "files with weights");
}

std::string training_text(const summary::Summary& summary, const Style& style) {
  if (summary.training_state.empty()) return "";
  uint64_t bytes = 0;
  std::vector<std::string> names;
  for (const summary::Alternative& file : summary.training_state) {
    bytes += file.bytes;
    names.emplace_back(base_name(file.path));
  }
  std::string steps = summary.training_steps ? fmt::format("{} steps, ", grouped(*summary.training_steps)) : "";
  if (style.is_narrow()) return steps + bytes_text(bytes);
  return fmt::format("state{}{}{}: {}", steps.empty() ? ", " : " of ", steps, bytes_text(bytes), listed(names, 1));
}

std::string repository_text(const Subject& subject) {
  constexpr size_t kDigits = 12;  // of a commit, as git abbreviates it
  const Map& common = subject.model.common;
  std::string out = subject.summary.repository, commit = subject.summary.commit;
  if (out.empty()) out = text_in(common, "repository");
  if (commit.empty()) commit = text_in(common, "commit");
  if (commit.empty()) return out;
  return fmt::format("{}{}{}", out, out.empty() ? "commit " : " at ", commit.substr(0, kDigits));
}

std::string signature_text(const Model& model) {
  const Map* const signature = model.common.find_as<Map>("signature");
  if (signature == nullptr) return "";
  const auto number = [&](const char* key) {
    const auto* const value = signature->find_as<uint64_t>(key);
    return grouped(value == nullptr ? 0 : *value);
  };
  return fmt::format("of {} files: {} equal, {} different, {} unknown; not verified", number("resources"),
                     number("equal"), number("different"), number("unknown"));
}

std::vector<WarningsText> warnings_texts(const Subject& subject, const Style& style) {
  constexpr size_t kMostShown = 3;
  constexpr size_t kMostOfOne = 240;  // columns
  const Lacks& lacks = *subject.model.lacks;
  const auto is_lack = [&](const std::string& warning) {
    return std::ranges::any_of(lacks.by_code, [&](const Lacks::Group& group) { return group.first == warning; });
  };
  size_t count = subject.model.warnings.size();
  for (const Lacks::Group& group : lacks.by_code) count -= std::min<uint64_t>(count, group.count);
  std::vector<std::string> shown;
  if (count > 0) std::ranges::remove_copy_if(subject.model.warnings, std::back_inserter(shown), is_lack);
  const std::vector<std::string> about_facts = warnings_about_facts(subject);
  std::vector<WarningsText> out;
  if (shown.size() + about_facts.size() <= kMostShown) {
    shown.insert(shown.end(), about_facts.begin(), about_facts.end());
    for (const std::string& warning : shown) out.push_back({"warning", cut(clean(warning, style), kMostOfOne, style)});
    return out;
  }
  if (count > 0)
    out.push_back(
        {"warnings", fmt::format("{}: weightfs cat {} warnings.txt", grouped(count), shell_word(subject.source))});
  if (!about_facts.empty())
    out.push_back({"warnings", fmt::format("{} about its facts: --json", grouped(about_facts.size()))});
  return out;
}

}  // namespace weightfs::info
