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

// Collects the files of views/ and the lines of its warnings.txt.
class FileList {
 public:
  explicit FileList(TreeBuilder& builder) : builder_(builder) {}

  // Adds the files, or a line if they cannot be made of these tensors. Other errors are returned.
  Result<void> add(std::string_view name, Result<std::vector<ModelFile>> files) {
    if (!files) {
      if (!is_about_the_bytes(files.error())) return tl::unexpected(std::move(files).error());
      lines_ += fmt::format("{}: not made: {}\n", name, printable(files.error().message));
      return {};
    }
    for (ModelFile& file : *files) {
      for (const std::string& line : file.left_out) lines_ += fmt::format("{}: {}\n", file.path, printable(line));
      builder_.add_file(builder_.keep(file.path), Later<SourcePtr>::of(std::move(file.source)));
    }
    return {};
  }

  void finish() {
    if (!lines_.empty()) builder_.add_file("warnings.txt", Later<SourcePtr>::of(in_memory(std::move(lines_))));
  }

 private:
  TreeBuilder& builder_;
  std::string lines_;
};

}  // namespace

Later<TreePtr> model_files(Later<ModelPtr> model, const std::string& source, Time modified,
                           const ModelFileOptions& options) {
  return Later<TreePtr>([=]() -> Result<TreePtr> {
    const ModelPtr whole = TRY(model.get());
    TreeBuilder builder(whole);
    builder.set_modified(modified);
    FileList files(builder);
    if (!whole->tensors.empty()) {
      TRY_VOID(files.add("model.safetensors", views::safetensors_files(whole, {}, options.shard_size)));
      if (has_other_numbers(*whole))
        TRY_VOID(files.add("model.float32.safetensors", views::safetensors_files(whole, {.float32 = true}, 0)));
    }
    if (!whole->tensors.empty() || whole->gguf_keys != nullptr)
      TRY_VOID(files.add("model.gguf", one_file(views::gguf_file(whole, {}))));
    if (!whole->tensors.empty())
      TRY_VOID(files.add(
          "model.npz", one_file(views::npz_file(whole, {}, fmt::format("{}: model.npz", source), options.checksums))));
    files.finish();
    TRY_VOID(builder.charge(whole->budget));
    return std::move(builder).freeze();
  });
}

}  // namespace weightfs
