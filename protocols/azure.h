// Models in Azure Blob Storage: Get Blob by ranges and List Blobs, with the user's credentials or anonymous.
// (learn.microsoft.com, "Blob Storage REST API"; section 23 of docs/semantics.md has the rules.)
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "cache/blob_store.h"

namespace weightfs::s3 {
class KeySource;
}

namespace weightfs::azure {

/// How requests prove who sends them.
enum class Auth : uint8_t {
  anonymous,
  shared_key,  ///< a signature by the key of the account
  sas,         ///< a shared access signature: parameters of the query
  token,       ///< a Bearer token of Microsoft Entra ID, which expires
};

constexpr const char* kPublicCloud = "core.windows.net";

/// The user's credentials and endpoint.
struct Settings {
  std::string account = {};        ///< that `secret` and `endpoint` are for, in the cloud domain(); empty: any
  std::string endpoint = {};       ///< the URL of the account's blob service; empty: that of Azure
  std::string endpoint_from = {};  ///< the variable that has it
  Auth auth = Auth::anonymous;
  std::string secret = {};                               ///< the key in base64, or the parameters without `?`
  std::shared_ptr<const s3::KeySource> key_source = {};  ///< of tokens (s3::Keys::token)
  std::string keys_from = {};                            ///< "$AZURE_STORAGE_ACCOUNT_KEY", "workload identity"
  std::vector<std::string> files = {};                   ///< that the source reads
  std::string note = {};                                 ///< why what the user has is not used; for messages

  /// The first that is set: a connection string, the key of the account, a shared access signature, a client secret,
  /// workload identity (these in the order of DefaultAzureCredential), and the managed identity of this machine. Sends
  /// no request. Fails with unsupported if that one is incomplete or not valid. Signatures and tokens are not used if
  /// the endpoint is plain http to another host than loopback. (protocols/azure/settings.cc)
  static Result<Settings> of_user();
  /// As of_user(), but anonymous with a note instead of a failure: for a public URL, which needs none of it.
  static Settings of_user_if_valid();
  Settings without_keys() const;
  /// The domain of the cloud that `endpoint` is in; that of the public one for other servers. (names.cc)
  std::string domain() const;
  /// An empty domain: the same.
  bool is_for(std::string_view name, std::string_view domain_of_name) const {
    return account.empty() || (account == name && (domain_of_name.empty() || domain_of_name == domain()));
  }
};

/// Only the source of tokens for registries of Azure, the first of of_user() that has tokens; or a note. Sends no
/// request.
Settings tokens_for_registries();

/// Where a container is.
struct Place {
  std::string account;
  std::string name;         ///< of the container
  std::string domain = {};  ///< of the cloud; empty: that of the settings for their account, or the public one
  std::string sas = {};     ///< that the user's URL has
  bool is_url = false;      ///< the user named the server, so no endpoint replaces it

  /// Whether both names are valid: of 3 to 24, and of up to 63 characters.
  bool is_valid() const;
  /// "https://ACCOUNT.blob.core.windows.net/CONTAINER", or at the endpoint.
  std::string url(const Settings& settings) const;
  http::CredentialsName credentials(const Settings& settings) const;
};

/// The account and the domain of "ACCOUNT.blob.core.windows.net" and "ACCOUNT.dfs.core.windows.net", also of the
/// clouds for governments and China; nothing for other hosts.
std::optional<std::pair<std::string, std::string>> account_of_host(std::string_view host);

/// The domain in the URL of such a host; empty for another one.
std::string domain_of_url(std::string_view url);

/// Whether a normalized URL is that of a blob below `folder` in the container at `below`, a normalized URL that ends
/// with `/`, or of a list of such blobs.
bool is_of_container(std::string_view url, const std::string& below, const std::string& folder);

/// A blob, as it was listed.
struct Blob {
  std::string name;
  uint64_t size = 0;
  std::string etag = {};  ///< quoted and strong; empty if the server stated none
  Time modified = 0;
};

struct OpenBlob {
  SourcePtr bytes;
  Time modified = 0;
};

/// A container of blobs. Thread-safe. Without `http` (offline), blobs and listings are those that were seen last.
class Container : public std::enable_shared_from_this<Container> {
 public:
  /// Sends no request. Fails with unsupported for an invalid name, and for http to another host than loopback without
  /// --insecure.
  static Result<std::shared_ptr<Container>> open(const Place& place, const Settings& settings, BlobStorePtr store,
                                                 http::ClientPtr http);

  /// Requests the first bytes of a blob, unless it is still in use; nothing if there is no such blob. Compares the MD5
  /// that the server states if these are all bytes. Fails with not_found (no such container), network, forbidden,
  /// unsupported (another refusal of the server), and mismatch.
  Result<std::optional<OpenBlob>> find(const std::string& name);

  /// Requests the names, sizes and versions of all blobs whose names begin with `prefix`, without those that stand for
  /// a directory. Fails as find(), with corrupt for an invalid listing, and with unsupported beyond kMaxBlobs.
  Result<std::vector<Blob>> list(const std::string& prefix);

  /// The bytes of a listed blob; nothing is requested before the first read.
  SourcePtr bytes_of(const Blob& blob);

  static constexpr size_t kMaxBlobs = 200'000;

 private:
  class ListedBlob;

  Container(const Place& place, const Settings& settings, BlobStorePtr store, http::ClientPtr http);

  std::string shown(std::string_view name) const;
  std::string saved_as(std::string_view kind, std::string_view name) const;
  std::string blob_url(std::string_view name) const;
  download::Origin origin(std::string_view name) const;
  void keep_open(SourcePtr bytes);
  Error error_of(const http::Response& head, std::string_view body, std::string_view name) const;
  Error unreachable(const Error& error, std::string_view name) const;
  Result<std::optional<OpenBlob>> find_online(const std::string& name);
  Result<std::optional<OpenBlob>> find_saved(const std::string& name);
  Result<std::vector<Blob>> list_online(const std::string& prefix);
  Result<std::vector<Blob>> list_saved(const std::string& prefix);

  const std::string name_;  // "ACCOUNT/CONTAINER"
  const std::string url_;
  const std::string endpoint_;  // for messages; empty: of Azure
  const BlobStorePtr store_;
  const http::ClientPtr http_;
  http::CredentialsPtr credentials_;
  std::mutex mutex_;            // guards the rest
  std::deque<SourcePtr> open_;  // those of listings that were opened last
  std::map<std::string, std::pair<std::weak_ptr<const Source>, Time>> found_;
};

using ContainerPtr = std::shared_ptr<Container>;

}  // namespace weightfs::azure
