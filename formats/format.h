// A format is a row: a name, how to recognise it, how to read it. And what formats read from.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/source.h"
#include "formats/model.h"

namespace weightfs {

/// What lies beside a container, by name: a directory on disk (later: the members of an archive). Callable from any
/// thread.
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
};

/// A container to be read: its bytes, its own file name, and what lies beside it (null when nothing does).
struct Container {
  std::string name;
  SourcePtr bytes;
  std::shared_ptr<const Folder> folder;
};

/// How sure the first bytes make us.
enum class Match {
  no,     ///< not this format
  maybe,  ///< a format without a magic number: only reading it tells
  yes,    ///< this format, if broken perhaps
};

/// One row per format.
struct Format {
  std::string_view name;  ///< what `--format` takes and metadata.json shows
  Match (*matches)(std::string_view head,
                   uint64_t size);  ///< `head`: the first kHeadSize bytes or fewer; `size`: of the file
  Result<Model> (*read)(const Container& container);
};

inline constexpr size_t kHeadSize = 4096;

/// Every format, in the order in which they are tried. Those after the first that cannot be detected by content (a
/// forced layout) have a `matches` that says no.
std::span<const Format> formats();

/// The row named `name`; null when there is none.
const Format* format_named(std::string_view name);

/// Reads `container` as whatever it is. Fails with unsupported ("not a model I know", naming what was tried and why it
/// is not that) or with the error of the one format that it surely is. `forced` leaves detection out.
Result<Model> read_model(const Container& container, const Format* forced = nullptr);

/// When `container` is one of the files of a split model, what all of them have in common, as text; nothing when it
/// stands alone. Any of them opens the whole model, so a directory shows one.
std::optional<std::string> split_model_of(const Container& container);

/// Whether read_model could succeed, from the first bytes; a `maybe` is settled by reading.
bool is_model(const Container& container);

// The formats' own entries, each in its file.
Match matches_gguf(std::string_view head, uint64_t size);
Result<Model> read_gguf(const Container& container);
Match matches_rten(std::string_view head, uint64_t size);
Result<Model> read_rten(const Container& container);
Match matches_safetensors(std::string_view head, uint64_t size);
Result<Model> read_safetensors(const Container& container);
Match matches_safetensors_index(std::string_view head, uint64_t size);
Result<Model> read_safetensors_index(const Container& container);
Match matches_bintensors(std::string_view head, uint64_t size);
Result<Model> read_bintensors(const Container& container);
Result<Model> read_bintensors_release(const Container& container);
Result<Model> read_bintensors_legacy(const Container& container);

}  // namespace weightfs
