// A format is a table row: a name, how to detect it, how to read it, what is true of it. This header also has the input
// of the formats: containers and their folders.
#pragma once

#include <functional>
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

/// The names of the tensors that a reader needs of a model on a server; none if it needs the files only. Null: all.
using NeededTensors = std::shared_ptr<const std::vector<std::string>>;

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
  /// An index of shards reads only those that have these tensors, if it is right about them.
  NeededTensors needed_tensors = {};
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

/// What is true of all models of a format, for those who count, examine and describe them.
struct Traits {
  enum Content { tensors, graph, trees, pipeline };
  enum Framework { unknown, torch, keras, tensorflow, paddle, onnx, nemo };

  Content content = tensors;            ///< what a model is if nothing else tells
  Framework framework = unknown;        ///< whose names of tensors, packed weights and configurations it has
  bool is_pickle = false;               ///< its files are pickles, from the first byte on
  bool may_have_pickles = false;        ///< its files are pickles, or may have them inside
  bool may_have_torchscript = false;    ///< source code of TorchScript is in its directory `code`
  bool has_gguf_keys = false;           ///< its metadata are the keys of a GGUF
  bool has_modules = false;             ///< its tensors are parameters of modules, by their names in the program
  bool has_integer_weights = false;     ///< integers of at most 8 bits are weights, as in quantised graphs
  bool has_scalar_constants = false;    ///< single numbers are constants of a graph, not parameters
  bool has_scales_beside = false;       ///< "w/scale" and "w/zero_point" are constants of the weight "w"
  bool lists_scaled_tensors = false;    ///< `quantization` in its metadata is a list of all tensors that have scales
  bool is_unpacked = false;             ///< several weights are never stored in one element
  bool has_tensors_apart = false;       ///< no two tensors that are not empty have bytes in common
  bool has_logical_shapes = false;      ///< shapes count weights, also those of types that weightfs does not know
  bool has_many_quantisations = false;  ///< a repository has many files of it, each with all weights in another type
  bool has_version_of_storage = false;  ///< its version is about how numbers are stored: it tells users nothing
  bool has_prompt_layers = false;       ///< its files `template`, `system`, `params.json`, `license` are for prompts
};

/// A directory that is one model: it is named by one of its files, the entry.
struct DirectoryForm {
  /// The name of the entry, or several, separated by spaces; `*.index` is the only file with this suffix. Empty if no
  /// directory is a model of the format.
  std::string_view entry;
  std::string_view companions = {};  ///< paths, separated by spaces, one of which must be in the directory; "" for none
  /// Whether the entry's content identifies the format; null if its name does. Fails with io.
  Result<bool> (*identifies)(const SourcePtr& entry) = nullptr;
  bool is_matched = false;  ///< the entry identifies the format only if Format::matches says yes
  /// Whether the names of the other files are those of such a directory; null: any are.
  bool (*fits)(std::string_view entry, const std::vector<std::string>& names) = nullptr;
  bool is_below_others = false;  ///< the directory may also be the only one in the directory of a model
  /// The paths of files that the directory may have, for a directory on a server that is not asked for a listing; null:
  /// the format is not read there. Empty if the companion is missing. Fails as reading does.
  Result<std::vector<std::string>> (*files)(const Container& entry) = nullptr;

  /// Whether one of the companions exists, or none is needed.
  bool has_companion(const std::function<bool(std::string_view path)>& exists) const;
};

/// One row per format: all that is true of it. The rows are in flat_formats.h and in archive/archive_formats.h.
struct Format {
  std::string_view name;           ///< the argument of `--format` and the format in metadata.json
  std::string_view title = name;   ///< as people write it: "TensorFlow.js"
  std::string_view suffixes = {};  ///< usual suffixes of its files' names, separated by spaces
  Match (*matches)(const Probe& probe);
  Result<Model> (*read)(const Container& container);
  std::string_view subject = name;  ///< in front of the messages of its errors; empty if they begin with one
  DetectBy detect_by = DetectBy::content;
  /// Where the file begins behind other bytes, at `begin` or from there on before `end`; null: never.
  Result<std::optional<uint64_t>> (*find_start)(const Source& bytes, uint64_t begin, uint64_t end) = nullptr;
  Traits traits = {};
  DirectoryForm directory = {};

  /// The usual suffix that a file's name has; empty if it has none.
  [[nodiscard]] std::string_view suffix_of(std::string_view file_name) const;
};

/// All formats, in the order of detection. Those that cannot be detected (a forced layout) come last; their `matches`
/// returns no.
std::span<const Format> formats();

/// The format with this name; null if there is none.
const Format* format_named(std::string_view name);

/// What is true of the models of this format; of a name that is no format ("diffusers"), nothing.
const Traits& traits_of(std::string_view format);

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

/// The formats that a caller looks for: those with this trait; null: any.
using Only = bool Traits::*;

/// Whether a member of an archive could be a model, where parsing might decode all of it: a `maybe` is decided by the
/// name, as is a member whose bytes are not available now. Fails with io if it cannot be read.
Result<bool> could_be_model(const Container& member, Only only = nullptr);

/// The model that a part of `model` is if it could be one of these formats, else null. It is charged to the budget of
/// `model`, as is decoding a member of an archive. Fails as read_model() does.
Result<ModelPtr> model_of_part(const Model& model, const Part& part, Only only);

/// What a program would import that unpickles this part of a model, whatever its name and its format are, also after it
/// is decompressed: a model with the common fields `dangerous_globals` and `unknown_globals`, or the model that is
/// compressed; null if there is nothing. It is charged to the budget of `model`. Fails with unsupported for an archive
/// of a kind that is not read, and as reading and decoding do.
Result<ModelPtr> unpickled_part(const Model& model, const Part& part, Only only);

/// The entry file of a directory in a form of its own (Format::directory). `names`: the files and directories in it,
/// sorted by byte. Fails with io.
Result<std::optional<std::string>> model_entry_file(const std::vector<std::string>& names, const Folder& folder);

}  // namespace weightfs
