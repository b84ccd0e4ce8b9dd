// Ids, commits and URLs of repositories on the Hugging Face Hub.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "protocols/huggingface.h"

namespace weightfs::huggingface {

/// The maximum number of files in a list.
constexpr size_t kMaxListedFiles = 2'000'000;

/// Whether it is the id of a repository as a server may send it: "org/repo", or "repo" of old repositories.
bool is_repository_id(std::string_view text);

/// Whether it is a commit: 40 hex digits in lower case.
bool is_commit(std::string_view text);

/// The URLs of a repository below `endpoint`, which does not end with `/`.
std::string api_url(const std::string& endpoint, const Name& name, std::string_view method,
                    const std::string& revision);
std::string file_url(const std::string& endpoint, const Name& name, const std::string& commit, const std::string& path);

/// The page where access to a gated repository is requested.
std::string page_url(const std::string& endpoint, const Name& name);

}  // namespace weightfs::huggingface
