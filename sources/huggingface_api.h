// Requests to the API of the Hugging Face Hub: the commit of a revision, and the files of a commit. Answers are saved,
// so that a repository can be opened offline.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/time.h"
#include "base/values/value.h"
#include "cache/blob_store.h"
#include "cache/registry/request_with_retry.h"
#include "sources/huggingface_name.h"
#include "sources/source.h"

namespace weightfs::huggingface {

/// A server with the API of the Hub, and the user's token for it.
struct Hub {
  std::string endpoint;  ///< "https://huggingface.co", without a `/` at its end
  http::ClientPtr http;  ///< null: offline
  BlobStorePtr store;
  std::shared_ptr<http::Credentials> credentials;  ///< without a token if there is none for this server
};

/// The server that `name` or $HF_ENDPOINT names. The token is sent to the server of $HF_ENDPOINT and to the Hub only,
/// not to one that only the name has. Fails with unsupported: no URL; http to another host than loopback without
/// --insecure.
Result<Hub> hub_of(const Name& name, const RegistryOptions& registries);

/// The user's token: $HF_TOKEN, $HUGGING_FACE_HUB_TOKEN, or the content of token_path(). `from` is for messages. Empty
/// with $HF_HUB_DISABLE_IMPLICIT_TOKEN. Fails with unsupported if it is not a token.
struct Token {
  std::string text;
  std::string from;
};
Result<Token> token_of_user();

/// A commit, and what the Hub says about the repository.
struct Revision {
  std::string id;      ///< the current name of the repository: it may have been renamed
  std::string commit;  ///< 40 hex digits
  Time modified = 0;   ///< 0 if the Hub does not say
  Map facts = {};      ///< repository, commit, license, gated, library, base_model
};

/// The commit of `name.revision`. Fails with not_found (no such repository or revision), network, unsupported (access
/// denied), and corrupt (not a response of the Hub).
Result<Revision> find_revision(const Hub& hub, const Name& name);

/// Reads a response about a revision.
Result<Revision> parse_revision(const std::string& text);

/// A file in a commit.
struct ListedFile {
  std::string path;
  uint64_t size = 0;
  std::optional<Digest> sha256 = {};  ///< of the content, if it is stored in LFS or Xet
  std::optional<Sha1> git_id = {};    ///< git_blob_id() of the content of other files
};

/// All files of a commit, as find_revision() fails. Paths are as the server sent them.
Result<std::vector<ListedFile>> list_files(const Hub& hub, const Name& name, const std::string& commit);

/// Requests the headers of one of the files, because the Hub lists the files of a gated repository for everybody. Fails
/// with unsupported if the user may not read them; other errors are left to the reader of a file.
Result<void> check_access(const Hub& hub, const Name& name, const std::string& commit,
                          const std::vector<ListedFile>& files);

/// Reads a page of the list: an array of files and directories.
Result<std::vector<ListedFile>> parse_files(const std::string& text);

/// The URL of the next page of a list: that of the Link header with rel="next", on the server of `page_url`. Empty if
/// there is none.
std::string next_page(const http::Response& page, const std::string& endpoint);

/// The error for a response that has another status than 200.
Error error_of(const Hub& hub, const Name& name, const registry::Response& response);

}  // namespace weightfs::huggingface
