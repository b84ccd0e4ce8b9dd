#include "serve/s3/mirror.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/text.h"

namespace weightfs::objects {
namespace {

// How long a client waits while other lists are read.
constexpr std::chrono::seconds kMaxWaitForLists{30};

bool is_answer_of_store(const Error& error) { return error.code == Code::not_found; }

// As S3 answers. Clients repeat a request after 503 and 504.
mirror::Refusal refusal_by_store(const std::string& name, const Error& error) {
  if (error.code == Code::not_found && error.name != nullptr && error.name == kNoObject)
    return {404, "NoSuchKey", "The specified key does not exist."};
  if (error.code == Code::not_found) return {404, "NoSuchBucket", "The specified bucket does not exist"};
  if (error.code == Code::forbidden) return {403, "AccessDenied", fmt::format("{}: the mirror has no access", name)};
  if (is_timeout(error)) return {504, "InternalError", fmt::format("{}: the origin does not respond", name)};
  if (may_pass(error)) return {503, "SlowDown", fmt::format("{}: the origin cannot be reached", name)};
  return {502, "InternalError", fmt::format("{}: the origin sent no valid answer", name)};
}

Error no_object() {
  Error error(Code::not_found, "no such object");
  error.name = kNoObject.data();
  return error;
}

}  // namespace

std::string MirroredObject::version() const { return fmt::format("{} {} {}", size, modified, etag); }

std::optional<MirroredObject> MirroredObject::parse(std::string key, std::string_view version) {
  const auto word = [&version] {
    const std::string_view one = version.substr(0, version.find(' '));
    version.remove_prefix(std::min(one.size() + 1, version.size()));
    return one;
  };
  const auto size = parse_number<uint64_t>(word());
  const auto modified = parse_number<Time>(word());
  if (!size || !modified || !is_visible_ascii(version)) return std::nullopt;
  return MirroredObject{std::move(key), *size, *modified, std::string(version)};
}

Mirror::Mirror(std::unique_ptr<MirrorOrigin> origin, const mirror::Rules& rules)
    : origin_(std::move(origin)), objects_(rules), lists_(rules) {}

Mirror::Found<Mirror::Object> Mirror::object(const std::string& bucket, const std::string& key) {
  const std::string name = fmt::format("{}/{}", bucket, key);
  const auto refuse = [name](const Error& error) { return refusal_by_store(name, error); };
  if (!origin_->is_permitted(bucket, key)) return tl::unexpected(refuse(no_object()));
  const auto ask = [this, bucket, key, name]() -> Result<mirror::State> {
    auto found = TRY(origin_->find(bucket, key));
    if (found.object.etag.empty())
      return failure(Code::unsupported, "the origin states no ETag, without which versions are not told apart");
    std::string version = found.object.version();
    // They have the first bytes, which were sent with the answer.
    if (found.bytes != nullptr) files_.keep(name + " " + version, std::move(found.bytes));
    return mirror::State{std::move(version), std::move(found.outage)};
  };
  const auto found = objects_.find({.key = name, .ask = ask, .is_answer = is_answer_of_store, .refuse = refuse});
  if (!found) return tl::unexpected(found.error());
  const auto object = MirroredObject::parse(key, *found);
  if (!object) return tl::unexpected(refuse(Error(Code::corrupt, "not a version")));
  return open(bucket, *object);
}

Mirror::Found<Mirror::Object> Mirror::open(const std::string& bucket, const MirroredObject& object) {
  const std::string name = fmt::format("{}/{}", bucket, object.key);
  const std::string version = name + " " + object.version();
  if (SourcePtr bytes = files_.find(version)) return Object{object, std::move(bytes)};
  auto bytes = exceptions_to_errors([&] { return origin_->open(bucket, object); });
  if (bytes) return Object{object, files_.keep(version, std::move(*bytes))};
  objects_.log(mirror::line_about(name, bytes.error()));
  return tl::unexpected(refusal_by_store(name, bytes.error()));
}

Mirror::Found<ListingPtr> Mirror::list(const std::string& bucket, const std::string& prefix) {
  const std::string key = fmt::format("{}/{}", bucket, prefix);
  if (!origin_->may_list(bucket, prefix))
    return tl::unexpected(mirror::Refusal{403, "AccessDenied", "--allow of the mirror permits no list of this prefix"});
  const auto refuse = [key](const Error& error) { return refusal_by_store(key, error); };
  const auto ask = [this, bucket, prefix] { return read(bucket, prefix); };
  const auto found = lists_.find({.key = key, .ask = ask, .is_answer = is_answer_of_store, .refuse = refuse});
  if (!found && found.error().code == "NoSuchKey") return std::make_shared<const Listing>();
  if (!found) return tl::unexpected(found.error());
  if (ListingPtr listing = listed(key)) return listing;
  // It is known, and was dropped for others.
  const auto again = exceptions_to_errors([&] { return read(bucket, prefix); });
  if (ListingPtr listing = again ? listed(key) : nullptr) return listing;
  const Error error = again ? Error(Code::resource, "too many lists are being read") : again.error();
  lists_.log(mirror::line_about(key, error));
  return tl::unexpected(refuse(error));
}

// A list may have many megabytes while it is parsed. One without objects is remembered like a name that does not exist:
// there are prefixes without end.
Result<mirror::State> Mirror::read(const std::string& bucket, const std::string& prefix) {
  if (!reading_.try_acquire_for(kMaxWaitForLists)) return failure(Code::resource, "too many lists are being read");
  auto found = exceptions_to_errors([&] { return origin_->list(bucket, prefix); });
  reading_.release();
  if (!found) return tl::unexpected(std::move(found).error());
  Listing& objects = found->objects;
  if (objects.empty()) return failure(no_object());
  std::ranges::sort(objects, {}, &MirroredObject::key);
  const auto is_same = [](const MirroredObject& a, const MirroredObject& b) { return a.key == b.key; };
  objects.erase(std::unique(objects.begin(), objects.end(), is_same), objects.end());
  mirror::State state{fmt::format("{} keys", objects.size()), std::move(found->outage)};
  keep(fmt::format("{}/{}", bucket, prefix), std::make_shared<const Listing>(std::move(objects)));
  return state;
}

ListingPtr Mirror::listed(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find(listed_, key, &Listed::key);
  if (found == listed_.end()) return nullptr;
  std::rotate(listed_.begin(), found, found + 1);
  return listed_.front().listing;
}

void Mirror::keep(const std::string& key, ListingPtr listing) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(listed_, [&](const Listed& each) { return each.key == key; });
  listed_.insert(listed_.begin(), {key, std::move(listing)});
  size_t objects = 0;
  size_t kept = 0;
  for (; kept < std::min(listed_.size(), kMaxLists); ++kept) {
    objects += listed_[kept].listing->size();
    if (kept > 0 && objects > kMaxListed) break;
  }
  listed_.erase(listed_.begin() + static_cast<ptrdiff_t>(kept), listed_.end());
}

}  // namespace weightfs::objects
