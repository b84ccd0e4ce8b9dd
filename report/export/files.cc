#include "report/export/files.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "base/values/value.h"
#include "formats/output.h"
#include "fs/tree/listing.h"
#include "fs/views/converted.h"
#include "fs/views/model_file.h"
#include "fs/views/npy.h"
#include "report/compare/select_tensors.h"
#include "report/export/npy_types.h"

namespace weightfs::exporting {
namespace {

using views::FileTypes;

struct NamedForm {
  std::string_view name;
  Form form;
  std::string_view suffix;  // of a file; empty for a directory
};

constexpr std::array kForms = {
    NamedForm{"safetensors", Form::safetensors, ".safetensors"},
    NamedForm{"gguf", Form::gguf, ".gguf"},
    NamedForm{"npz", Form::npz, ".npz"},
    NamedForm{"npy", Form::npy, ""},
    NamedForm{"dir", Form::dir, ""},
    NamedForm{"tar", Form::tar, ".tar"},
};

// The text of a JSON string, with its quotes, at the beginning of `text`.
std::string_view json_string_at(std::string_view text) {
  size_t end = 1;
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? size_t{2} : size_t{1};
  return text.substr(0, end + 1);
}

// A line of tensors.json with another path. It begins with the members "name" and "path".
std::string with_path(std::string_view entry, std::string_view path) {
  constexpr std::string_view kName = "{\"name\": ", kPath = ", \"path\": ";
  std::string_view rest = entry.substr(kName.size());
  const std::string_view name = json_string_at(rest);
  rest.remove_prefix(name.size() + kPath.size());
  rest.remove_prefix(json_string_at(rest).size());
  std::string out = fmt::format("{}{}{}", kName, name, kPath);
  append_json_string(out, path);
  return out.append(rest);
}

// A tensor of the output, and the path by which tensors.json names its file; empty if that is the one in tensors/.
struct IndexedTensor {
  size_t tensor;
  std::string path;
};

// tensors.json with the lines of these tensors, which are in container order (semantics 2).
Result<SourcePtr> selected_index(const Source& index, const std::vector<IndexedTensor>& tensors) {
  const std::string text = TRY(read_text(index, 0, index.size()));
  std::string out;
  size_t line = 0;  // 0 is the opening one
  auto next = tensors.begin();
  for (size_t begin = 0; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    if (line > 0 && next != tensors.end() && line == next->tensor + 1) {
      std::string_view entry = std::string_view(text).substr(begin, end - begin - 1);
      if (entry.ends_with(',')) entry.remove_suffix(1);
      if (!out.empty()) out += ",\n";
      if (next->path.empty())
        out += entry;
      else
        out += with_path(entry, next->path);
      ++next;
    }
    begin = end;
  }
  return in_memory(out.empty() ? "{\"tensors\": []}\n" : fmt::format("{{\"tensors\": [\n{}\n]}}\n", out));
}

// Collects files of the tree of a mount.
class TreeFiles {
 public:
  TreeFiles(Forest& forest, const Model& model, const Request& request)
      : forest_(forest),
        model_(model),
        request_(request),
        is_in_view_(model.tensors.size()),
        npy_paths_(model.tensors.size()) {}

  Result<void> add_texts() {
    for (const char* name : {"metadata.json", "metadata.toml"}) {
      const Ino text = TRY(forest_.resolve(request_.path + name));
      TRY_VOID(add_file(text, name));
    }
    // The values that are too long for metadata.json, which has their paths.
    for (const Document& document : model_.documents) {
      const Ino text = TRY(forest_.resolve(request_.path + document.path));
      TRY_VOID(add_file(text, document.path));
    }
    return {};
  }

  // Adds tensors.json, with the tensors that were added. It makes the files a model again. A .npy file may have another
  // path than the file in tensors/: a name that just fits there is cut.
  Result<void> add_index() {
    std::vector<IndexedTensor> written;
    for (const size_t i : request_.tensors)
      if (is_in_view_[i]) written.push_back({i, std::move(npy_paths_[i])});
    const Ino ino = TRY(forest_.resolve(request_.path + "tensors.json"));
    const SourcePtr index = TRY(forest_.open(ino));
    const bool is_as_stored = !is_npy_ && written.size() == model_.tensors.size();
    const SourcePtr selected = is_as_stored ? index : TRY(selected_index(*index, written));
    const Ino directory = TRY(forest_.resolve(request_.path));
    const Time modified = TRY(forest_.attributes(directory)).modified;
    out_.files.push_back(
        {"tensors.json", selected->size(), modified, [selected] { return Result<SourcePtr>(selected); }});
    return {};
  }

  // Adds the selected tensors of a view. `prefix` precedes their paths.
  Result<void> add_view(const std::string& view, const std::string& prefix) {
    is_npy_ = view != "tensors";
    const Ino directory = TRY(forest_.resolve(request_.path + view));
    TRY_VOID(add_directory(directory, prefix, ""));
    for (const size_t i : request_.tensors) {
      const TensorView tensor = model_.tensors[i];
      if (tensor.source.refused())
        out_.left_out.add("tensor {}: refused when the container was read", quoted(full_name(tensor)));
      else if (!is_in_view_[i])
        out_.left_out.add("tensor {}: no .npy for type {}", quoted(full_name(tensor)), dtype_text(tensor));
    }
    return {};
  }

  void name_other_types() { out_.other_types = npy_types_sentence(model_, request_.tensors); }
  void leave_out_metadata(std::string_view reason) { out_.left_out_keys = views::all_keys_left_out(model_, reason); }

  ExportedFiles take() && { return std::move(out_); }

 private:
  // Adds the files of a directory of the view, which has the path `below` in it: empty, or ending in a slash.
  Result<void> add_directory(Ino directory, const std::string& prefix, const std::string& below) {
    const Forest::Listing all = TRY(forest_.list(directory));
    for (uint32_t i = 0; i < all.count; ++i) {
      const Node node = all.tree->node(all.first + i);
      const std::string path = below + node.name();
      if (node.kind == NodeKind::directory) {
        TRY_VOID(add_directory(all.ino_of(i), prefix, path + "/"));
        continue;
      }
      const auto tensor = forest_.tensor_of(all.ino_of(i));
      if (!tensor || !std::binary_search(request_.tensors.begin(), request_.tensors.end(), tensor->index)) continue;
      if (model_.tensors[tensor->index].source.refused()) continue;
      is_in_view_[tensor->index] = true;
      if (is_npy_) npy_paths_[tensor->index] = path.substr(0, path.size() - std::string_view(".npy").size());
      TRY_VOID(add_file(all.ino_of(i), prefix + path));
      if (request_.types == FileTypes::float16) show_as(views::kFloat16, out_.files.back(), tensor->index);
      if (request_.types == FileTypes::float32) show_as(views::kFloat32, out_.files.back(), tensor->index);
    }
    return {};
  }

  // In place of a file of float32/, whose infinities are not counted.
  void show_as(const DType& type, ExportedFile& file, size_t index) {
    const TensorView tensor = model_.tensors[index];
    const std::string header = views::converted_npy_header(tensor, type);
    file.size = header.size() + element_count(tensor.shape) * type.block_bytes;
    file.open = [header, &type, &model = model_, index, overflows = request_.overflows]() -> Result<SourcePtr> {
      return concat({in_memory(header), views::converted(model, index, type, overflows)});
    };
  }

  Result<void> add_file(Ino ino, const std::string& path) {
    const Attributes attributes = TRY(forest_.attributes(ino));
    out_.files.push_back(
        {path, attributes.size, attributes.modified, [&forest = forest_, ino] { return forest.open(ino); }});
    return {};
  }

  Forest& forest_;
  const Model& model_;
  const Request& request_;
  bool is_npy_ = false;
  std::vector<bool> is_in_view_;        // by index
  std::vector<std::string> npy_paths_;  // by index, without the suffix; empty for files in tensors/
  ExportedFiles out_;
};

// The files that views/ shows.
Result<std::vector<views::ModelFile>> files_of_view(const ModelPtr& model, const Request& request) {
  const views::Selection selection{request.tensors, request.types, request.overflows};
  if (request.form == Form::safetensors) return views::safetensors_files(model, selection, request.shard_size);
  if (request.form == Form::gguf) return views::gguf_files(model, selection, request.shard_size);
  std::vector<views::ModelFile> files;
  files.push_back(TRY(views::npz_file(model, selection)));
  return files;
}

Result<ExportedFiles> model_files(const ModelPtr& model, const Request& request) {
  std::vector<views::ModelFile> files = TRY(files_of_view(model, request));
  ExportedFiles out;
  out.left_out = std::move(files.front().left_out);
  out.left_out_keys = std::move(files.front().left_out_keys);
  if (request.form == Form::npz && request.types == FileTypes::stored)
    out.other_types = npy_types_sentence(*model, request.tensors);
  if (request.form != Form::gguf && request.types != FileTypes::stored)
    out.other_types = unconverted_types_sentence(*model, request.tensors, [&](const TensorView& tensor) {
      return request.form == Form::npz ? views::has_npy(tensor) : safetensors_type(tensor).has_value();
    });
  if (files.size() > 1) files.erase(files.begin());  // the whole file; the others are its shards
  for (const views::ModelFile& file : files) {
    std::string name = file.path.substr(file.path.rfind('/') + 1);
    out.files.push_back(
        {std::move(name), file.source->size(), 0, [source = file.source] { return Result<SourcePtr>(source); }});
  }
  return out;
}

}  // namespace

std::string_view name_of(Form form) { return std::ranges::find(kForms, form, &NamedForm::form)->name; }

std::string list_of_forms() {
  std::string list;
  for (const NamedForm& form : kForms)
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", form.name,
                        form.suffix.empty() ? "a directory" : form.suffix);
  return list;
}

std::vector<std::string> form_names() {
  std::vector<std::string> names;
  for (const NamedForm& form : kForms) names.emplace_back(form.name);
  return names;
}

std::optional<Form> form_named(std::string_view name) {
  for (const NamedForm& form : kForms)
    if (form.name == name) return form.form;
  return std::nullopt;
}

std::optional<Form> form_of_suffix(std::string_view path) {
  for (const NamedForm& form : kForms)
    if (!form.suffix.empty() && path.ends_with(form.suffix)) return form.form;
  return std::nullopt;
}

Result<ExportedFiles> files_of(Forest& forest, const ModelPtr& model, const Request& request) {
  if (request.form == Form::safetensors || request.form == Form::gguf || request.form == Form::npz)
    return model_files(model, request);
  TreeFiles files(forest, *model, request);
  const bool is_stored = request.types == FileTypes::stored;
  if (request.form == Form::npy) {
    TRY_VOID(files.add_view(is_stored ? "npy" : "float32", ""));
    if (is_stored) files.name_other_types();
    files.leave_out_metadata("npy holds no metadata");
  } else {
    const std::string_view folder = is_stored                             ? "tensors/"
                                    : request.types == FileTypes::float16 ? "float16/"
                                                                          : "float32/";
    TRY_VOID(files.add_texts());
    TRY_VOID(files.add_view(is_stored ? "tensors" : "float32", std::string(folder)));
  }
  TRY_VOID(files.add_index());
  return std::move(files).take();
}

}  // namespace weightfs::exporting
