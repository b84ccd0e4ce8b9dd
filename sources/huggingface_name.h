// Names of repositories on the Hugging Face Hub: `hf://org/repo@revision/path` (huggingface_hub, "HF URIs"), and their
// URLs.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weightfs::huggingface {

/// `hf:` and this text name a repository, or a file or directory in it.
struct Name {
  std::string server = {};        ///< "https://host" or "http://host", or "host" without a scheme; empty: the default
  std::string kind = "models";    ///< or "datasets", "spaces"
  std::string id = {};            ///< "org/repo"
  std::string revision = "main";  ///< a branch, a tag, a commit, "refs/pr/1"
  std::string path = {};          ///< without `/` at its ends; empty: the whole repository

  /// "hf://org/repo@revision/path", with `datasets/` or `spaces/` before the id, and the server if one is named.
  std::string text() const;
};

/// Parses the text after `hf:`. A first component with a dot or a colon in it, or `localhost`, is a server. A revision
/// ends at the next `/`, except those of refs/pr/N and refs/convert/NAME; %2F in it is a `/`. Fails with unsupported.
Result<Name> parse_name(std::string_view text);

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
