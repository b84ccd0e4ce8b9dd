// Models in object stores that speak the API of Amazon S3: GetObject by ranges and ListObjectsV2, signed with the
// user's keys or anonymous. (docs.aws.amazon.com, "Amazon S3 API Reference"; section 23 of docs/semantics.md has the
// rules.)
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "cache/blob_store.h"

namespace weightfs::s3 {

/// An access key. Never logged or printed.
struct Keys {
  std::string id;
  std::string secret;
  std::string token;  ///< of a session; empty for none
};

/// The user's keys and endpoint.
struct Settings {
  std::optional<Keys> keys = {};  ///< nothing: requests are anonymous
  std::string region = {};        ///< empty: us-east-1, until a server reports the bucket's
  std::string endpoint = {};      ///< a URL, to which the bucket's name is appended; empty: Amazon's
  std::string note = {};          ///< why there are no keys, for messages; may be empty
  std::string region_from = {};   ///< the variable or profile that has the region, for messages; may be empty
  std::string endpoint_from = {};

  /// From the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_DEFAULT_REGION,
  /// AWS_ENDPOINT_URL_S3 and AWS_ENDPOINT_URL, then from the profile AWS_PROFILE in ~/.aws/credentials and
  /// ~/.aws/config (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE). Runs no program and sends no request. Fails with
  /// unsupported if a required profile is missing or a key is incomplete, and if a file cannot be read.
  static Result<Settings> of_user();
};

/// An object of a bucket, as it was listed.
struct Object {
  std::string key;
  uint64_t size = 0;
  std::string etag = {};  ///< quoted and strong; empty if the server stated none
  Time modified = 0;
};

/// What names an object: its key, and a version of it.
struct ObjectName {
  std::string key;
  std::string version = {};  ///< the ID of a version; empty: the current one

  /// "KEY" or "KEY?versionId=ID", for messages and as a key of the cache.
  std::string text() const { return version.empty() ? key : key + "?versionId=" + version; }
};

/// An object that was opened.
struct OpenObject {
  SourcePtr bytes;
  Time modified = 0;
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

  Bucket(std::string name, Settings settings, BlobStorePtr store, http::ClientPtr http);

  std::string shown(std::string_view key) const;
  std::shared_ptr<const Place> place() const;
  void move_to(std::string region);
  void keep_open(SourcePtr bytes);
  Result<Answer> request(const std::string& key, const std::string& query, std::vector<std::string> headers,
                         size_t max_size);
  Error error_of(const Answer& answer, std::string_view key) const;
  Result<void> check_head(const Answer& answer, const ObjectName& name, uint64_t size) const;
  Error unreachable(const Error& error, std::string_view key) const;
  Result<std::optional<OpenObject>> find_online(const ObjectName& name);
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
  std::deque<SourcePtr> open_;  // those of listings that were opened last
  std::map<std::string, std::pair<std::weak_ptr<const Source>, Time>> found_;  // by ObjectName::text()
};

using BucketPtr = std::shared_ptr<Bucket>;

}  // namespace weightfs::s3
