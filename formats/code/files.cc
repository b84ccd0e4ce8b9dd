#include "formats/code/files.h"

#include <fmt/core.h>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/code/keras.h"
#include "formats/code/monai.h"
#include "formats/code/operators.h"
#include "formats/code/targets.h"
#include "formats/code/template.h"
#include "formats/common/lenient_json.h"
#include "formats/format.h"
#include "formats/protobuf/scanner.h"

namespace weightfs::code {
namespace {

// The most bytes of all files that are read: in a directory, and in an archive, whose members may be compressed.
constexpr uint64_t kMaxBytes = 64'000'000, kMaxMemberBytes = 16'000'000;
constexpr size_t kMaxNotExamined = 20;
constexpr std::string_view kKerasMetadata = "keras_metadata.pb";

bool is_template(std::string_view path) { return path.ends_with(".jinja") || path.ends_with(".jinja2"); }

// "libx.so", "libx.so.1".
bool is_library(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const size_t so = name.find(".so.");
  const bool has_version = so != name.npos && so + 4 < name.size() && name[so + 4] >= '0' && name[so + 4] <= '9';
  return has_version || name.ends_with(".so") || name.ends_with(".dll") || name.ends_with(".dylib") ||
         name.ends_with(".pyd");
}

// The source code of TorchScript: archive/code/__torch__.py, .data/ts_code/0/code/….
bool is_torchscript(std::string_view path) {
  return path.ends_with(".py") && (path.starts_with("code/") || path.find("/code/") != path.npos);
}

bool is_package(const Model& model) {
  const Map* const facts = model.metadata.find_as<Map>("pytorch");
  const bool* const is_package = facts == nullptr ? nullptr : facts->find_as<bool>("package");
  return is_package != nullptr && *is_package;
}

// For one file. A member of an archive may be much larger than what the archive has of it.
Budget budget_for(const Model& model, uint64_t size) { return Budget(model.has_members ? 0 : size); }

}  // namespace

bool FileExaminer::is_wanted(const std::string& path) const {
  if (is_configuration(path) || is_template(path) || may_have_targets(path) || is_bundle_configuration(path))
    return true;
  if (is_torchscript(path) && traits_of(model_.format).may_have_torchscript) return true;
  return std::string_view(path).substr(path.rfind('/') + 1) == kKerasMetadata;
}

void FileExaminer::examine() {
  if (!model_.chosen.is_set() && !model_.has_members) return;
  for (const Part& part : model_.parts) {
    examine_name(part);
    if (!is_wanted(part.path)) continue;
    const auto examined = examine_content(part);
    if (examined || examined.error().code == Code::not_found) continue;
    if (not_examined_.size() < kMaxNotExamined)
      not_examined_.push_back(fmt::format("{}: not examined: {}", part.path, examined.error().message));
  }
}

void FileExaminer::examine_name(const Part& part) {
  if (is_library(part.path)) out_.add({"shared library", part.path, "when a program loads the library"});
  if (part.path.ends_with(".py") && is_package(model_) && part.path.find("/.data/") == part.path.npos)
    out_.add({"module of torch.package", part.path, "when torch.package imports the module"});
}

Result<std::string> FileExaminer::text_of(const Part& part) {
  const Part* const stored = paths_.resolve(part);
  if (stored == nullptr) return failure(Code::not_found, "missing");
  const SourcePtr file = TRY(stored->source.get());
  if (file->size() > kMaxSmallJson || file->size() > (model_.has_members ? kMaxMemberBytes : kMaxBytes) - bytes_)
    return failure(Code::unsupported, fmt::format("{} is too much", human_size(file->size())));
  bytes_ += file->size();
  return read_text(*file, 0, file->size());
}

// A file that is not valid is as one that has nothing: its readers fail, too.
Result<void> FileExaminer::examine_content(const Part& part) {
  const std::string text = TRY(text_of(part));
  if (is_template(part.path)) add_template(text, part.path, out_);
  if (may_have_targets(part.path)) examine_yaml(text, part.path);
  if (traits_of(model_.format).may_have_torchscript && is_torchscript(part.path))
    add_torchscript(text, part.path, out_);
  const SourcePtr file = in_memory(text);
  if (part.path.ends_with(kKerasMetadata)) return examine_keras(*file, part.path);
  const bool is_bundle = is_bundle_configuration(part.path) && part.path.ends_with(".json");
  if (!is_configuration(part.path) && !is_bundle) return {};
  Budget budget = budget_for(model_, text.size());
  const auto json = parse_small_json(*file, budget);
  if (!json) return json.error().code == Code::corrupt ? Result<void>() : tl::unexpected(json.error());
  if (is_configuration(part.path)) add_configuration(*json, part.path, paths_, out_);
  if (is_bundle) add_bundle(*json, part.path, out_);
  return {};
}

void FileExaminer::examine_yaml(const std::string& text, const std::string& path) {
  const bool is_bundle = is_bundle_configuration(path);
  add_targets(text, path,
              is_bundle                                            ? Instantiator::monai
              : traits_of(model_.format).framework == Traits::nemo ? Instantiator::nemo
                                                                   : Instantiator::hydra,
              out_);
  if (is_bundle) add_expressions(without_escapes(text), path, out_);
}

// SavedMetadata: a node each, with the configuration of its object as JSON.
Result<void> FileExaminer::examine_keras(const Source& file, const std::string& path) {
  constexpr uint32_t kNode = protobuf::bytes(1), kConfiguration = protobuf::bytes(5);
  Budget budget = budget_for(model_, file.size());
  protobuf::Scanner scanner(file, &budget);
  const protobuf::Message whole = scanner.whole();
  protobuf::Fields nodes(scanner, whole);
  while (const auto node = TRY(nodes.next())) {
    if (node->tag != kNode) continue;
    const protobuf::Message message = TRY(scanner.child(whole, *node));
    const std::string text = TRY(scanner.text_at(message, kConfiguration, kMaxSmallJson));
    const auto json = parse_small_json(*in_memory(text), budget);
    if (!json) continue;
    add_keras(*json, path, out_);
    release(footprint(*json), budget);
  }
  return {};
}

}  // namespace weightfs::code
