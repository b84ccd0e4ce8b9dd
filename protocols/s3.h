// Models in object stores that speak the API of Amazon S3: GetObject by ranges and ListObjectsV2, signed with the
// user's keys or anonymous. (docs.aws.amazon.com, "Amazon S3 API Reference"; section 23 of docs/semantics.md has the
// rules.) The XML API of Google Cloud Storage is the same but for a Dialect.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "cache/blob_store.h"
#include "cache/certificates.h"

namespace weightfs::s3 {

/// What differs between the stores with this API.
struct Dialect {
  std::string_view scheme;             ///< of names: "s3"
  std::string_view version_parameter;  ///< of a query that names a version
  std::string_view version_header;     ///< of a response, with the version that was sent
  http::CredentialsName::Kind credentials;
  bool has_generations;  ///< each object has a version: it is requested, and what the store states of it is compared
};
inline constexpr Dialect kAmazon{"s3", "versionId", "x-amz-version-id", http::CredentialsName::Kind::bucket, false};
/// (cloud.google.com/storage/docs/xml-api: "HTTP headers and query string parameters".)
inline constexpr Dialect kGoogle{"gs", "generation", "x-goog-generation", http::CredentialsName::Kind::google, true};

/// An access key; of Google Cloud Storage a token only. Never logged or printed.
struct Keys {
  std::string id;
  std::string secret;
  std::string token;  ///< of a session; empty for none

  bool operator==(const Keys&) const = default;
};

class KeySource;
struct ListPosition;

/// Where the name of a bucket is in its URLs: before the host, or in the path. `automatic`: before Amazon's hosts, if
/// it may be there, and in the path at other endpoints. (botocore: s3.addressing_style.)
enum class Addressing { automatic, path, host };

/// What the command line says of object stores.
struct BucketFlags {
  std::string credentials_file = {};  ///< keys in the JSON of a credential_process; an absolute path; empty: none
  bool requester_pays = false;        ///< the user pays for requests, not the owner of the bucket
  std::string expected_owner = {};    ///< the account that must own the bucket; empty: any
};

/// The user's keys and endpoint.
struct Settings {
  std::optional<Keys> keys = {};  ///< nothing, without a source: requests are anonymous
  std::string region = {};        ///< empty: us-east-1, until a server reports the bucket's
  std::string endpoint = {};      ///< a URL, to which the bucket's name is appended; empty: Amazon's
  std::string note = {};          ///< why there are no keys, for messages; may be empty
  std::string keys_from = {};     ///< "$AWS_ACCESS_KEY_ID", or the file of the profile; empty without `keys`
  std::string region_from = {};   ///< the variable or profile that has the region, for messages; may be empty
  std::string endpoint_from = {};
  std::string host = "s3";  ///< of Amazon: also "s3-fips", "s3.dualstack", "s3-fips.dualstack"
  Addressing addressing = Addressing::automatic;
  std::shared_ptr<const KeySource> key_source = {};  ///< obtains keys that expire; null: `keys` are all
  std::vector<std::string> files = {};               ///< that of_user() or the source reads
  BucketFlags flags = {};
  Certificates certificates = {};     ///< that servers of AWS, and at `endpoint`, are trusted by; empty: the system's
  const Dialect* dialect = &kAmazon;  ///< static
  std::string project = {};           ///< of Google: pays for requests, if `flags` say that the user does

  /// The keys are of the first of these that the user has set, in the order of botocore (docs/remote.md has the table):
  /// `flags`, variables, a role of the profile, web identity, single sign-on, keys of the profile, a container, and the
  /// instance. The region and the endpoint are from variables, then from the profile AWS_PROFILE in ~/.aws/credentials
  /// and ~/.aws/config. Runs no program and sends no request. Fails with unsupported if a required profile is missing,
  /// or if a key or a source of keys is incomplete, and if a file cannot be read. (protocols/aws/settings.cc)
  static Result<Settings> of_user(const BucketFlags& flags = {});
  Settings without_keys() const {
    Settings copy = *this;
    copy.keys.reset();
    copy.key_source.reset();
    return copy;
  }
};

/// An object of a bucket, as it was listed.
struct Object {
  std::string key;
  uint64_t size = 0;
  std::string etag = {};  ///< quoted and strong; empty if the server stated none
  Time modified = 0;
  std::string generation = {};  ///< digits; empty for a store without generations
};

/// The region in the name of a server of Amazon, of any Settings::host; empty if there is none.
std::string region_of(const std::string& url, const std::string& bucket);

/// Whether a normalized URL is that of a key below `folder` in a bucket, or of a list of such keys, in any region and
/// at any Settings::host, with any Addressing. `endpoint`: as in Settings.
bool is_of_bucket(const std::string& url, const std::string& bucket, const std::string& endpoint,
                  const std::string& folder);

struct StatedHash;

/// What names an object: its key, and a version of it.
struct ObjectName {
  std::string key;
  std::string version = {};  ///< the ID of a version; empty: the current one

  /// "KEY" or "KEY?versionId=ID", for messages and as a key of the cache.
  std::string text(const Dialect& dialect = kAmazon) const {
    return version.empty() ? key : key + "?" + std::string(dialect.version_parameter) + "=" + version;
  }
};

/// An object that was opened.
struct OpenObject {
  SourcePtr bytes;
  Time modified = 0;
  std::string etag = {};  ///< strong, and quoted by most servers; empty if the server stated none
};

/// A bucket. Thread-safe. Without `http` (offline), objects and listings are those that were seen last.
class Bucket : public std::enable_shared_from_this<Bucket> {
 public:
  /// Sends no request. Fails with unsupported for an invalid name or endpoint, and for http to another host than
  /// loopback without --insecure.
  static Result<std::shared_ptr<Bucket>> open(std::string name, Settings settings, BlobStorePtr store,
                                              http::ClientPtr http);

  /// Requests the first bytes of an object, unless it is still in use; nothing if there is no such object. Fails with
  /// not_found (no such bucket), network, unsupported (access denied, another refusal of the server), and mismatch if
  /// the server sends another version than the one that is named.
  Result<std::optional<OpenObject>> find(const ObjectName& name);

  /// Requests the names, sizes and versions of all objects whose keys begin with `prefix`. Fails as find(), with
  /// corrupt for an invalid listing, and with unsupported beyond kMaxObjects.
  Result<std::vector<Object>> list(const std::string& prefix);

  /// The bytes of a listed object; nothing is requested before the first read.
  SourcePtr bytes_of(const Object& object);

  static constexpr size_t kMaxObjects = 200'000;

 private:
  class ListedObject;
  struct Place;
  struct Answer;
  struct Found {
    std::weak_ptr<const Source> bytes;
    Time modified;
    std::string etag;
  };

  Bucket(std::string name, Settings settings, BlobStorePtr store, http::ClientPtr http);

  const Dialect& dialect() const { return *settings_.dialect; }
  std::string shown(std::string_view key) const;
  std::shared_ptr<const Place> place() const;
  void move_to(std::string region);
  void keep_open(SourcePtr bytes);
  Result<Answer> request(const std::string& key, const std::string& query, std::vector<std::string> headers,
                         size_t max_size);
  Result<Answer> request_page(const std::string& prefix, ListPosition& at);
  Error error_of(const Answer& answer, std::string_view key) const;
  Result<void> check_head(const Answer& answer, const ObjectName& name, uint64_t size) const;
  Error unreachable(const Error& error, std::string_view key) const;
  Result<std::optional<OpenObject>> find_online(const ObjectName& name);
  Result<OpenObject> open_found(const Answer& answer, ObjectName name, const download::FileVersion& version);
  SourcePtr with_checksum(SourcePtr bytes, const StatedHash& stated, const std::string& key);
  bool is_refused(const std::string& key) const;
  void refuse(const std::string& key);
  Result<SourcePtr> open_listed(const Object& object);
  Result<SourcePtr> open_cached(const Object& object) const;
  Result<std::optional<OpenObject>> find_saved(const ObjectName& name);
  Result<std::vector<Object>> list_online(const std::string& prefix);
  Result<std::vector<Object>> list_saved(const std::string& prefix);
  std::string saved_as(std::string_view kind, std::string_view key) const;

  const std::string name_;
  const Settings settings_;
  const BlobStorePtr store_;
  const http::ClientPtr http_;
  mutable std::mutex mutex_;  // guards the rest
  std::shared_ptr<const Place> place_;
  std::deque<SourcePtr> open_;          // those of listings that were opened last
  std::map<std::string, Found> found_;  // by ObjectName::text()
  std::set<std::string> refused_;       // ObjectName::text() of those whose bytes did not match their checksum
};

using BucketPtr = std::shared_ptr<Bucket>;

}  // namespace weightfs::s3
