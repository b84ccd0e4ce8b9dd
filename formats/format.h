// A format is a row: a name, how to recognise it, how to read it. And what formats read from.
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

/// What lies beside a container, by name: a directory on disk, the members of an archive. Callable from any thread.
class Folder {
 public:
  virtual ~Folder() = default;
  Folder() = default;
  Folder(const Folder&) = default;
  Folder& operator=(const Folder&) = default;

  /// The names of the regular files in it, sorted by byte. Fails with io.
  virtual Result<std::vector<std::string>> names() const = 0;

  /// Opens one. A name with a `/`, `.` and `..` are refused: nothing outside the folder is ever opened.
  virtual Result<SourcePtr> open(std::string_view name) const = 0;

  /// Whether its files take storage of their own, as files of a directory do and members of an archive do not.
  virtual bool is_storage() const { return false; }

  /// Every file in it and in its directories, to the last, `/` between components, sorted by byte; symbolic links as
  /// links, not followed. Fails with io, and with unsupported beyond kMostMembers.
  virtual Result<std::vector<Part>> parts() const = 0;
};

/// A container of files has no more of them than this.
inline constexpr size_t kMostMembers = 2'000'000;

/// Containers in containers are entered to this depth; what lies deeper is a file like any other.
inline constexpr int kDeepest = 8;

/// A container to be read.
struct Container {
  std::string name;  ///< its own file name
  SourcePtr bytes;
  std::shared_ptr<const Folder> folder = {};  ///< what lies beside it; null when nothing does
  BlobsPtr blobs = uncached_blobs();          ///< where what has to be unpacked is kept
  int depth = 0;                              ///< how many containers it lies in
  BudgetPtr budget = budget_of(bytes);        ///< that of the outermost container: given on to all that is read below
};

/// Opens a file beside the container, which must have a folder. A file with storage of its own extends the budget.
/// Fails as Folder::open() does.
Result<SourcePtr> open_beside(const Container& container, std::string_view name);

/// How sure the first bytes make us.
enum class Match {
  no,     ///< not this format
  maybe,  ///< a format without a magic number: only reading it tells
  yes,    ///< this format, if broken perhaps
};

inline constexpr size_t kHeadSize = 4096;

/// What a format sees of a file to tell whether it is one of its own.
struct Clues {
  std::string_view name;  ///< of the file
  std::string_view head;  ///< its first kHeadSize bytes, or all
  std::string_view tail;  ///< its last kHeadSize bytes, or all
  uint64_t size;          ///< in bytes
};

/// How a `maybe` is settled: by reading, or where that might unpack all of the file, by its name.
enum class Settled { by_reading, by_name };

/// One row per format.
struct Format {
  std::string_view name;      ///< what `--format` takes and metadata.json shows
  std::string_view suffixes;  ///< how its files' names usually end, separated by spaces
  Match (*matches)(const Clues& clues);
  Result<Model> (*read)(const Container& container);
  Settled settled = Settled::by_reading;
};

/// Every format, in the order in which they are tried. Those after the first that cannot be detected by content (a
/// forced layout) have a `matches` that says no.
std::span<const Format> formats();

/// The row named `name`; null when there is none.
const Format* format_named(std::string_view name);

/// Reads `container` as whatever it is. Fails with unsupported ("not a model that weightfs knows", naming what was
/// tried and why it is not that) or with the error of the one format that it surely is. `forced` leaves detection out.
Result<Model> read_model(const Container& container, const Format* forced = nullptr);

/// When `container` is one of the files of a split model, what all of them have in common, as text; nothing when it
/// stands alone. Any of them opens the whole model, so a directory shows one.
std::optional<std::string> split_model_of(const Container& container);

/// The same as far as the name alone tells.
std::optional<std::string> split_model_named(std::string_view name);

/// Whether read_model could succeed, from the first bytes; a `maybe` is settled by reading. Fails with io where the
/// system refuses to look.
Result<bool> is_model(const Container& container);

/// Whether files that are called so usually are models.
bool is_named_as_model(std::string_view name);

/// The same of a member of an archive, which to read may take unpacking all of it: there a `maybe` is settled by its
/// name, and so is one whose bytes cannot be had now. Fails with io where the system refuses to look.
Result<bool> could_be_model(const Container& member);

/// The file by which a directory is one model and not a directory of models: carton.toml beside a MANIFEST, the only
/// `*.safetensors.index*.json`, an MLC tensor cache's index, the metadata.json of an unpacked TVM Model Library Format.
/// `names`: what lies in the directory, sorted by byte. Fails with io.
Result<std::optional<std::string>> key_file(const std::vector<std::string>& names, const Folder& folder);

/// A model of a store, by its place: "registry.ollama.ai/library/llama3.2/latest".
struct Shelved {
  std::string path;
  Container container;   ///< its manifest
  std::string identity;  ///< of the manifest's file: tags that are hard links of one file have the same; may be empty
};

/// What a store of manifests holds, sorted by place, and a line for each thing in it that is no model, or lacks blobs.
struct Shelves {
  std::vector<Shelved> models;
  std::vector<std::string> warnings;
};

/// The models of an Ollama store, from its directories manifests/ and blobs/. Every manifest is read; of blobs only the
/// size is looked at. Fails as listing the directories fails.
Result<Shelves> read_shelves(const Folder& manifests, const std::shared_ptr<const Folder>& blobs,
                             const BlobsPtr& store);

/// Whether a file at this place in such a store (components joined by `/`) is a manifest.
bool is_shelf_path(std::string_view path);

// The formats' own entries, each in its file.
Match matches_gguf(const Clues& clues);
Result<Model> read_gguf(const Container& container);
Match matches_rten(const Clues& clues);
Result<Model> read_rten(const Container& container);
Match matches_safetensors(const Clues& clues);
Result<Model> read_safetensors(const Container& container);
Match matches_safetensors_index(const Clues& clues);
Result<Model> read_safetensors_index(const Container& container);
Match matches_bintensors(const Clues& clues);
Result<Model> read_bintensors(const Container& container);
Result<Model> read_bintensors_release(const Container& container);
Result<Model> read_bintensors_legacy(const Container& container);
Match matches_zip(const Clues& clues);
Result<Model> read_zip(const Container& container);  // a carton, or any zip
Match matches_carton_directory(const Clues& clues);
Result<Model> read_carton(
    const Container& container);  // a zip that must be one, or a directory, named by its carton.toml
Match matches_tar(const Clues& clues);
Result<Model> read_tar(const Container& container);  // a TVM Model Library Format, or any tar
Match matches_mlf_directory(const Clues& clues);
Result<Model> read_mlf(
    const Container& container);  // a tar that must be one, or a directory, named by its metadata.json
Match matches_tvm_params(const Clues& clues);
Result<Model> read_tvm_params(const Container& container);
Match matches_tensor_cache(const Clues& clues);
Result<Model> read_tensor_cache(const Container& container);  // named by its index
Match matches_ollama(const Clues& clues);
Result<Model> read_ollama(const Container& container);  // a manifest; the blobs lie in its folder

}  // namespace weightfs
