// Where other programs note the digest of one file on disk: in its name, in the notes of huggingface_hub, and in those
// of programs that manage models, such as Civitai Helper. Anybody may have written a note, so an invalid one is
// ignored.
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
  std::string stated_in;     ///< see FileCheck
  bool is_modified = false;  ///< see FileCheck
};

/// The digest in the name of a file in a store of blobs: of Ollama (`sha256-HEX`), of huggingface_hub, Docker and OCI
/// (`blobs/HEX`, `blobs/sha256/HEX`), of Git LFS. For a link, the name of its target counts. Nothing for other names.
std::optional<FileDigest> digest_in_name(const Location& file);

/// The directories below a local directory in which huggingface_hub keeps its notes about the files there.
inline constexpr std::array<const char*, 2> kDownloadNotes = {".cache/huggingface/download", ".huggingface/download"};

/// How many levels above the directory of a file such a local directory may be.
inline constexpr int kMaxAboveDownload = 4;

/// Where huggingface_hub notes what it has downloaded to a directory (`hf download --local-dir`).
struct Downloads {
  Location notes;      ///< LOCAL_DIR/.cache/huggingface/download
  std::string prefix;  ///< of the paths of the files below another directory, which is in LOCAL_DIR
};

/// The notes about files below a directory: in it, or up to four directories above.
std::vector<Downloads> find_downloads(const Location& directory);

/// The digest in the note about a file, which has its commit, its ETag and the time of the download. The file counts as
/// modified if it was changed more than a second after the download: then huggingface_hub ignores the note. Nothing if
/// there is no valid note.
std::optional<StatedDigest> downloaded_digest(const Downloads& downloads, const std::string& path,
                                              const Location& file);

/// The SHA-256 of a file in the note that a program that manages models has written beside it. The note is the answer
/// of civitai.com about a version of a model, or an object with the digest of one file. In an answer with several
/// files, the one called `name` counts, in any case of letters, or else the only one of `size` bytes. Nothing if the
/// note has no such digest. Fails if the note is not valid JSON.
Result<std::optional<Digest>> digest_noted_by_manager(const Source& note, std::string_view name, uint64_t size);

}  // namespace weightfs
