// A mirror of an object store: it looks objects and lists of keys up at their origin when a client first asks for them.
// It remembers a bounded number of them, and sends a bounded number of requests for names that do not exist.
// (docs/serve.md)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <string>
#include <string_view>
#include <vector>

#include "base/source.h"
#include "base/time.h"
#include "serve/mirror/lookups.h"
#include "serve/mirror/open_files.h"

namespace weightfs::objects {

/// Name of the error of an origin (Error::name) for a key that does not exist; without it, the bucket does not.
inline constexpr std::string_view kNoObject = "object-not-found";

/// An object as its origin has it.
struct MirroredObject {
  std::string key;
  uint64_t size = 0;
  Time modified = 0;      ///< 0: unknown
  std::string etag = {};  ///< strong, of visible characters, as the origin sent it; empty if it stated none

  std::string quoted_tag() const { return etag.empty() || etag.starts_with('"') ? etag : "\"" + etag + "\""; }
  /// "SIZE MODIFIED ETAG", and back; nothing for an invalid text.
  std::string version() const;
  static std::optional<MirroredObject> parse(std::string key, std::string_view version);
};

using Listing = std::vector<MirroredObject>;  ///< sorted by key, each of which is there once
using ListingPtr = std::shared_ptr<const Listing>;

/// What a mirror asks of its origin. Callable from any thread.
class MirrorOrigin {
 public:
  virtual ~MirrorOrigin() = default;
  MirrorOrigin() = default;
  MirrorOrigin(const MirrorOrigin&) = delete;
  MirrorOrigin& operator=(const MirrorOrigin&) = delete;

  /// Whether the user permits requests for some objects of the bucket, for this one, and for the list of all whose keys
  /// begin with the prefix; false for names that are not valid. These request nothing.
  virtual bool is_bucket(const std::string& bucket) const = 0;
  virtual bool is_permitted(const std::string& bucket, const std::string& key) const = 0;
  virtual bool may_list(const std::string& bucket, const std::string& prefix) const = 0;

  struct FoundObject {
    MirroredObject object;
    SourcePtr bytes = nullptr;  ///< null: those of open()
    std::string outage = {};    ///< as mirror::State
  };
  /// The object as it is now. Fails with not_found, for a key with the name kNoObject; with forbidden; and as requests
  /// do.
  virtual Result<FoundObject> find(const std::string& bucket, const std::string& key) = 0;
  /// The bytes of this version of an object. Requests nothing.
  virtual Result<SourcePtr> open(const std::string& bucket, const MirroredObject& object) = 0;

  struct FoundList {
    Listing objects;  ///< in any order
    std::string outage = {};
  };
  /// The permitted objects whose keys begin with the prefix. Fails as find().
  virtual Result<FoundList> list(const std::string& bucket, const std::string& prefix) = 0;
};

/// Callable from any thread.
class Mirror {
 public:
  template <class T>
  using Found = mirror::Found<T>;

  static constexpr size_t kMaxLists = 64;        ///< in memory
  static constexpr size_t kMaxListed = 400'000;  ///< objects in all of them, but the one that was used last
  static constexpr ptrdiff_t kMaxReads = 4;      ///< lists that are read at a time

  /// The code of a refusal is that of an error of S3.
  Mirror(std::unique_ptr<MirrorOrigin> origin, const mirror::Rules& rules);

  /// Whether the other functions may request something of the bucket.
  bool is_permitted(const std::string& bucket) const { return origin_->is_bucket(bucket); }

  struct Object {
    MirroredObject object;
    SourcePtr bytes;
  };
  /// An object, which is looked up again after the TTL, and its bytes: the same for all clients, so that each byte is
  /// requested once. Refuses a key that is not permitted without a request.
  Found<Object> object(const std::string& bucket, const std::string& key);

  /// The objects whose keys begin with the prefix; there may be none. Refuses as object().
  Found<ListingPtr> list(const std::string& bucket, const std::string& prefix);

 private:
  struct Listed {
    std::string key;
    ListingPtr listing;
  };

  Found<Object> open(const std::string& bucket, const MirroredObject& object);
  Result<mirror::State> read(const std::string& bucket, const std::string& prefix);
  ListingPtr listed(const std::string& key);
  void keep(const std::string& key, ListingPtr listing);

  const std::unique_ptr<MirrorOrigin> origin_;
  mirror::Lookups objects_;  // by "BUCKET/KEY"
  mirror::Lookups lists_;    // by "BUCKET/PREFIX"
  mirror::OpenFiles files_;  // by "BUCKET/KEY VERSION"
  std::counting_semaphore<kMaxReads> reading_{kMaxReads};
  std::mutex mutex_;            // guards the rest; never held while the origin is asked
  std::vector<Listed> listed_;  // the last used first
};

}  // namespace weightfs::objects
