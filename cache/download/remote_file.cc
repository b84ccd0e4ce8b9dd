#include "cache/download/remote_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/cancel.h"
#include "base/text.h"
#include "cache/download/mirror_scheduler.h"

namespace weightfs::download {
namespace {

using Clock = std::chrono::steady_clock;
using Next = Outcome::Next;

constexpr int kMaxImmediateRetries = 4;  // without progress
constexpr int kMaxUnattributed = 2;

Outcome unusable(const Origin& origin, const std::string& why) {
  return {Next::give_up, {Code::unsupported, fmt::format("{}: {}", http::printable_url(origin.url), why)}};
}

// Whether a range request may succeed where HEAD failed: URLs of object stores are often signed for GET only.
bool is_inconclusive(const http::Response& response) {
  return response.status == 200 || response.status == 400 || response.status == 403 || response.status == 405 ||
         response.status == 501;
}

// The size of the whole file, as far as the response has it.
std::optional<uint64_t> reported_size(const http::Response& response) {
  const auto range = parse_content_range(response.header("content-range"));
  if (!range) return response.status == 200 ? content_length(response) : std::nullopt;
  // It counts with status 200, too: some proxies send it. With status 416, the file is empty.
  const bool counts = response.status == 200 || response.status == 206 || response.status == 416;
  return counts && !response.is_encoded() ? range->total : std::nullopt;
}

// Sends a request, and returns the response without its body.
Result<http::Response> response_head(http::Client& http, const http::Request& request, const std::stop_token& stop) {
  std::optional<http::Response> head;
  const http::ResponseHandler handler{[&](const http::Response& response) -> Result<void> {
                                        head = response;
                                        if (request.method == http::Request::Method::head) return {};
                                        return enough();
                                      },
                                      [](std::span<const std::byte>) -> Result<void> { return {}; }};
  const auto done = http.perform(request, handler, stop);
  if (head) return *head;
  return tl::unexpected(done ? Error{Code::corrupt, "no response"} : done.error());
}

// The response to HEAD, or to a request for the first byte if that may report the size instead.
Result<http::Response> size_response(http::Client& http, const Origin& origin, Clock::time_point until,
                                     const std::stop_token& stop) {
  http::Request request = request_to(origin);
  request.method = http::Request::Method::head;
  request.deadline = until;
  auto response = response_head(http, request, stop);
  if (!response || reported_size(*response) || !is_inconclusive(*response)) return response;
  request.method = http::Request::Method::get;
  request.headers.emplace_back("Range: bytes=0-0");
  return response_head(http, request, stop);
}

}  // namespace

// ---- all origins

RemoteFile::RemoteFile(http::ClientPtr http, std::string name, std::vector<Origin> origins,
                       std::optional<uint64_t> size, RetryPolicy retries)
    : http_(std::move(http)), name_(std::move(name)), retries_(retries), size_(size) {
  origins.resize(std::min(origins.size(), kMaxOrigins));
  for (Origin& origin : origins) origins_.push_back({std::move(origin)});
}

RemoteFilePtr RemoteFile::of_version(http::ClientPtr http, Origin origin, FileVersion version, std::string head,
                                     RetryPolicy retries) {
  auto file = std::make_shared<RemoteFile>(std::move(http), "", std::vector{std::move(origin)}, version.size, retries);
  if (version.is_pinned()) file->origins_[0].version = version;
  file->version_ = std::move(version);
  file->head_ = std::move(head);
  return file;
}

RemoteFilePtr RemoteFile::of_digest(http::ClientPtr http, std::string name, Origin origin, FileVersion version,
                                    RetryPolicy retries) {
  auto file = std::make_shared<RemoteFile>(std::move(http), std::move(name), std::vector{std::move(origin)},
                                           version.size, retries);
  file->origins_[0].needs_pinned_version = true;
  file->version_ = std::move(version);
  return file;
}

OriginState RemoteFile::state(size_t origin) const {
  const std::scoped_lock lock(mutex_);
  return origins_[origin];
}

template <class Change>
void RemoteFile::change_state(size_t origin, Change change) {
  const std::scoped_lock lock(mutex_);
  change(origins_[origin]);
}

std::optional<bool> RemoteFile::has_ranges() const {
  const std::scoped_lock lock(mutex_);
  return origins_[current_].has_ranges;
}

std::string RemoteFile::url() const {
  const std::scoped_lock lock(mutex_);
  return origins_[current_].origin.url;
}

// `attempt` uses one origin until it has all bytes, or a request fails without progress.
template <class Attempt>
Result<void> RemoteFile::try_origins(const std::stop_token& stop, Attempt attempt) {
  MirrorScheduler mirrors(origins_.size(), retries_, *http_, current_);
  http::UsedUp* const used_up = retries_.used_up.get();
  for (size_t i = 0; i < origins_.size(); ++i) {
    const OriginState at = state(i);
    const auto failed = used_up == nullptr ? std::nullopt : used_up->find(at.origin.url);
    if (failed) std::ignore = mirrors.failed(i, {Next::give_up, *failed});
    if (at.is_rejected) mirrors.exclude(i);
  }
  while (const auto next = mirrors.next(stop)) {
    current_ = *next;
    const Outcome outcome = attempt(*next, mirrors);
    if (outcome.next == Next::done && used_up != nullptr) used_up->remove(state(*next).origin.url);
    if (outcome.next == Next::done) return {};
    if (outcome.next == Next::stop) return tl::unexpected(outcome.error);
    report_if_mirror(*next, outcome.error);
    const auto failed = mirrors.failed(*next, outcome);
    if (failed && used_up != nullptr && !stop.stop_requested() && !is_cancelled())
      used_up->add(state(*next).origin.url, *failed);
  }
  if (stop.stop_requested() || is_cancelled())
    return failure(Code::network, name_.empty() ? "cancelled" : name_ + ": cancelled");
  return tl::unexpected(combined_error(name_, mirrors.errors()));
}

Result<void> RemoteFile::fetch(ByteRange range, const Sink& sink, const std::stop_token& stop, http::Urgency urgency) {
  if (http_ == nullptr)
    return failure(Code::network, fmt::format("{}: not cached, and downloads are disabled by --offline", printable()));
  uint64_t passed = 0;  // bytes of a whole file that a server without ranges sent
  return try_origins(stop, [&](size_t origin, MirrorScheduler& mirrors) {
    return fetch_from(origin, range, passed, sink, mirrors, stop, urgency);
  });
}

// Continues at `range.from`, which it moves, and at `passed` if the server sends the whole file.
Outcome RemoteFile::fetch_from(size_t origin, ByteRange& range, uint64_t& passed, const Sink& sink,
                               MirrorScheduler& mirrors, const std::stop_token& stop, http::Urgency urgency) {
  auto since = Clock::now();
  for (int retries = 0; range.from < range.to;) {
    const auto change = [&](const std::function<void(OriginState&)>& how) { change_state(origin, how); };
    RangeRequest request({*http_, name_, size_, urgency}, state(origin), change, range, passed, sink);
    ++requests_;
    Outcome outcome = request.perform(stop);
    if (outcome.next == Next::stop || (outcome.next == Next::done && request.is_complete())) return outcome;
    // The sink may need more of a whole file than the range.
    if (request.is_whole() && request.at() >= range.from) range.to = std::max(range.to, size_.value_or(range.to));
    if (request.is_whole()) passed = std::max(passed, request.at());
    range.from = std::clamp(request.at(), range.from, range.to);
    if (outcome.next == Next::done)  // a shorter answer is legal (RFC 9110, 15.3.7), but bytes must come
      outcome = {Next::retry_now, {Code::network, fmt::format("{}: sends less than requested", printable())}};
    // Delays included: one byte per request must not count as progress.
    const auto now = Clock::now();
    const std::chrono::duration<double> time = now - std::exchange(since, now);
    const auto bytes = static_cast<double>(request.received());
    const bool progress = bytes > 0 && bytes >= time.count() * static_cast<double>(http_->options().min_speed);
    if (progress) retries = 0;
    if (outcome.next == Next::retry_now && ++retries <= kMaxImmediateRetries) continue;
    if (outcome.next == Next::retry_now) outcome.next = Next::give_up;
    if (outcome.next == Next::give_up || !progress) return outcome;
    mirrors.reset_backoff(origin);
    if (outcome.retry_after) return outcome;
    Backoff once(retries_, *http_);
    const auto pause = once.pause(outcome.error, {});
    if (!pause || !once.wait(outcome.error, *pause, stop)) return outcome;
  }
  return {};
}

void RemoteFile::report_if_mirror(size_t origin, const Error& error) const {
  const Origin at = state(origin).origin;
  if (at.is_mirror && retries_.on_mirror_failure && error.code != Code::not_found)
    retries_.on_mirror_failure(at, error);
}

bool RemoteFile::reject(bool was_resumed) {
  for (size_t i = 0; i < origins_.size(); ++i)
    if (state(i).has_contributed) report_if_mirror(i, {Code::mismatch, "sent bytes that do not match their digest"});
  const std::scoped_lock lock(mutex_);
  const auto contributed = [](const OriginState& state) { return state.has_contributed; };
  const auto count = std::count_if(origins_.begin(), origins_.end(), contributed);
  if (count == 0 && !was_resumed) return false;
  if (count == 1 && !was_resumed)
    std::find_if(origins_.begin(), origins_.end(), contributed)->is_rejected = true;
  else if (++unattributed_ > kMaxUnattributed)
    return false;
  for (OriginState& state : origins_) state.has_contributed = false;
  return std::any_of(origins_.begin(), origins_.end(), [](const OriginState& state) { return !state.is_rejected; });
}

void RemoteFile::reset() {
  const std::scoped_lock lock(mutex_);
  for (OriginState& state : origins_)
    state = {.origin = state.origin, .needs_pinned_version = state.needs_pinned_version};
  current_ = 0;
  unattributed_ = 0;
}

// ---- the first request

Result<void> RemoteFile::open(const std::optional<FileVersion>& known, const std::stop_token& stop) {
  return try_origins(stop, [&](size_t origin, MirrorScheduler&) { return probe(origin, known, stop); });
}

Outcome RemoteFile::probe(size_t origin, const std::optional<FileVersion>& known, const std::stop_token& stop) {
  const Origin at = state(origin).origin;
  std::optional<Outcome> outcome;
  std::optional<Head> found;
  std::optional<Digest> stated;
  bool says_web_page = false;  // servers also say it of files whose type they do not know
  http::Request request = request_to(at);
  request.headers.push_back(fmt::format("Range: bytes=0-{}", kHead - 1));
  if (known && known->has_quoted_etag()) request.headers.push_back("If-None-Match: " + known->etag);
  const auto end = [&](Outcome how) {
    outcome = std::move(how);
    return enough();
  };
  const auto on_response = [&](const http::Response& response) -> Result<void> {
    found = head_of(response, known, kHead);
    if (!found) {
      const bool is_success = response.status >= 200 && response.status <= 206;
      return end(is_success ? unusable(at, "the size of the file is not known: " + why_no_size(response))
                            : refusal(at, response));
    }
    stated = download::stated_digest(response);
    if (size_ && found->version.size != *size_)
      return end({Next::give_up, wrong_size(http::printable_url(at.url), found->version.size, *size_)});
    change_state(origin, [&](OriginState& state) {
      state.set_server(response);
      state.has_ranges = found->has_ranges;
      state.version = found->version;
    });
    says_web_page = is_web_page(response);
    return {};
  };
  std::string head;
  const auto on_body = [&](std::span<const std::byte> bytes) -> Result<void> {
    const auto count = static_cast<size_t>(std::min<uint64_t>(bytes.size(), found->expected - head.size()));
    head.append(reinterpret_cast<const char*>(bytes.data()), count);
    return count < bytes.size() ? enough() : Result<void>();
  };
  ++requests_;
  const auto done = http_->perform(request, {on_response, on_body}, stop);
  if (outcome) return *outcome;
  if (!done && (!found || head.size() < found->expected)) return outcome_of(done.error());
  if (says_web_page && begins_web_page(head))
    return unusable(at, "the server sent a web page (text/html), not a model");
  version_ = found->version;
  stated_digest_ = stated;
  size_ = version_.size;
  head_ = std::move(head);
  return {};
}

// ---- the size

Result<std::optional<uint64_t>> RemoteFile::query_size(const std::stop_token& stop, SizeBy counts) {
  if (size_) return size_;
  const http::Options& limits = http_->options();
  const auto until = Clock::now() + limits.connect_timeout + limits.stall_timeout + http_->patience();
  RetryPolicy once = retries_;
  once.retries = std::min(once.retries, 1);
  MirrorScheduler mirrors(origins_.size(), once, *http_);
  std::optional<uint64_t> size;
  bool does_count = counts == SizeBy::any;
  while (const auto next = mirrors.next(stop, until)) {
    const Origin origin = state(*next).origin;
    const auto response = size_response(*http_, origin, until, stop);
    const auto reported = response ? reported_size(*response) : std::nullopt;
    if (!response || (!reported && response->status >= 300)) {
      const Outcome outcome = response ? refusal(origin, *response) : outcome_of(response.error());
      report_if_mirror(*next, outcome.error);
      std::ignore = mirrors.failed(*next, outcome);
      continue;
    }
    // No size, or a different one than before: only a complete download determines it.
    if (!reported || (size && size != reported)) return std::nullopt;
    size = reported;
    does_count |= !origin.is_mirror;
    mirrors.exclude(*next);
  }
  if (stop.stop_requested() || is_cancelled()) return failure(Code::network, fmt::format("{}: cancelled", name_));
  if (size) return does_count ? size : std::nullopt;
  auto errors = mirrors.errors();
  if (errors.size() < origins_.size()) errors.push_back({Code::network, "timed out before all origins were tried"});
  return tl::unexpected(combined_error(name_, errors));
}

}  // namespace weightfs::download
