// Where other programs note the digest of one file on disk: in its name, in the notes of huggingface_hub, in those of
// managers of models. They are hostile: what is not valid is left out.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "sources/disk/checksum_list.h"
#include "sources/disk_folder.h"

namespace weightfs {

/// The digest of a file, and where it is stated.
struct StatedDigest {
  FileDigest digest;
  std::string stated_in;     ///< see NamedBlob
  bool is_modified = false;  ///< see NamedBlob
};

/// The digest in the name of a file in a store of blobs: of Ollama (`sha256-HEX`), of huggingface_hub, Docker and OCI
/// (`blobs/HEX`, `blobs/sha256/HEX`), of Git LFS. A link is a file of the name that it leads to. Nothing for others.
std::optional<FileDigest> digest_in_name(const Location& file);

/// Directories with notes of huggingface_hub about the files of a local directory, below that.
inline constexpr std::array<const char*, 2> kDownloadNotes = {".cache/huggingface/download", ".huggingface/download"};

/// How many directories above a file's own such a local directory may be.
inline constexpr int kMaxAboveDownload = 4;

/// Where huggingface_hub notes what it has downloaded to a directory (`hf download --local-dir`).
struct Downloads {
  Location notes;      ///< LOCAL_DIR/.cache/huggingface/download
  std::string prefix;  ///< of the paths of the files below another directory, which is in LOCAL_DIR
};

/// The notes about files below a directory: in it, or up to four directories above.
std::vector<Downloads> find_downloads(const Location& directory);

/// The digest in the note about a file, which has its commit, its ETag and the time of the download. It is modified if
/// it was so a second after that, when huggingface_hub ignores the note. Nothing if there is no valid one.
std::optional<StatedDigest> downloaded_digest(const Downloads& downloads, const std::string& path,
                                              const Location& file);

/// The SHA-256 of the file `name` of `size` bytes in what a manager of models has noted beside it: the answer of
/// civitai.com about a version (its file of this name in any case, else the only one of this size), or an object with a
/// digest of the file. Nothing for others. Fails if it is not valid JSON.
Result<std::optional<Digest>> digest_noted_by_manager(const Source& note, std::string_view name, uint64_t size);

}  // namespace weightfs
