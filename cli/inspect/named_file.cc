#include "cli/inspect/named_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "cli/console/suggestions.h"
#include "cli/console/words.h"
#include "fs/names.h"
#include "fs/source_tree.h"

namespace weightfs {
namespace {

constexpr size_t kMaxSearched = 64;  // models: each is parsed
constexpr size_t kMaxHaving = 3;

// The path of a tensor's file below its model: its name, escaped as the tree escapes it.
std::string tensor_path(std::string_view name) {
  std::string path = "tensors";
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    path += "/" + component(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return path;
}

// As typed, which may be a path that ls printed, or escaped.
std::optional<Ino> find_tensor(Forest& forest, const std::string& model, const std::string& name) {
  for (const std::string& path : {"tensors/" + name, tensor_path(name)})
    if (const auto found = forest.resolve(model + path, Forest::FinalLink::followed)) return *found;
  return std::nullopt;
}

// Models one level below the root: of a directory of models, or the containers in a container; each with a `/`.
std::vector<std::string> models_below(Forest& forest) {
  const bool is_model = forest.model_of(Forest::kRoot) != nullptr;
  const std::string above = is_model ? "nested/" : "";
  const auto directory = is_model ? forest.resolve("nested") : Result<Ino>(Forest::kRoot);
  const auto all = directory ? forest.list(*directory) : tl::unexpected(directory.error());
  std::vector<std::string> models;
  for (uint32_t i = 0; all && i < all->count && models.size() < kMaxSearched; ++i) {
    const Node node = all->tree->node(all->first + i);
    if (node.kind == NodeKind::tree || node.kind == NodeKind::directory)
      models.push_back(fmt::format("{}{}/", above, node.name()));
  }
  return models;
}

// Names the tensors of similar names, if it is one model.
Error with_similar_tensors(Forest& forest, const std::string& name, Error not_found) {
  constexpr size_t kMaxNames = 10'000;
  const ModelPtr model = forest.model_of(Forest::kRoot);
  std::vector<std::string> names;
  for (size_t i = 0; model != nullptr && i < std::min(model->tensors.size(), kMaxNames); ++i)
    names.push_back(printable(model->tensors.name(i)));
  not_found.message += did_you_mean(name, names);
  return not_found;
}

}  // namespace

Result<Ino> resolve_typed(Forest& forest, const TypedPath& typed, Forest::FinalLink final_link) {
  auto found = forest.resolve(typed.path, final_link);
  if (found || found.error().code != Code::not_found) return found;
  if (const auto tensor = find_tensor(forest, "", typed.path)) return *tensor;
  std::vector<std::string> having;
  std::optional<Ino> only;
  for (const std::string& model : models_below(forest))
    if (const auto tensor = find_tensor(forest, model, typed.path)) {
      having.push_back(model);
      only = tensor;
    }
  if (having.empty()) return failure(with_similar_tensors(forest, typed.path, found.error()));
  if (having.size() == 1) return *only;
  const auto source = command_word(printable_source(typed.source));
  std::string commands;
  for (size_t i = 0; i < std::min(having.size(), kMaxHaving); ++i) {
    const auto path = command_word(having[i] + tensor_path(typed.path));
    if (source && path)
      commands += fmt::format("{}weightfs {} {} {}", commands.empty() ? "" : ", or ", typed.command, *source, *path);
  }
  return failure(Code::not_found, fmt::format("a tensor of {} models; use {}{}", having.size(),
                                              commands.empty() ? "the path of one of them" : commands,
                                              having.size() > kMaxHaving ? ", …" : ""));
}

}  // namespace weightfs
