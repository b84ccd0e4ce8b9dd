#include "cli/serve/object_mirror.h"

#include <fmt/core.h>

#include <chrono>
#include <utility>

#include "base/cancel.h"
#include "base/text.h"
#include "protocols/s3.h"
#include "protocols/s3_server.h"

namespace weightfs {
namespace {

// How long a request for an object may take, if there is an earlier answer, and for a first one; and a whole list.
constexpr std::chrono::seconds kBriefObject{10};
constexpr std::chrono::seconds kFirstObject{30};
constexpr std::chrono::seconds kWholeList{60};

template <class Work>
auto in_time_for_client(std::chrono::seconds within, Work work) -> decltype(work()) {
  const auto until = std::chrono::steady_clock::now() + within;
  const CancelScope scope([until] { return std::chrono::steady_clock::now() >= until; });
  auto done = work();
  if (done || is_permanent(done.error()) || !is_cancelled()) return done;
  return failure(timeout("the object store does not respond"));
}

class ObjectOrigin final : public objects::MirrorOrigin {
 public:
  ObjectOrigin(ServedMirror flags, const RegistryOptions& registries)
      : flags_(std::move(flags)), store_(registries.store), http_(registries.http) {
    if (registries.clouds.s3 != nullptr) settings_ = *registries.clouds.s3;
    settings_.endpoint = flags_.endpoint;
    settings_.endpoint_from.clear();
    settings_.addressing = s3::Addressing::path;  // as s3::is_permitted_request() needs it
  }

  bool is_bucket(const std::string& bucket) const override { return s3::is_permitted_bucket(bucket, flags_.allow); }
  bool is_permitted(const std::string& bucket, const std::string& key) const override {
    return s3::is_permitted_object(bucket, key, flags_.allow);
  }
  bool may_list(const std::string& bucket, const std::string& prefix) const override {
    return s3::is_permitted_prefix(bucket, prefix, flags_.allow);
  }

  // A new s3::Bucket each time: one that is kept would not look at the origin for an object that is in use.
  Result<FoundObject> find(const std::string& bucket, const std::string& key) override {
    const std::string saved_as = fmt::format("mirrored object {}/{}/{}", flags_.endpoint, bucket, key);
    const std::string saved = store_->load_text(saved_as).value_or("");
    auto last = objects::MirroredObject::parse(key, saved);
    if (http_ == nullptr && !last) return failure(Code::network, "not cached, and the mirror is offline");
    if (http_ == nullptr) return FoundObject{std::move(*last)};
    const s3::BucketPtr store = TRY(open_bucket(bucket, http_));
    auto found = in_time_for_client(last ? kBriefObject : kFirstObject, [&] { return store->find({key}); });
    if (found && !*found) return failure(no_object(key));
    if (!found && last && found.error().code != Code::not_found)
      return FoundObject{std::move(*last), nullptr, std::move(found.error().message)};
    if (!found) return tl::unexpected(std::move(found).error());
    s3::OpenObject& now = **found;
    objects::MirroredObject object{key, now.bytes->size(), now.modified, visible_tag(now.etag)};
    // A response that it is not modified may lack the time.
    if (object.modified == 0 && last && last->etag == object.etag) object.modified = last->modified;
    if (std::string version = object.version(); version != saved) store_->save_text(saved_as, version);
    return FoundObject{std::move(object), std::move(now.bytes)};
  }

  Result<SourcePtr> open(const std::string& bucket, const objects::MirroredObject& object) override {
    return TRY(open_bucket(bucket, http_))->bytes_of({object.key, object.size, object.etag, object.modified});
  }

  Result<FoundList> list(const std::string& bucket, const std::string& prefix) override {
    const s3::BucketPtr store = TRY(open_bucket(bucket, http_));
    auto listed = in_time_for_client(kWholeList, [&] { return store->list(prefix); });
    FoundList found;
    if (!listed && listed.error().code != Code::not_found && http_ != nullptr) {
      auto last = TRY(open_bucket(bucket, nullptr))->list(prefix);
      if (last) found.outage = std::move(listed.error().message);
      if (last) listed = std::move(last);
    }
    for (s3::Object& object : TRY(std::move(listed)))
      if (is_permitted(bucket, object.key))
        found.objects.push_back({std::move(object.key), object.size, object.modified, visible_tag(object.etag)});
    return found;
  }

 private:
  static std::string visible_tag(const std::string& etag) { return is_visible_ascii(etag) ? etag : ""; }

  static Error no_object(const std::string& key) {
    Error error(Code::not_found, fmt::format("{}: no such object", printable(key)));
    error.name = objects::kNoObject.data();
    return error;
  }

  Result<s3::BucketPtr> open_bucket(const std::string& name, http::ClientPtr http) const {
    return s3::Bucket::open(name, settings_, store_, std::move(http));
  }

  const ServedMirror flags_;
  const BlobStorePtr store_;
  const http::ClientPtr http_;  // null: offline
  s3::Settings settings_;       // the user's, for the endpoint of the mirror
};

}  // namespace

std::shared_ptr<objects::Mirror> open_object_mirror(const ServedMirror& flags, const RegistryOptions& registries,
                                                    std::function<void(const std::string&)> log) {
  if (!flags.is_of_objects()) return nullptr;
  return std::make_shared<objects::Mirror>(std::make_unique<ObjectOrigin>(flags, registries),
                                           mirror::Rules{.ttl = flags.ttl, .log = std::move(log)});
}

}  // namespace weightfs
