// Repositories of the Hugging Face Hub: their names, the commit of a revision, the files of a commit with their hashes,
// and the bytes of a file. Responses are saved, so that a repository can be opened offline.
// (docs/formats/huggingface.md)
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/time.h"
#include "base/values/value.h"
#include "cache/blob_store.h"

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

/// The file with the user's token: $HF_TOKEN_PATH, $HF_HOME/token, or ~/.cache/huggingface/token. It may be missing.
std::string token_path();

/// The cache of huggingface_hub: $HF_HUB_CACHE, $HF_HOME/hub, or ~/.cache/huggingface/hub. It may be missing.
std::string cache_path();

/// Whether $HF_HUB_OFFLINE or $TRANSFORMERS_OFFLINE forbids requests to the Hub.
bool is_offline();

/// A server with the API of the Hub, and the user's token for it.
struct Hub {
  std::string endpoint;  ///< "https://huggingface.co", without a `/` at its end
  http::ClientPtr http;  ///< null: offline
  BlobStorePtr store;
  http::CredentialsPtr credentials;  ///< without a token if there is none for this server
  /// A request to the API fails with network after this time, and is not repeated; 0: it is repeated as others are.
  std::chrono::milliseconds within{0};
};

/// Names of errors (Error::name): of not_found for a revision, and of forbidden for a repository to which access has to
/// be requested.
inline constexpr std::string_view kNoRevision = "revision-not-found";
inline constexpr std::string_view kGated = "gated";

/// The user's token for a server, for a keyring: sent to the server of $HF_ENDPOINT and to the Hub only, not to one
/// that only a name has. It is read for each request; as long as it is not valid, the last one is sent. Fails with
/// unsupported if it is not valid now.
Result<http::CredentialsPtr> credentials_for(const std::string& endpoint);

/// The server that `name` or $HF_ENDPOINT names. Fails with unsupported: no URL; http to another host than loopback,
/// unless `is_insecure`; the token is not valid.
Result<Hub> hub_of(const Name& name, BlobStorePtr store, http::ClientPtr http, bool is_insecure);

/// The URLs below which all requests for a repository go; each ends with `/`. Its API has more, such as tokens to
/// write.
std::vector<std::string> urls_of(const std::string& endpoint, const Name& name);

/// Whether `id` is the ORG/NAME of a model as the Hub gives them (huggingface_hub, utils/_validators.py), and matches
/// one of the patterns, in which `*` and `?` stand for any characters (fnmatch(3), also for `/`).
bool is_permitted_model(const std::string& id, const std::vector<std::string>& patterns);

/// Whether a normalized URL is for the revisions, lists and files of such a model; `below` is the URL of the server,
/// with a `/` at its end.
bool is_of_permitted_model(std::string_view url, std::string_view below, const std::vector<std::string>& patterns);

/// Whether it may be the name of a branch, a tag or a commit.
bool is_revision(std::string_view text);

/// A commit, and what the Hub says about the repository.
struct Revision {
  std::string id;      ///< the current name of the repository: it may have been renamed
  std::string commit;  ///< 40 hex digits
  Time modified = 0;   ///< 0 if the Hub does not say
  Map facts = {};      ///< repository, commit, license, gated, library, base_model, pipeline: those that are known
};

/// The commit of `name.revision`. Offline it is the one that was seen last, else that of the cache of huggingface_hub.
/// Fails with not_found (no such repository or revision), network, forbidden (access
/// denied), mismatch (another commit than the one that is named), and corrupt (not a response of the Hub).
Result<Revision> find_revision(const Hub& hub, const Name& name);

/// Larger files are stored in LFS or Xet: the Hub refuses to store them in Git.
inline constexpr uint64_t kMaxGitFile = 64 << 20;

/// A file in a commit. `weightfs serve` lists files without a digest, of which it has read none.
struct ListedFile {
  std::string path;
  uint64_t size = 0;
  std::optional<Digest> sha256 = {};  ///< of the content, if it is stored in LFS or Xet
  std::optional<Sha1> git_id = {};    ///< git_blob_id() of the content of other files, if the server knows it
  bool is_digest_hidden = false;      ///< of a file in LFS: the Hub has it, and the user has no access
};

/// The files of a commit, and lines about those that are missing.
struct CommitFiles {
  std::vector<ListedFile> files = {};
  std::vector<std::string> warnings = {};
};

/// All files of a commit; the id of `name` is the current one. Paths are as the server sent them. Offline, if the list
/// is not saved, they are the files in the cache of huggingface_hub, which may be some of them. Fails as
/// find_revision() does, with forbidden for a gated repository that the user has no access to, and with unsupported
/// beyond the limits of a list.
Result<CommitFiles> list_files(const Hub& hub, const Name& name, const std::string& commit);

/// The bytes of a file. One in LFS is the blob of its digest: nothing is requested before its first read. Another one
/// is downloaded whole, at most 64 MiB, or read from the cache of huggingface_hub, and compared with its Git object id.
/// One without a digest is read by ranges, of the version whose ETag the server sends now.
/// Fails with mismatch, network and unsupported.
Result<SourcePtr> open_file(const Hub& hub, const Name& name, const std::string& commit, const ListedFile& file);

}  // namespace weightfs::huggingface
