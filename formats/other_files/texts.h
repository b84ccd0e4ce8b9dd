// Texts that servers and programs leave in place of a model: pointers, pages, errors.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/format.h"

namespace weightfs::other_files {

/// That a file is not a model, but `what`; `name` is the failure's name for programs.
inline Error other(std::string what, const char* name = "unsupported") {
  Error error(Code::unsupported, std::move(what));
  error.name = name;
  return error;
}

/// A pointer to a file in Git LFS, by the first bytes of the container; also whether the file that it names is cached.
/// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
std::optional<Error> git_lfs_pointer(const Container& container, std::string_view head);

/// An HTML page, by its first bytes.
std::optional<Error> html(std::string_view head);

/// An XML document, by its beginning.
std::optional<Error> xml(std::string_view begin);

/// A JSON document that reports an error, if `begin` is all of it.
std::optional<Error> json_error(std::string_view begin, uint64_t size, Budget& budget);

/// The error for any JSON document.
std::optional<Error> json(std::string_view begin, uint64_t size, Budget& budget);

/// Any other text in UTF-8.
std::optional<Error> plain_text(std::string_view begin, uint64_t size);

}  // namespace weightfs::other_files
