#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "formats/archive/archive_formats.h"
#include "formats/common/compromise.h"
#include "formats/format.h"
#include "formats/hdf5/file.h"
#include "formats/other_files.h"
#include "formats/other_files/parts.h"
#include "formats/pickle/hidden.h"

namespace weightfs {
namespace {

Match never(const Probe&) { return Match::no; }

template <size_t row>
Result<Model> read_archive_row(const Container& container) {
  return archive::read_archive_format(archive::kArchiveFormats[row], container);
}

// The formats in archives as rows of formats(): only an unpacked one is detected by its row, a packed one by read_zip
// or read_tar.
template <size_t... rows>
constexpr auto archive_rows(std::index_sequence<rows...>) {
  return std::array{Format{archive::kArchiveFormats[rows].name, "", archive::kArchiveFormats[rows].unpacked.matches,
                           read_archive_row<rows>, ""}...};
}

// Formats with a magic number come first: the others accept almost any bytes.
constexpr std::array kFirst = {
    Format{"gguf", ".gguf", matches_gguf, read_gguf, ""},
    Format{"rten", ".rten", matches_rten, read_rten, ""},
    Format{"tvm-params", ".params", matches_tvm_params, read_tvm_params},
    Format{"mxnet", ".params", matches_mxnet, read_mxnet},
    Format{"tflite", ".tflite", matches_tflite, read_tflite},
    Format{"executorch", ".pte .ptd", matches_executorch, read_executorch},
    Format{"ggml", ".ggml", matches_ggml, read_ggml},
    Format{"npy", ".npy", matches_npy, read_npy},
    Format{"pytorch-legacy", ".pt .pth .ckpt", matches_pytorch_legacy, read_pytorch_legacy, ""},
    Format{"dcp", "", matches_dcp, read_dcp},
    Format{"pickle", ".pkl .pickle .joblib .sav .pdparams .pdopt", matches_pickle, read_pickle},
    Format{"llamafile", ".llamafile", matches_llamafile, read_llamafile},
    Format{"hdf5", ".h5 .hdf5 .h5ad", matches_hdf5, read_hdf5},
    Format{"zip", ".zip .carton .keras .npz .dduf .pt2", matches_zip, read_zip, ""},
    Format{"tar", ".tar .tar.gz .tgz .tar.xz .txz .tar.zst .tzst .tar.bz2 .tbz2 .nemo", matches_tar, read_tar, "",
           DetectBy::name},
    Format{"tensorflow-checkpoint", ".index", matches_tensorflow_checkpoint, read_tensorflow_checkpoint},
    Format{"ort", ".ort", matches_ort, read_ort},
    Format{"ncnn", ".param", matches_ncnn, read_ncnn},
    Format{"nnef-tensor", "", matches_nnef_tensor, read_nnef_tensor, "nnef"},
    Format{"ctranslate2", "", matches_ctranslate2, read_ctranslate2},
    Format{"xgboost", ".ubj .xgb .bst", matches_xgboost, read_xgboost},
    Format{"lightgbm", ".lgb", matches_lightgbm, read_lightgbm},
    Format{"openvino", ".xml", matches_openvino, read_openvino},
    Format{"tensor-cache", "", matches_tensor_cache, read_tensor_cache},
    Format{"tfjs", "", matches_tfjs, read_tfjs},
};
constexpr std::array kLast = {
    Format{"oci", "", matches_oci, read_oci, ""},
    Format{"ollama", "", matches_ollama, read_ollama},
    Format{"safetensors", ".safetensors", matches_safetensors, read_safetensors},
    Format{"keras-sharded", "", matches_keras_sharded, read_keras_sharded, "keras"},
    Format{"safetensors-index", ".json", matches_safetensors_index, read_safetensors_index, "safetensors index"},
    Format{"onnx", ".onnx", matches_onnx, read_onnx},
    Format{"tensorflow-graph", "graph.pb model.pb .ckpt.meta", matches_tensorflow_graph, read_tensorflow_graph},
    Format{"caffe", ".caffemodel", matches_caffe, read_caffe},
    Format{"mindspore", ".ckpt", matches_mindspore, read_mindspore},
    Format{"coreml", ".mlmodel", matches_coreml, read_coreml},
    Format{"paddle", ".pdiparams", matches_paddle, read_paddle},
    Format{"darknet", ".weights", matches_darknet, read_darknet},
    Format{"flax", ".msgpack", matches_flax, read_flax},
    Format{"bintensors", ".bt .bintensors", matches_bintensors, read_bintensors},
    Format{"bintensors-release", "", never, read_bintensors_release, "bintensors"},
    Format{"bintensors-legacy", "", never, read_bintensors_legacy, "bintensors"},
};

template <size_t... sizes>
constexpr auto joined(const std::array<Format, sizes>&... arrays) {
  std::array<Format, (sizes + ...)> all{};
  auto end = all.begin();
  ((end = std::copy(arrays.begin(), arrays.end(), end)), ...);
  return all;
}

constexpr auto kFormats =
    joined(kFirst, archive_rows(std::make_index_sequence<archive::kArchiveFormats.size()>()), kLast);

// Whether `name` has one of the format's suffixes.
bool is_named_as(const Format& format, std::string_view name) {
  std::string_view left = format.suffixes;
  while (!left.empty()) {
    const std::string_view suffix = left.substr(0, left.find(' '));
    if (name.ends_with(suffix)) return true;
    left.remove_prefix(std::min(suffix.size() + 1, left.size()));
  }
  return false;
}

constexpr std::string_view kHdf5 = "hdf5";

// A user block before HDF5 is found below this size in any file with such a name, and up to any size in a file that no
// other format accepts.
constexpr uint64_t kMaxUserBlock = 1 << 20;

// The name, head and tail of a container: the input of detection.
class ContainerProbe {
 public:
  /// Reads the head. HDF5 may begin behind it: then also the places where it may, if the name is one of HDF5.
  static Result<ContainerProbe> at(const Container& container) {
    ContainerProbe probe;
    probe.name_ = container.name;
    probe.size_ = container.bytes->size();
    probe.head_ = TRY(read_text(*container.bytes, 0, std::min<uint64_t>(probe.size_, kHeadSize)));
    if (is_named_as(*format_named(kHdf5), container.name) && probe.find_sure() == nullptr)
      probe.is_hdf5_ = TRY(hdf5::find_signature(*container.bytes, kHeadSize, kMaxUserBlock)).has_value();
    return probe;
  }

  /// Reads the head, and the tail unless the head identifies the format: on a cold disk each read takes equally long.
  static Result<ContainerProbe> at_both_ends(const Container& container) {
    ContainerProbe probe = TRY(at(container));
    if (probe.find_sure() != nullptr) return probe;
    const uint64_t shown = probe.head_.size();
    probe.tail_ = TRY(read_text(*container.bytes, probe.size_ - shown, shown));
    return probe;
  }

  const std::string& head() const { return head_; }

  /// The first format that matches with `yes`; null if there is none.
  const Format* find_sure() const;

  Match match(const Format& format) const {
    return is_hdf5_ && format.name == kHdf5 ? Match::yes : format.matches({name_, head_, tail_, size_});
  }

 private:
  std::string name_, head_, tail_;
  uint64_t size_ = 0;
  bool is_hdf5_ = false;  // behind the head
};

const Format* ContainerProbe::find_sure() const {
  const auto sure = std::find_if(kFormats.begin(), kFormats.end(),
                                 [this](const Format& format) { return match(format) == Match::yes; });
  return sure == kFormats.end() ? nullptr : &*sure;
}

// An error with the container's name in front, once.
Error about(const Container& container, const Error& error) {
  const std::string name = printable(container.name);
  return error.message.starts_with(name + ": ") ? error
                                                : with_message(error, fmt::format("{}: {}", name, error.message));
}

}  // namespace

std::span<const Format> formats() { return kFormats; }

const Format* format_named(std::string_view name) {
  const auto row = std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& f) { return f.name == name; });
  return row == kFormats.end() ? nullptr : row;
}

Result<Model> read_as(const Format& format, const Container& container) {
  return format.read(container).map_error([&](const Error& error) {
    const std::string subject = fmt::format("{}: ", format.subject);
    const bool is_named = format.subject.empty() || error.message.starts_with(subject);
    return is_named ? error : with_message(error, subject + error.message);
  });
}

Result<Model> read_as(std::string_view format, const Container& container) {
  return read_as(*format_named(format), container);
}

Result<SourcePtr> open_beside(const Container& container, std::string_view name) {
  SourcePtr file = TRY(container.folder->open(name));
  if (container.folder->is_storage()) container.budget->add_file(*file);
  return file;
}

Result<SourcePtr> open_below(const Container& container, std::string_view path) {
  SourcePtr file = TRY(container.folder->open_below(path, container.name));
  if (container.folder->is_storage()) container.budget->add_file(*file);
  return file;
}

bool is_fatal(const Container& container, const Error& error) {
  return may_pass(error) || (container.folder != nullptr && container.folder->needs_every_file());
}

namespace {

// The cost of a nested container besides its contents: files, trees, a library's memory.
constexpr uint64_t kNestedBytes = 16 * 1024;
constexpr uint64_t kNestedSteps = 300;

constexpr const char* kUnknown = "not a model that weightfs knows";

// The error for a file that no format accepts; `of_named_format` is that of the format with such a file name.
Error unidentified(const Container& container, const std::optional<Error>& of_named_format, const std::string& tried) {
  auto other = identify_other_file(container);
  if (other && !*other && other_files::may_be_other_part(container)) return other_files::other_part();
  if (other && !*other && !of_named_format) other = identify_text(container);
  if (!other) return other.error();
  // Compressed data that cannot be decoded have an unknown content. By the name they are of this format, and cut.
  const bool is_compressed = *other && (*other)->name != nullptr && std::string_view((*other)->name) == "compressed";
  const bool is_cut = is_compressed && of_named_format && of_named_format->code == Code::corrupt;
  const Error what = *other && !is_cut ? **other : of_named_format.value_or(Error{Code::unsupported, kUnknown});
  const std::string size = human_size(container.bytes->size());
  if (container.lists_tried) return with_message(what, fmt::format("{} ({}); tried {}", what.message, size, tried));
  return what.message == kUnknown ? with_message(what, fmt::format("{} ({})", kUnknown, size)) : what;
}

// Reads a container that is of this format by its first bytes. One that was cut may be the first part of a file.
Result<Model> read_sure(const Format& format, const Container& container) {
  auto model = read_as(format, container);
  const bool is_cut = model ? model->lacks->short_by > 0 : model.error().code == Code::corrupt;
  if (is_cut && other_files::may_be_first_part(container)) return tl::unexpected(other_files::first_part());
  return model;
}

// Only bytes that break the rules of this format may be another one. A disk, a server, a missing part or a refusal
// fails in every format, and so does a file of which the reader knows what else it is.
bool may_be_another_format(const Error& error) {
  return (error.code == Code::corrupt || error.code == Code::unsupported) && error.name == nullptr;
}

// Reads HDF5 behind a user block of any size. If it is none, the file is what `otherwise` says.
Result<Model> behind_user_block(const Container& container, const Error& otherwise) {
  if (is_refused_by_name(container.name)) return tl::unexpected(otherwise);
  const bool is_hdf5 = TRY(hdf5::find_signature(*container.bytes, kHeadSize, container.bytes->size())).has_value();
  return is_hdf5 ? read_as(kHdf5, container) : tl::unexpected(otherwise);
}

// `head`: gets the first bytes, if they were read.
Result<Model> read_any(const Container& container, const Format* forced, std::string& head) {
  compromise_for_test();
  const auto with_name = [&](const Error& error) { return about(container, error); };
  const auto named = [&](const Error& error) { return tl::unexpected(with_name(error)); };
  if (container.depth > 0) {
    if (auto paid = container.budget->charge(Cost::step, kNestedSteps); !paid) return named(paid.error());
    if (auto paid = container.budget->charge(Cost::kept, kNestedBytes); !paid) return named(paid.error());
  }
  if (forced != nullptr) return read_as(*forced, container).map_error(with_name);
  const auto probe = ContainerProbe::at_both_ends(container);
  if (!probe) return named(probe.error());
  head = probe->head();
  if (const Format* sure = is_refused_by_name(container.name) ? nullptr : probe->find_sure())
    return read_sure(*sure, container).map_error(with_name);
  if (const auto may_be = check_may_be_model(container); !may_be)
    return behind_user_block(container, may_be.error()).map_error(with_name);
  std::string tried;
  std::optional<Error> of_named_format;
  for (const Format& format : kFormats) {
    const Match match = probe->match(format);
    // Formats that are detected by a directory's file names are not tried on other files.
    if (match == Match::no && format.suffixes.empty()) continue;
    auto model = match == Match::no ? failure(Code::unsupported, "") : read_as(format, container);
    if (model) return model;
    if (!may_be_another_format(model.error())) return named(model.error());
    if (match == Match::maybe && is_named_as(format, container.name)) of_named_format = model.error();
    tried += fmt::format("{}{}{}", tried.empty() ? "" : ", ", format.name,
                         match == Match::no ? "" : " (" + model.error().message + ")");
  }
  return behind_user_block(container, unidentified(container, of_named_format, tried)).map_error(with_name);
}

// Adds what pickle.load would import from a file of another format, which ignores the rest of it: a tar whose first
// member has a pickle as its name.
Result<void> add_hidden_pickle(Model& model, const Container& container, std::string head) {
  constexpr auto kPickles = std::to_array<std::string_view>({"pickle", "pytorch-legacy", "dcp"});
  const bool is_pickle = std::ranges::find(kPickles, model.format) != kPickles.end() || container.name == "data.pkl";
  if (head.empty() || is_pickle) return {};
  const auto whole = [&]() -> Result<SourcePtr> { return container.bytes; };
  const auto names = TRY(pickle::hidden_names(std::move(head), container.bytes->size(), whole, *container.budget));
  pickle::add_hidden(model, names);
  return {};
}

}  // namespace

Result<Model> read_model(const Container& container, const Format* forced) {
  std::string head;
  auto model = read_any(container, forced, head);
  if (!model) return model;
  TRY_VOID(add_hidden_pickle(*model, container, std::move(head)));
  if (!container.file.empty() && !model->chosen.is_set())
    return failure(Code::unsupported, fmt::format("{}: not a directory with a file {}", printable(container.name),
                                                  quoted(container.file)));
  model->budget = container.budget;
  // A server that lists nothing is not asked for a dozen small files that it may have.
  if (model->beside == nullptr && container.folder != nullptr && container.folder->lists_files())
    model->beside = container.folder;
  return model;
}

Result<bool> is_model(const Container& container) {
  if (is_refused_by_name(container.name)) return false;
  const auto probe = ContainerProbe::at_both_ends(container);
  if (!probe && probe.error().code == Code::io) return tl::unexpected(probe.error());
  if (!probe) return false;
  if (probe->find_sure() != nullptr) return true;
  return std::any_of(kFormats.begin(), kFormats.end(), [&](const Format& format) {
    if (probe->match(format) != Match::maybe) return false;
    return format.detect_by == DetectBy::name ? is_named_as(format, container.name)
                                              : format.read(container).has_value();
  });
}

bool is_named_as_model(std::string_view name) {
  // Only one JSON file in a thousand is an index of shards, and most XML files are something else, too.
  if (name.ends_with(".json") || name.ends_with(".xml")) return false;
  return std::any_of(kFormats.begin(), kFormats.end(), [&](const Format& format) { return is_named_as(format, name); });
}

Result<bool> could_be_model(const Container& member, std::span<const std::string_view> only) {
  const auto probe = ContainerProbe::at(member);
  if (!probe && probe.error().code == Code::io) return tl::unexpected(probe.error());
  const Match unseen = probe || is_about_the_bytes(probe.error()) ? Match::no : Match::maybe;
  return std::any_of(kFormats.begin(), kFormats.end(), [&](const Format& format) {
    if (!only.empty() && std::ranges::find(only, format.name) == only.end()) return false;
    const Match match = probe ? probe->match(format) : unseen;
    return match == Match::yes || (match == Match::maybe && is_named_as(format, member.name));
  });
}

namespace {

// The index of the only checkpoint of TensorFlow in a directory without other models.
std::optional<std::string> only_checkpoint(const std::vector<std::string>& names) {
  constexpr std::string_view kIndex = ".index";
  const auto is_index = [&](std::string_view name) { return name.ends_with(kIndex); };
  if (std::ranges::count_if(names, is_index) != 1) return std::nullopt;
  const std::string& index = *std::ranges::find_if(names, is_index);
  const std::string_view stem = std::string_view(index).substr(0, index.size() - kIndex.size());
  const std::string data = fmt::format("{}.data-00000-of-", stem);
  const auto begins_data = [&](std::string_view name) { return name.starts_with(data); };
  const auto is_other = [&](std::string_view name) { return !name.starts_with(stem) && is_named_as_model(name); };
  if (std::ranges::none_of(names, begins_data) || std::ranges::any_of(names, is_other)) return std::nullopt;
  return index;
}

// Whether the file in the folder surely is of this format.
bool is_of(std::string_view format, const Folder& folder, const char* name) {
  const auto bytes = folder.open(name);
  const auto probe = bytes ? ContainerProbe::at_both_ends({name, *bytes}) : tl::unexpected(bytes.error());
  return probe && probe->match(*format_named(format)) == Match::yes;
}

// The entry file with a common name whose bytes are those of its format; null if there is none.
const char* detected_entry(const std::vector<std::string>& names, const Folder& folder) {
  constexpr std::array<std::pair<const char*, std::string_view>, 2> kEntries = {
      {{"model.json", "tfjs"}, {".metadata", "dcp"}}};
  for (const auto& [name, format] : kEntries)
    if (std::ranges::binary_search(names, name) && is_of(format, folder, name)) return name;
  return nullptr;
}

// Whether the Manifest.json is that of a Core ML package.
Result<bool> is_package(const Folder& folder) {
  const auto bytes = folder.open("Manifest.json");
  return bytes && TRY(is_coreml_manifest(*bytes));
}

// The object of an archive of torch.save that was unpacked into the only directory among these names.
Result<std::optional<std::string>> only_checkpoint_below(const std::vector<std::string>& names, const Folder& folder) {
  const std::string* only = nullptr;
  for (const std::string& name : names) {
    if (name.starts_with('.') || name == "__MACOSX") continue;
    if (only != nullptr) return std::nullopt;
    only = &name;
  }
  if (only == nullptr) return std::nullopt;
  std::string entry = fmt::format("{}/data.pkl", *only);
  const auto bytes = folder.open_below(entry, "");
  const bool is_one =
      bytes &&
      archive::UnpackedForm{"data.pkl", archive::kCompanionsOfPytorch}.has_companion([&](std::string_view path) {
        return folder.open_below(fmt::format("{}/{}", *only, path), "").has_value();
      }) &&
      TRY(is_unpacked_pytorch(*bytes));
  return is_one ? std::optional(std::move(entry)) : std::nullopt;
}

}  // namespace

Result<std::optional<std::string>> model_entry_file(const std::vector<std::string>& names, const Folder& folder) {
  const auto exists = [&](std::string_view name) { return std::binary_search(names.begin(), names.end(), name); };
  const auto is_there = [&](std::string_view path) {
    return exists(path) || (path.find('/') != path.npos && folder.open_below(path, "").has_value());
  };
  const auto has_files_of = [&](const archive::UnpackedForm& form) {
    return exists(form.entry_file) && form.has_companion(is_there);
  };
  for (const archive::ArchiveFormat& format : archive::kArchiveFormats)
    if (format.unpacked.identifies == nullptr && has_files_of(format.unpacked))
      return std::string(format.unpacked.entry_file);
  const auto is_keras_index = [](std::string_view name) { return name.ends_with(".weights.json"); };
  if (std::ranges::count_if(names, is_keras_index) == 1) return *std::ranges::find_if(names, is_keras_index);
  for (const char* index : {"tensor-cache.json", "ndarray-cache.json"})
    if (exists(index)) return index;
  if (auto index = only_checkpoint(names)) return index;
  if (const char* const entry = detected_entry(names, folder)) return entry;
  if (exists("Manifest.json") && exists("Data") && TRY(is_package(folder))) return "Manifest.json";
  // Last the entry files with a common name (metadata.json), which have to be read.
  for (const archive::ArchiveFormat& format : archive::kArchiveFormats) {
    const archive::UnpackedForm& form = format.unpacked;
    if (form.identifies == nullptr || !has_files_of(form)) continue;
    const auto bytes = folder.open(form.entry_file);
    if (bytes && TRY(form.identifies(*bytes))) return std::string(form.entry_file);
  }
  return only_checkpoint_below(names, folder);
}

}  // namespace weightfs
