#include "report/inspect/named_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "formats/completeness.h"
#include "fs/layout/source_tree.h"
#include "fs/names.h"
#include "report/inspect/models_below.h"
#include "report/text/suggestions.h"
#include "report/text/words.h"

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

// Models of a directory of models, or the containers in a container; each with a `/`.
std::vector<std::string> other_models(Forest& forest) {
  if (forest.model_of(Forest::kRoot) == nullptr) return models_below(forest, Forest::kRoot, "", kMaxSearched);
  const auto nested = forest.resolve("nested");
  return nested ? models_below(forest, *nested, "nested/", kMaxSearched) : std::vector<std::string>();
}

// The deepest model that a path leads to, and the rest of the path.
struct InModel {
  ModelPtr model;
  std::string prefix;  // the path of the model, with a `/` at its end; empty for the root
  std::string rest;
};

InModel model_on(Forest& forest, const std::string& path) {
  InModel found{forest.model_of(Forest::kRoot), "", path};
  for (size_t end = path.find('/'); end != path.npos; end = path.find('/', end + 1)) {
    const auto ino = forest.resolve(path.substr(0, end));
    if (!ino) break;
    if (ModelPtr model = forest.model_of(*ino); model != nullptr && model != found.model)
      found = {std::move(model), path.substr(0, end + 1), path.substr(end + 1)};
  }
  if (found.model == nullptr || found.model->complete_model == nullptr) return found;
  if (const auto complete = found.model->complete_model->get()) found.model = *complete;
  return found;
}

// The model at the top; null if it is a directory of models.
ModelPtr whole_model(Forest& forest) { return model_on(forest, "").model; }

// The name of the tensor at a path in a model, which may be the name itself.
std::string_view tensor_name(std::string_view path) {
  constexpr std::string_view kSuffix = ".npy";
  for (const std::string_view view : {"tensors/", "npy/", "float32/"}) {
    if (!path.starts_with(view)) continue;
    path.remove_prefix(view.size());
    if (view != "tensors/" && path.ends_with(kSuffix)) path.remove_suffix(kSuffix.size());
    return path;
  }
  return path;
}

// Why a file does not exist whose tensor is refused, or is in a part of the model that could not be read, or may be.
std::optional<Error> reason_of_absence(Forest& forest, const std::string& path) {
  const InModel at = model_on(forest, path);
  if (at.model == nullptr) return std::nullopt;
  const std::string name(tensor_name(at.rest));
  if (const auto ino = find_tensor(forest, at.prefix, name))
    if (auto error = error_of_refused(forest, *ino)) return error;
  return reason_of_missing(*at.model, name);
}

// The worst reason why a tensor may be in one of these models.
std::optional<Error> reason_in(Forest& forest, const std::vector<std::string>& models, const std::string& name) {
  std::optional<Error> worst;
  for (const std::string& model : models) {
    const auto entered = forest.resolve(model + "tensors");
    auto reason = entered || entered.error().code == Code::not_found
                      ? reason_of_absence(forest, model + "tensors/" + name)
                      : std::optional(entered.error());
    if (!reason) continue;
    reason->message = fmt::format("may be in {}: {}", printable(model), reason->message);
    if (!worst || &worse(*worst, *reason) != &*worst) worst = std::move(reason);
  }
  return worst;
}

// Names the tensors of similar names, if it is one model. A name in a part that cannot be read may be right.
Error with_similar_tensors(Forest& forest, const std::string& name, Error not_found) {
  constexpr size_t kMaxNames = 10'000;
  if (not_found.code != Code::not_found) return not_found;
  const ModelPtr model = whole_model(forest);
  std::vector<std::string> names;
  for (size_t i = 0; model != nullptr && i < std::min(model->tensors.size(), kMaxNames); ++i)
    names.push_back(printable(model->tensors.name(i)));
  not_found.message += did_you_mean(name, names);
  return not_found;
}

bool is_in_files(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return path == "files" || (path.starts_with("files/") && is_plain_path(path));
}

}  // namespace

// With some of the tensors only, it would not be known why a file does not exist.
NeededTensors tensors_needed_for(const std::vector<std::string>& paths) {
  if (std::ranges::all_of(paths, is_in_files)) return std::make_shared<const std::vector<std::string>>();
  constexpr std::string_view kTensors = "tensors/";
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    std::string name = path.substr(std::min(kTensors.size(), path.size()));
    if (tensor_path(name) != path || static_cast<size_t>(std::ranges::count(name, '/')) >= kMaxComponents)
      return nullptr;
    names.push_back(std::move(name));
  }
  return std::make_shared<const std::vector<std::string>>(std::move(names));
}

std::optional<Error> error_of_refused(const Forest& forest, Ino ino) {
  const auto tensor = forest.tensor_of(ino);
  if (!tensor || !tensor->model->tensors.is_refused(tensor->index)) return std::nullopt;
  const std::string_view name = tensor->model->tensors.name(tensor->index);
  const Error reason = reason_of_refused(*tensor->model, name);
  return Error{reason.code, fmt::format("tensor {} was refused: {}", quoted(name), reason.message)};
}

Result<Ino> resolve_typed(Forest& forest, const TypedPath& typed, Forest::FinalLink final_link) {
  auto found = forest.resolve(typed.path, final_link);
  if (found || found.error().code != Code::not_found) return found;
  if (const auto tensor = find_tensor(forest, "", typed.path)) return *tensor;
  std::vector<std::string> having;
  std::optional<Ino> only;
  for (const std::string& model : other_models(forest))
    if (const auto tensor = find_tensor(forest, model, typed.path)) {
      having.push_back(model);
      only = tensor;
    }
  if (having.empty()) {
    auto reason = reason_of_absence(forest, typed.path);
    const ModelPtr root = whole_model(forest);
    if (!reason && (root == nullptr || root->tensors.empty()))
      reason = reason_in(forest, other_models(forest), std::string(tensor_name(typed.path)));
    return failure(with_similar_tensors(forest, typed.path, reason.value_or(found.error())));
  }
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
