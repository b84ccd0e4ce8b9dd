// A format is a table row: a name, how to detect it, how to read it. This header also has the input of the formats:
// containers and their folders.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/blobs.h"
#include "base/budget.h"
#include "base/source.h"
#include "formats/model.h"

namespace weightfs {

/// The files next to a container, by name: of a directory on disk, or of an archive. Callable from any thread.
class Folder {
 public:
  virtual ~Folder() = default;
  Folder() = default;
  Folder(const Folder&) = default;
  Folder& operator=(const Folder&) = default;

  /// The names of the regular files in the folder, sorted by byte. Fails with io.
  virtual Result<std::vector<std::string>> names() const = 0;

  /// Opens a file. Names with a `/`, `.` and `..` are refused: nothing outside the folder is opened.
  virtual Result<SourcePtr> open(std::string_view name) const = 0;

  /// Opens a file at a path below the folder that a container refers to: components joined by `/`, without `..`. A link
  /// is followed only if it stays in the folder; one beside the container `referrer`, which must be a link too, may
  /// lead to the directory that this leads to, as in the cache of Hugging Face. By default only the folder's own files.
  virtual Result<SourcePtr> open_below(std::string_view path, std::string_view /*referrer*/) const {
    return open(path);
  }

  /// Tells that the reader is about to open these files, and to read so many first bytes of each as `header_size`
  /// computes from its first kHeadSize bytes. A folder on a server requests them at the same time.
  virtual void prepare(const std::vector<std::string>& /*names*/,
                       uint64_t (* /*header_size*/)(std::string_view head)) const {}

  /// Whether its files take storage of their own: true for a directory on disk, false for members of an archive.
  virtual bool is_storage() const { return false; }

  /// Whether names() are all of its files. Else each other file is found only by asking for its name.
  virtual bool lists_files() const { return true; }

  /// Whether a model that refers to a file here fails without it: true on servers, which may have the file later, while
  /// a mount never changes.
  virtual bool needs_every_file() const { return false; }

  /// All files in the folder and its subdirectories, components joined by `/`, sorted by byte; symbolic links as links,
  /// not followed. Fails with io, and with unsupported beyond kMaxMembers.
  virtual Result<std::vector<Part>> parts() const = 0;
};

/// The maximum number of files in a container.
inline constexpr size_t kMaxMembers = 2'000'000;

/// The maximum nesting depth of containers; a container at a greater depth is shown as a plain file.
inline constexpr int kMaxNestingDepth = 8;

/// The input of Format::read.
struct Container {
  std::string name;  ///< its file name
  SourcePtr bytes;
  std::shared_ptr<const Folder> folder = {};  ///< the files next to it; null if there are none
  BlobsPtr blobs = uncached_blobs();          ///< keeps decoded and fetched data
  int depth = 0;                              ///< the number of containers around it
  BudgetPtr budget = budget_of(bytes);  ///< of the outermost container; shared by everything that is read below it
  std::string file = {};     ///< in an archive or artifact that is a directory: the path of the file that is its model
  bool lists_tried = false;  ///< the error of a file that no format accepts lists the formats that were tried, and why
};

/// Opens a file next to the container, which must have a folder. A file with storage of its own extends the budget.
/// Fails as Folder::open() does.
Result<SourcePtr> open_beside(const Container& container, std::string_view name);

/// Opens a file in the folder or below it, which the container refers to. Fails as Folder::open_below() does.
Result<SourcePtr> open_below(const Container& container, std::string_view path);

/// Whether a model fails for this error of another file of it: a retry may avoid the error, or the folder needs every
/// file. Otherwise the model lacks the file.
bool is_fatal(const Container& container, const Error& error);

/// The result of detection by the first and last bytes.
enum class Match {
  no,     ///< not this format
  maybe,  ///< a format without a magic number: only parsing decides
  yes,    ///< this format, though the file may be corrupt
};

inline constexpr size_t kHeadSize = 4096;

/// The part of a file that a format sees for detection.
struct Probe {
  std::string_view name;  ///< of the file
  std::string_view head;  ///< its first kHeadSize bytes, or all of a shorter file
  std::string_view tail;  ///< its last kHeadSize bytes, or all of a shorter file
  uint64_t size;          ///< in bytes

  /// Whether the first character that is not white space is `{`.
  [[nodiscard]] bool begins_json_object() const {
    const size_t first = head.find_first_not_of(" \t\r\n");
    return first != head.npos && head[first] == '{';
  }
  [[nodiscard]] bool head_contains(std::string_view text) const { return head.find(text) != head.npos; }
};

/// How a `maybe` is decided: by parsing the content, or by the file's name where parsing might decode all of the file.
enum class DetectBy { content, name };

/// One row per format.
struct Format {
  std::string_view name;      ///< the argument of `--format` and the format in metadata.json
  std::string_view suffixes;  ///< usual suffixes of its files' names, separated by spaces
  Match (*matches)(const Probe& probe);
  Result<Model> (*read)(const Container& container);
  std::string_view subject = name;  ///< in front of the messages of its errors; empty if they begin with one
  DetectBy detect_by = DetectBy::content;
};

/// All formats, in the order of detection. Those that cannot be detected (a forced layout) come last; their `matches`
/// returns no.
std::span<const Format> formats();

/// The format with this name; null if there is none.
const Format* format_named(std::string_view name);

/// Reads a container of a known format. Fails as Format::read does; the message begins with Format::subject.
Result<Model> read_as(const Format& format, const Container& container);

/// Reads a container of the format with this name, which must exist.
Result<Model> read_as(std::string_view format, const Container& container);

/// Detects the format of `container` and reads it. Fails with the error of the format that it surely is or is named as,
/// or with what else the file is (other_files.h). `forced` skips detection.
Result<Model> read_model(const Container& container, const Format* forced = nullptr);

/// The common name of the files of a split model if `container` is one of them, else nothing. Each of the files opens
/// the whole model, so a directory lists one.
std::optional<std::string> split_model_of(const Container& container);

/// Judges by the name alone.
std::optional<std::string> split_model_named(std::string_view name);

/// Whether read_model could succeed, by the first bytes; a `maybe` is decided by parsing. Fails with io if the file
/// cannot be read.
Result<bool> is_model(const Container& container);

/// Whether this is a usual file name of a model.
bool is_named_as_model(std::string_view name);

/// Whether a member of an archive could be a model, where parsing might decode all of it: a `maybe` is decided by the
/// name, as is a member whose bytes are not available now. `only`: of these formats; of any if it is empty. Fails with
/// io if it cannot be read.
Result<bool> could_be_model(const Container& member, std::span<const std::string_view> only = {});

/// The model that a part of `model` is if it could be one of these formats, else null. It is charged to the budget of
/// `model`, as is decoding a member of an archive. Fails as read_model() does.
Result<ModelPtr> model_of_part(const Model& model, const Part& part, std::span<const std::string_view> only);

/// What a program would import that unpickles this part of a model, whatever its name and its format are, also after it
/// is decompressed: a model with the common fields `dangerous_globals` and `unknown_globals`, or the model that is
/// compressed; null if there is nothing. It is charged to the budget of `model`. Fails with unsupported for an archive
/// of a kind that is not read, and as reading and decoding do.
Result<ModelPtr> unpickled_part(const Model& model, const Part& part, std::span<const std::string_view> only);

/// The entry file of a directory in a form of its own: that of an unpacked archive (archive/archive_formats.h), the
/// only `*.weights.json`, the index of an MLC tensor cache, the index of the only checkpoint of TensorFlow, the
/// model.json of TensorFlow.js, the .metadata of a checkpoint of torch.distributed.checkpoint, or the manifest of a
/// Core ML package. `names`: the files of the directory, sorted by byte. Fails with io.
Result<std::optional<std::string>> model_entry_file(const std::vector<std::string>& names, const Folder& folder);

/// A model of an Ollama store; its path is like "registry.ollama.ai/library/llama3.2/latest".
struct StoredModel {
  std::string path;
  Container container;   ///< its manifest
  std::string identity;  ///< of the manifest's file: equal for tags that are hard links of one file; may be empty
};

/// The contents of an Ollama store: its models, sorted by path, and one line for each file that is not a valid manifest
/// or lacks blobs.
struct OllamaStoreListing {
  std::vector<StoredModel> models;
  std::vector<std::string> warnings;
  std::vector<std::string> damaged;  ///< the paths of the files that are not valid manifests
};

/// Lists the models of an Ollama store from its directories manifests/ and blobs/. Reads every manifest, but only the
/// sizes of blobs. Fails if the directories cannot be listed.
Result<OllamaStoreListing> read_ollama_store(const Folder& manifests, const std::shared_ptr<const Folder>& blobs,
                                             const BlobsPtr& store);

/// Whether a file at this path below manifests/ (components joined by `/`) is a manifest.
bool is_manifest_path(std::string_view path);

// The functions of the rows, each format's in its file.
Match matches_gguf(const Probe& probe);
Result<Model> read_gguf(const Container& container);
Match matches_rten(const Probe& probe);
Result<Model> read_rten(const Container& container);
Match matches_safetensors(const Probe& probe);
Result<Model> read_safetensors(const Container& container);
Match matches_safetensors_index(const Probe& probe);
Result<Model> read_safetensors_index(const Container& container);
Match matches_bintensors(const Probe& probe);
Result<Model> read_bintensors(const Container& container);
Result<Model> read_bintensors_release(const Container& container);
Result<Model> read_bintensors_legacy(const Container& container);
Match matches_ggml(const Probe& probe);
Result<Model> read_ggml(const Container& container);
Match matches_flax(const Probe& probe);
Result<Model> read_flax(const Container& container);
Match matches_llamafile(const Probe& probe);
Result<Model> read_llamafile(const Container& container);
Match matches_npy(const Probe& probe);
Result<Model> read_npy(const Container& container);
Match matches_pytorch_legacy(const Probe& probe);
Result<Model> read_pytorch_legacy(const Container& container);
Match matches_pickle(const Probe& probe);
Result<Model> read_pickle(const Container& container);
Match matches_dcp(const Probe& probe);
Result<Model> read_dcp(const Container& container);  // named by its .metadata; the chunks are in files beside it
Match matches_zip(const Probe& probe);
Result<Model> read_zip(const Container& container);  // the formats in zips are rows of archive/archive_formats.h
Match matches_tar(const Probe& probe);
Result<Model> read_tar(const Container& container);
Match matches_tvm_params(const Probe& probe);
Result<Model> read_tvm_params(const Container& container);
Match matches_executorch(const Probe& probe);
Result<Model> read_executorch(const Container& container);
Match matches_tflite(const Probe& probe);
Result<Model> read_tflite(const Container& container);
Match matches_tensor_cache(const Probe& probe);
Result<Model> read_tensor_cache(const Container& container);  // named by its index
Match matches_onnx(const Probe& probe);
Result<Model> read_onnx(const Container& container);
Match matches_keras_sharded(const Probe& probe);
Result<Model> read_keras_sharded(const Container& container);  // named by its index
Match matches_hdf5(const Probe& probe);
Result<Model> read_hdf5(const Container& container);
Match matches_caffe(const Probe& probe);
Result<Model> read_caffe(const Container& container);
Match matches_coreml(const Probe& probe);
Result<bool> is_coreml_manifest(const SourcePtr& manifest);
Result<Model> read_coreml(const Container& container);  // a model, or a package, named by its manifest
Match matches_mxnet(const Probe& probe);
Result<Model> read_mxnet(const Container& container);
Match matches_mindspore(const Probe& probe);
Result<Model> read_mindspore(const Container& container);
Match matches_openvino(const Probe& probe);
Result<Model> read_openvino(const Container& container);  // named by its structure; the weights are beside it
Match matches_paddle(const Probe& probe);
Result<Model> read_paddle(const Container& container);
Match matches_tensorflow_checkpoint(const Probe& probe);
Result<Model> read_tensorflow_checkpoint(const Container& container);  // named by its index
Match matches_tensorflow_graph(const Probe& probe);
Result<Model> read_tensorflow_graph(const Container& container);
Match matches_ort(const Probe& probe);
Result<Model> read_ort(const Container& container);
Match matches_ncnn(const Probe& probe);
Result<Model> read_ncnn(const Container& container);  // a .param, with the .bin beside it
Match matches_darknet(const Probe& probe);
Result<Model> read_darknet(const Container& container);  // a .weights, with the .cfg beside it
Match matches_ctranslate2(const Probe& probe);
Result<Model> read_ctranslate2(const Container& container);
Match matches_nnef_tensor(const Probe& probe);
Result<Model> read_nnef_tensor(const Container& container);
Match matches_xgboost(const Probe& probe);
Result<Model> read_xgboost(const Container& container);
Match matches_lightgbm(const Probe& probe);
Result<Model> read_lightgbm(const Container& container);
Match matches_tfjs(const Probe& probe);
Result<Model> read_tfjs(const Container& container);  // named by its model.json
Match matches_oci(const Probe& probe);
Result<Model> read_oci(const Container& container);
Match matches_ollama(const Probe& probe);
Result<Model> read_ollama(const Container& container);  // a manifest; the blobs are in its folder

}  // namespace weightfs
