#include "cache/http/client.h"

#include <algorithm>
#include <mutex>
#include <new>

#include "base/text.h"
#include "cache/http/exchange.h"

namespace weightfs {
namespace {

constexpr int kMostRedirects = 10;
constexpr size_t kMostIdle = 32;  // handles; each keeps a few connections

// Where a request has got to.
struct Journey {
  const HttpOptions& options;
  const Request& request;
  Place place;
  std::string first_origin;
  bool began_in_public = false;
  int redirects = 0;
  bool challenged = false;

  Bounds bounds() const {
    Bounds bounds;
    const bool container = request.trust == Trust::container;
    const bool outside_in = request.only_public || (redirects > 0 && began_in_public);
    bounds.public_only = !options.allow_private_urls && (container || outside_in);
    bounds.loopback_only = !container && place.scheme == "http" && !options.insecure;
    bounds.who = container ? "what a container names" : "a redirect from a public address";
    if (!container && redirects == 0) bounds.who = "what a public address names";
    return bounds;
  }

  bool is_at_home() const { return place.origin == first_origin; }

  Result<void> follow(std::string_view location) {
    const std::string from = printable_url(place.url);
    if (++redirects > kMostRedirects)
      return failure(Code::network, str(from, ": more than ", kMostRedirects, " redirects"));
    const std::string to = resolved_url(place.url, std::string(location));
    if (to.empty()) return failure(Code::corrupt, str(from, ": a redirect to what is no URL"));
    if (!may_redirect(place.url, to))
      return failure(Code::unsupported, str(from, ": refused: a redirect from https to ", printable_url(to)));
    place = TRY(place_of(to));
    return {};
  }
};

// Whether to ask again, with other credentials.
Result<bool> meet_challenge(const Journey& journey, const Answer& answer, const std::string& sent,
                            const std::atomic<bool>& stop) {
  Denial denial{{}, sent, answer.from_public};
  for (const auto& [name, value] : answer.headers)
    if (name == "www-authenticate") denial.challenges.push_back(value);
  return journey.request.credentials->challenged(denial, stop);
}

// The answer to a challenge that could not be met.
Result<void> deliver(const Hopped& hopped, const Receiver& receiver) {
  TRY_VOID(receiver.answered(hopped.answer));
  if (hopped.kept.empty()) return {};
  return receiver.received(std::as_bytes(std::span(hopped.kept)));
}

}  // namespace

// Idle handles, and where the newest connection of each leads to.
struct Http::Pool {
  HttpOptions options;
  std::mutex mutex;  // guards the rest
  std::vector<std::pair<std::string, HandlePtr>> idle;

  HandlePtr take(const std::string& origin) {
    const std::scoped_lock lock(mutex);
    auto found = std::find_if(idle.begin(), idle.end(), [&](const auto& handle) { return handle.first == origin; });
    if (found == idle.end() && idle.size() < kMostIdle) return new_handle();
    if (found == idle.end()) found = idle.begin();
    HandlePtr handle = std::move(found->second);
    idle.erase(found);
    return handle;
  }

  void give_back(HandlePtr handle, const std::string& origin) {
    const std::scoped_lock lock(mutex);
    if (idle.size() < kMostIdle) idle.emplace_back(origin, std::move(handle));
  }
};

Http::Http(HttpOptions options) : pool_(std::make_unique<Pool>()) { pool_->options = std::move(options); }

Http::~Http() = default;

const HttpOptions& Http::options() const { return pool_->options; }

Result<void> Http::perform(const Request& request, const Receiver& receiver, const std::atomic<bool>& stop) try {
  Place first = TRY(place_of(request.url));
  const std::string first_origin = first.origin;
  Journey journey{options(), request, std::move(first), first_origin};
  for (;;) {
    const bool at_home = request.credentials != nullptr && journey.is_at_home();
    const std::string authorization = at_home ? request.credentials->authorization() : "";
    const Question question{
        options(), request, receiver, journey.place, journey.bounds(), authorization, at_home && !journey.challenged};
    HandlePtr handle = pool_->take(journey.place.origin);
    const Hopped hopped = TRY(hop(*handle, question, stop));
    pool_->give_back(std::move(handle), journey.place.origin);
    if (journey.redirects == 0) journey.began_in_public = hopped.answer.from_public;
    if (hopped.kind == Hopped::Kind::final) return {};
    if (hopped.kind == Hopped::Kind::redirect) {
      TRY_VOID(journey.follow(*hopped.answer.header("location")));
    } else {
      journey.challenged = true;
      if (!TRY(meet_challenge(journey, hopped.answer, authorization, stop))) return deliver(hopped, receiver);
    }
  }
} catch (const std::bad_alloc&) {
  return failure(Code::resource, "out of memory");
}

std::optional<std::string_view> Answer::header(std::string_view name) const {
  const auto found =
      std::find_if(headers.begin(), headers.end(), [&](const auto& header) { return header.first == name; });
  if (found == headers.end()) return std::nullopt;
  return found->second;
}

}  // namespace weightfs
