#include "fs/model_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/float32.h"
#include "fs/views/model_file.h"
#include "fs/views/npz.h"

namespace weightfs {
namespace {

using views::ModelFile;
using views::Selection;

// Whether float32 would be another type for one of the tensors.
bool has_other_numbers(const Model& model) {
  static const DType* const kFloat32 = dtype_named("float32");
  return std::any_of(model.tensors.begin(), model.tensors.end(),
                     [](const TensorView& tensor) { return tensor.dtype != kFloat32 && has_float32(*tensor.dtype); });
}

Result<std::vector<ModelFile>> one_file(Result<ModelFile> file) {
  if (!file) return tl::unexpected(std::move(file).error());
  std::vector<ModelFile> files;
  files.push_back(std::move(*file));
  return files;
}

// The files of a directory views/, with its warnings.txt.
struct Files {
  std::vector<std::pair<std::string, SourcePtr>> all;  // path and bytes
  std::string lines;                                   // of warnings.txt

  // Adds the files, or a line if they cannot be made of these tensors. Other errors are returned.
  Result<void> add(std::string_view name, Result<std::vector<ModelFile>> files) {
    if (!files) {
      if (!is_about_the_bytes(files.error())) return tl::unexpected(std::move(files).error());
      lines += fmt::format("{}: not made: {}\n", name, printable(files.error().message));
      return {};
    }
    for (ModelFile& file : *files) {
      for (const std::string& line : file.left_out) lines += fmt::format("{}: {}\n", file.path, printable(line));
      all.emplace_back(std::move(file.path), std::move(file.source));
    }
    return {};
  }
};
using FilesPtr = std::shared_ptr<const Files>;

Result<FilesPtr> make_files(const ModelPtr& model, const std::string& source, const ModelFileOptions& options) {
  const auto files = std::make_shared<Files>();
  if (!model->tensors.empty()) {
    TRY_VOID(files->add("model.safetensors", views::safetensors_files(model, {}, options.shard_size)));
    if (has_other_numbers(*model))
      TRY_VOID(files->add("model.float32.safetensors", views::safetensors_files(model, {.float32 = true}, 0)));
  }
  if (!model->tensors.empty() || model->gguf_keys != nullptr)
    TRY_VOID(files->add("model.gguf", one_file(views::gguf_file(model, {}))));
  if (!model->tensors.empty())
    TRY_VOID(files->add("model.npz",
                        one_file(views::npz_file(model, {}, fmt::format("{}: model.npz", source), options.checksums))));
  if (!files->lines.empty()) files->all.emplace_back("warnings.txt", in_memory(files->lines));
  return files;
}

// The files of a model with fewer tensors are made again when one is used: find(1) in a directory of ten thousand
// models enters each views/.
constexpr size_t kMinKeptTensors = 1000;

}  // namespace

Later<TreePtr> model_files(Later<ModelPtr> model, std::shared_ptr<const std::string> source, Time modified,
                           const ModelFileOptions& options) {
  return Later<TreePtr>([=]() -> Result<TreePtr> {
    const ModelPtr whole = TRY(model.get());
    const FilesPtr files = TRY(make_files(whole, *source, options));
    const auto again = whole->tensors.size() < kMinKeptTensors
                           ? Later<FilesPtr>([=] { return make_files(whole, *source, options); })
                           : Later<FilesPtr>::of(files);
    TreeBuilder builder(whole);
    builder.set_modified(modified);
    for (size_t i = 0; i < files->all.size(); ++i)
      builder.add_file(builder.keep(files->all[i].first), Later<SourcePtr>([again, i]() -> Result<SourcePtr> {
                         return TRY(again.get())->all.at(i).second;
                       }));
    TRY_VOID(builder.charge(whole->budget));
    return std::move(builder).freeze();
  });
}

}  // namespace weightfs
