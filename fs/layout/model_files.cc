#include "fs/layout/model_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/completeness.h"
#include "formats/mapping/hub/hub_files.h"
#include "formats/output.h"
#include "fs/views/converted.h"
#include "fs/views/model_file.h"
#include "fs/views/npz.h"

namespace weightfs {
namespace {

using views::FileTypes;
using views::ModelFile;
using views::Selection;

// Whether model.safetensors has numbers of other types than float32.
bool has_other_numbers(const Model& model) {
  return std::any_of(model.tensors.begin(), model.tensors.end(), [](const TensorView& tensor) {
    return tensor.dtype != &views::kFloat32 && views::has_numbers(tensor) && safetensors_type(tensor);
  });
}

// Why no file of the tensors would be the whole model; empty if one would. Refused tensors are told by each file.
std::string reason_of_incomplete(const Model& model) {
  const Lacks& lacks = *model.lacks;
  if (may_lack_tensors(model) || lacks.short_by > 0) return printable(to_sentence(completeness_of(model)));
  return lacks.has_other_numbers ? "the model has numbers that are not in its tensors; see its warnings.txt" : "";
}

Result<std::vector<ModelFile>> one_file(Result<ModelFile> file) {
  if (!file) return tl::unexpected(std::move(file).error());
  std::vector<ModelFile> files;
  files.push_back(std::move(*file));
  return files;
}

// The files of a directory views/, with its warnings.txt.
struct Files {
  size_t tensors;  // of the model
  std::vector<std::string> paths = {};
  std::vector<Later<SourcePtr>> sources = {};  // of each path
  std::string lines = {};                      // of warnings.txt

  void add(std::string path, SourcePtr source) {
    paths.push_back(std::move(path));
    sources.push_back(Later<SourcePtr>::of(std::move(source)));
  }

  // Adds the files, the first under this name. If they would lack one of the tensors, or cannot be made, only the
  // reasons are added. Other errors are returned.
  Result<void> add_complete(const std::string& name, Result<std::vector<ModelFile>> files) {
    if (!files) {
      if (!is_about_the_bytes(files.error())) return tl::unexpected(std::move(files).error());
      lines += fmt::format("{}: not made: {}\n", name, printable(files.error().message));
      return {};
    }
    const Warnings& left_out = files->front().left_out;
    if (left_out.size() > 0) {
      lines += fmt::format("{}: not made: it would lack {} of {} tensors\n", name, left_out.size(), tensors);
      for (const std::string& line : left_out.lines()) lines += fmt::format("{}: {}\n", name, printable(line));
      return {};
    }
    files->front().path = name;
    for (ModelFile& file : *files) add(std::move(file.path), std::move(file.source));
    return {};
  }
};

// The GGUF files of a repository of the Hub.
constexpr std::array<std::string_view, 2> kHubFiles = {"model.gguf", "model.q8_0.gguf"};
constexpr std::array kHubTypes = {mapping::GgufType::stored, mapping::GgufType::q8_0};

Result<void> add_loadable_files(Files& files, const ModelPtr& model, const std::string& source) {
  auto made = views::hub_gguf_files(model, mapping::repository_name(*model, source), kHubTypes);
  if (!made) return files.add_complete(std::string(kHubFiles.front()), std::move(made));
  for (size_t i = 0; i < made->size(); ++i)
    TRY_VOID(files.add_complete(std::string(kHubFiles.at(i)), one_file(std::move((*made)[i]))));
  return {};
}

// A GGUF as a repository of the Hub. Most architectures of llama.cpp are not in the table: that is worth no line.
Result<void> add_hub_files(Files& files, const ModelPtr& model) {
  if (!mapping::has_hub_names(*model)) return {};
  const std::string directory = "hf/";
  mapping::HubFiles made = mapping::hub_files(model);
  for (mapping::HubFile& file : made.files) {
    files.paths.push_back(directory + std::string(file.name));
    files.sources.push_back(std::move(file.text));
  }
  for (const std::string& line : made.not_made) files.lines += directory + line + "\n";
  const std::string tensors = directory + "model.safetensors";
  const auto hub = mapping::as_hub(model);
  if (!hub) return files.add_complete(tensors, tl::unexpected(hub.error()));
  return files.add_complete(tensors, views::safetensors_files(*hub, {.types = FileTypes::stored_or_float32}, 0));
}

Result<std::shared_ptr<const Files>> make_files(const ModelPtr& model, const std::string& source,
                                                const ModelFileOptions& options) {
  const auto files = std::make_shared<Files>(Files{.tensors = model->tensors.size()});
  const Selection whole{.types = FileTypes::stored_or_float32};
  if (const std::string reason = reason_of_incomplete(*model); !reason.empty()) {
    files->add("warnings.txt", in_memory(fmt::format("not made: {}\n", reason)));
    return files;
  }
  if (!model->tensors.empty()) {
    TRY_VOID(files->add_complete("model.safetensors", views::safetensors_files(model, whole, options.shard_size)));
    if (has_other_numbers(*model))
      TRY_VOID(files->add_complete("model.float32.safetensors",
                                   views::safetensors_files(model, {.types = FileTypes::float32}, 0)));
  }
  if (mapping::is_of_transformers(*model)) {
    TRY_VOID(add_loadable_files(*files, model, source));
  } else if (!model->tensors.empty() || model->gguf_keys != nullptr) {
    TRY_VOID(files->add_complete("model.gguf", one_file(views::gguf_file(model, whole))));
  }
  if (model->gguf_keys != nullptr) TRY_VOID(add_hub_files(*files, model));
  if (!model->tensors.empty())
    TRY_VOID(files->add_complete(
        "model.npz", one_file(views::npz_file(model, whole, fmt::format("{}: model.npz", source), options.checksums))));
  if (!files->lines.empty()) files->add("warnings.txt", in_memory(files->lines));
  return files;
}

// The files of a model with fewer tensors are made again when one is used: find(1) in a directory of ten thousand
// models enters each views/.
constexpr size_t kMinKeptTensors = 1000;

// The path of a file of a tree. Those that most models have are not copied.
std::string_view path_in(TreeBuilder& builder, const std::string& path) {
  static constexpr std::array<std::string_view, 6> kPaths = {
      "model.safetensors", "model.float32.safetensors", "model.gguf", "model.q8_0.gguf", "model.npz", "warnings.txt"};
  const auto* const same = std::find(kPaths.begin(), kPaths.end(), path);
  return same == kPaths.end() ? builder.keep(path) : *same;
}

}  // namespace

Later<TreePtr> model_files(Later<ModelPtr> model, std::shared_ptr<const std::string> source, Time modified,
                           const ModelFileOptions& options) {
  return Later<TreePtr>([=]() -> Result<TreePtr> {
    const ModelPtr whole = TRY(model.get());
    const auto files = TRY(make_files(whole, *source, options));
    const auto sources_of = [](const auto& made) { return LaterFiles(made, &made->sources); };
    // With less of the budget left, a file may not be made again, which adds a line; the others would take its place.
    const auto again = [=, lines = files->lines.size()]() -> Result<LaterFiles> {
      const auto made = TRY(make_files(whole, *source, options));
      if (made->lines.size() == lines) return sources_of(made);
      return failure(Code::unsupported, fmt::format("a file of views/ cannot be made again; {}", made->lines));
    };
    TreeBuilder builder(whole);
    builder.set_modified(modified);
    std::vector<std::string_view> paths;
    for (const std::string& path : files->paths) paths.push_back(path_in(builder, path));
    builder.add_files(paths, whole->tensors.size() < kMinKeptTensors ? Later<LaterFiles>(again)
                                                                     : Later<LaterFiles>::of(sources_of(files)));
    TRY_VOID(builder.charge(whole->budget));
    return std::move(builder).freeze();
  });
}

}  // namespace weightfs
