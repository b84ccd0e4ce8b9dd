// Files that are no model of a supported format: what they are, and what to do. People meet them under the names of
// models: a Git LFS pointer, the error page of a server, a download that was interrupted.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format.h"

namespace weightfs {

/// What a file is by its name and its first bytes, before any format reads it: "a Git LFS pointer to a file of 4.6 GiB
/// (4,920,739,232 bytes); run git lfs pull". Nothing if it may be a model. Fails with unsupported, and with io.
Result<void> check_may_be_model(const Container& container);

/// As check_may_be_model(), for a file that belongs to a model, such as a shard: if it is no model, that is damage.
Result<void> check_may_be_shard(const Container& container);

/// What a file is that no format accepts: also compressed files, and models of formats that are known and not
/// supported. Nothing if it is unknown. Reads at most 64 KiB, and decodes 512 bytes.
Result<std::optional<Error>> identify_other_file(const Container& container);

/// What a file is that is only known to be text. A file with the name of a format is more likely a broken one of
/// it.
Result<std::optional<Error>> identify_text(const Container& container);

/// What a directory with these files is, if it is a model of a format that is known and not supported.
std::optional<Error> identify_other_directory(const std::vector<std::string>& names);

/// Whether a file of this name is no model, whatever its bytes are: an unfinished download (`.part`), or a format that
/// is a zip and is not supported.
bool is_refused_by_name(std::string_view name);

/// Whether a file of this name is listed although it is no model: a name of a model, also that of an unfinished
/// download or of a compressed file.
bool is_named_as_bad_file(std::string_view name);

/// The name of a failure for programs: its own, such as "git-lfs-pointer", else "damaged" for corrupt bytes, else that
/// of its Code, such as "not-found".
std::string_view error_name(const Error& error);

}  // namespace weightfs
