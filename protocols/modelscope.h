// Repositories of ModelScope: their names, and the files of a revision with their SHA-256 digests. The list is saved,
// so that a repository can be opened offline. (modelscope_hub: _legacy_api.py, config.py; docs/remote.md)
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/time.h"
#include "cache/blob_store.h"

namespace weightfs::modelscope {

/// `ms:` and this text name a repository, or a file or directory in it.
struct Name {
  std::string id = {};              ///< "org/name"
  std::string revision = "master";  ///< a branch or a tag
  std::string path = {};            ///< without `/` at its ends; empty: the whole repository

  /// "ms://org/name@revision/path"
  std::string text() const;
};

/// Parses the text after `ms:`. A revision ends at the next `/`; %2F in it is a `/`. Fails with unsupported.
Result<Name> parse_name(std::string_view text);

/// The server: $MODELSCOPE_ENDPOINT, $MODELSCOPE_DOMAIN, or https://modelscope.cn.
struct Hub {
  std::string endpoint;  ///< without a `/` at its end
  http::ClientPtr http;  ///< null: offline
  BlobStorePtr store;
  http::CredentialsPtr credentials;  ///< without a token if there is none
};

/// The file with the user's token: $MODELSCOPE_HOME/token, or ~/.modelscope/token. It may be missing.
std::string token_path();

/// The user's token, for a keyring: $MODELSCOPE_API_TOKEN, or the content of token_path(), for the server of the
/// environment and over https or loopback only. Fails with unsupported if it is not valid.
Result<http::CredentialsPtr> credentials_for(const std::string& endpoint);

/// Fails with unsupported: the environment names no URL of a server, or http to another host than loopback, unless
/// `is_insecure`; the token is not valid.
Result<Hub> hub_of(BlobStorePtr store, http::ClientPtr http, bool is_insecure);

/// The beginnings of the URLs of all requests for a repository.
std::vector<std::string> urls_of(const std::string& endpoint, const Name& name);

/// A file of a revision.
struct ListedFile {
  std::string path;
  uint64_t size = 0;
  Digest sha256 = {};
  Time modified = 0;  ///< 0 if the list does not say
};

/// The files of a revision, and lines about those that are left out.
struct Files {
  std::vector<ListedFile> files = {};
  std::vector<std::string> warnings = {};
};

/// Reads a response. Files without a SHA-256 are left out. Fails with corrupt, and with unsupported beyond 2,000,000
/// values or with the message of the server.
Result<Files> parse_files(const std::string& text);

/// All files of the revision. Paths are as the server sent them. Offline they are those that were listed last. Fails
/// with not_found (no such repository or revision), forbidden, network, and as parse_files().
Result<Files> list_files(const Hub& hub, const Name& name);

/// The bytes of a file, as a blob of its digest: nothing is requested before its first read.
Result<SourcePtr> open_file(const Hub& hub, const Name& name, const ListedFile& file);

}  // namespace weightfs::modelscope
