#include "cache/download/remote_file.h"

#include <fmt/core.h>

#include <algorithm>
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

// Compressed responses allow neither ranges nor resuming, so large files are requested uncompressed.
constexpr uint64_t kMaxEncoded = 16 << 20;

constexpr size_t kMaxErrorBody = 4096;

// Ends a request early; the outcome is recorded elsewhere.
tl::unexpected<Error> enough() { return failure(Code::resource, "enough"); }

Outcome give_up(Code code, std::string message) { return {Next::give_up, {code, std::move(message)}}; }

// The origin's credentials, if `url` (its URL or a redirect target) has the same scheme, host and port; else null.
std::shared_ptr<http::Credentials> credentials_for(const Origin& origin, const std::string& url) {
  return http::origin_of(url) == http::origin_of(origin.url) ? origin.credentials : nullptr;
}

// The request for the whole file.
http::Request request_to(const Origin& origin) {
  return {.url = origin.url, .trust = origin.trust, .credentials = origin.credentials};
}

// The outcome of a response without the requested bytes.
Outcome refusal(const Origin& origin, const http::Response& response) {
  return outcome_of(response, credentials_for(origin, response.url).get());
}

Outcome unusable(const Origin& origin, const std::string& why) {
  return give_up(Code::unsupported, fmt::format("{}: {}", http::printable_url(origin.url), why));
}

Error wrong_size(const std::string& url, uint64_t size, uint64_t expected) {
  return {Code::corrupt, fmt::format("{}: has {} bytes, expected {}", url, size, expected)};
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
  return counts && !is_encoded(response) ? range->total : std::nullopt;
}

bool begins_web_page(std::string_view head) {
  const std::string text = lower_case(trimmed(head.substr(0, kMaxErrorBody)));
  return text.starts_with("<!doctype html") || text.starts_with("<html") || text.starts_with("<head");
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

// ---- one request

// A request for a range, or for the whole file.
class RemoteFile::Get {
 public:
  // If the whole file is requested, the bytes before `passed` are not passed to the sink again.
  Get(RemoteFile& file, size_t origin, ByteRange range, uint64_t passed, const Sink& sink)
      : file_(file), index_(origin), state_(file.state(origin)), range_(range), passed_(passed), sink_(sink) {
    const bool is_everything = range_.from == 0 && range_.to >= file_.size_.value_or(UINT64_MAX);
    is_ranged_ = !is_everything && state_.has_ranges.value_or(true);
  }

  Outcome perform(const std::stop_token& stop) {
    const http::ResponseHandler handler{[this](const http::Response& response) { return on_response(response); },
                                        [this](std::span<const std::byte> bytes) { return on_body(bytes); },
                                        [this] { return on_wait(); }};
    ++file_.requests_;
    const auto done = file_.http_->perform(request(), handler, stop);
    if (outcome_) return with_error_text(*outcome_);
    if (at_ >= end_) return {};
    if (done) return after_body();
    forget_redirect();
    Outcome failed = outcome_of(done.error());
    // A refused redirect names its target only.
    const bool is_refused = failed.error.code == Code::forbidden || failed.error.code == Code::unsupported;
    if (is_refused && !failed.error.message.starts_with(printable()))
      failed.error.message = fmt::format("{}: {}", http::printable_url(origin().url), failed.error.message);
    return failed;
  }

  uint64_t at() const { return at_; }
  uint64_t received() const { return received_; }
  bool is_whole() const { return is_whole_; }
  // Nothing more to request: the range is complete, or the file ends, or the sink needs no more.
  bool is_complete() const { return is_whole_ || is_enough_ || at_ == range_.to || at_ == total_; }

 private:
  const Origin& origin() const { return state_.origin; }
  std::string printable() const { return http::printable_url(state_.url()); }

  http::Request request() const {
    http::Request request = request_to(origin());
    if (!state_.redirect.empty()) {
      request.url = state_.redirect;
      request.credentials = credentials_for(origin(), state_.redirect);
      request.public_only = state_.is_public;
    }
    request.encoded = !is_ranged_ && range_.from == 0 && !state_.version && file_.size_.value_or(0) <= kMaxEncoded;
    const std::string last = range_.to == UINT64_MAX ? "" : std::to_string(range_.to - 1);
    if (is_ranged_) request.headers.push_back(fmt::format("Range: bytes={}-{}", range_.from, last));
    if (state_.version && state_.version->has_quoted_etag())
      request.headers.push_back("If-Match: " + state_.version->etag);
    return request;
  }

  Result<void> on_response(const http::Response& response) {
    // A Content-Range counts with status 200, too: some proxies send it.
    const auto range = is_ranged_ ? parse_content_range(response.header("content-range")) : std::nullopt;
    if ((response.status == 206 && is_ranged_) || (response.status == 200 && range)) return on_part(response, range);
    if (response.status == 200) return on_whole(response);
    if (response.status == 412 || (response.status == 416 && file_.name_.empty()))
      return end({Next::give_up, file_.changed(printable())});
    if (response.status == 416)
      return end(give_up(Code::corrupt,
                         fmt::format("{}: no data from byte {} on, but more is expected", printable(), range_.from)));
    Outcome outcome = refusal(origin(), response);
    // Redirect targets expire (signed URLs of object stores): resolve the redirect again.
    if (outcome.next == Next::give_up && !state_.redirect.empty()) outcome.next = Next::retry_now;
    forget_redirect();
    if (origin().error_text == nullptr || response.status < 300) return end(std::move(outcome));
    outcome_ = std::move(outcome);  // the body describes it
    return {};
  }

  Outcome with_error_text(Outcome outcome) const {
    const std::string text = error_body_.empty() ? "" : origin().error_text(error_body_);
    if (!text.empty()) outcome.error.message += ": " + text;
    return outcome;
  }

  Result<void> on_part(const http::Response& response, const std::optional<ContentRange>& range) {
    const bool fits = range && range->first && *range->first == range_.from && *range->last < range_.to;
    if (!fits) {
      const std::string_view sent = response.header("content-range");
      Outcome outcome =
          give_up(Code::corrupt, fmt::format("{}: requested bytes from {}, got content-range {}", printable(),
                                             range_.from, quoted(sent.empty() ? "nothing" : sent)));
      // A server whose ranges were never right may send the whole file.
      if (!state_.has_ranges) outcome.next = Next::retry_now;
      if (!state_.has_ranges) file_.change_state(index_, [](OriginState& state) { state.has_ranges = false; });
      return end(std::move(outcome));
    }
    const auto length = content_length(response);
    if (is_encoded(response) || (length && *length != *range->last - *range->first + 1))
      return end(give_up(Code::corrupt, fmt::format("{}: content-length contradicts content-range", printable())));
    if (auto same = check_version(response, range->total); !same) return end({Next::give_up, std::move(same).error()});
    at_ = range_.from;
    has_length_ = length.has_value();
    end_ = *range->last + 1;
    total_ = range->total;
    remember(response, true);
    return {};
  }

  Result<void> on_whole(const http::Response& response) {
    const auto length = content_length(response);
    if (auto same = check_version(response, length); !same) return end({Next::give_up, std::move(same).error()});
    is_whole_ = true;
    end_ = length.value_or(file_.size_.value_or(UINT64_MAX));
    if (is_ranged_ || response.header("accept-ranges") == "none") {
      remember(response, false);
    } else {
      remember(response, response.header("accept-ranges") == "bytes" ? std::optional(true) : state_.has_ranges);
    }
    return {};
  }

  Result<void> check_version(const http::Response& response, std::optional<uint64_t> size) const {
    const auto expected = file_.size_;
    if (size && expected && *size != *expected && state_.version && file_.name_.empty())
      return tl::unexpected(file_.changed(printable()));
    if (size && expected && *size != *expected) return tl::unexpected(wrong_size(printable(), *size, *expected));
    const bool same =
        !state_.version || is_same_version(*state_.version, version_of(response, size.value_or(state_.version->size)));
    return same ? Result<void>() : tl::unexpected(file_.changed(printable()));
  }

  void remember(const http::Response& response, std::optional<bool> has_ranges) const {
    const uint64_t size = end_ == UINT64_MAX || !is_whole_ ? file_.size() : end_;
    file_.change_state(index_, [&](OriginState& state) {
      state.set_server(response);
      if (has_ranges && state.has_ranges != false) state.has_ranges = has_ranges;  // once wrong, never again
      if (!state.version && size > 0 && !is_encoded(response)) state.version = version_of(response, size);
    });
  }

  void forget_redirect() const {
    file_.change_state(index_, [this](OriginState& state) {
      if (state.redirect == state_.redirect) state.redirect.clear();  // others may have renewed it
    });
  }

  Result<void> on_body(std::span<const std::byte> bytes) {
    if (outcome_) {
      const size_t size = std::min(bytes.size(), kMaxErrorBody - error_body_.size());
      error_body_.append(reinterpret_cast<const char*>(bytes.data()), size);
      return size == bytes.size() ? Result<void>() : enough();
    }
    const auto expected = static_cast<size_t>(std::min<uint64_t>(bytes.size(), end_ - at_));
    if (expected > 0) TRY_VOID(pass(bytes.first(expected)));
    if (expected == bytes.size()) return {};
    if (!is_whole_) return end({});
    return end(give_up(Code::corrupt, fmt::format("{}: longer than the expected {} bytes", printable(), end_)));
  }

  Result<void> on_wait() {
    if (outcome_ || received_ == 0) return {};
    if (const auto wanted = sink_(at_, {}); !wanted) return end({Next::stop, wanted.error()});
    return {};
  }

  Result<void> pass(std::span<const std::byte> bytes) {
    const uint64_t skipped = is_whole_ ? std::min<uint64_t>(bytes.size(), passed_ - std::min(passed_, at_)) : 0;
    at_ += skipped;
    bytes = bytes.subspan(static_cast<size_t>(skipped));
    if (bytes.empty()) return {};
    if (received_ == 0) file_.change_state(index_, [](OriginState& state) { state.has_contributed = true; });
    received_ += bytes.size();
    const auto wanted = sink_(at_, bytes);
    if (!wanted) return end({Next::stop, wanted.error()});
    at_ += bytes.size();
    is_enough_ = !*wanted;
    // A connection can be used again if its response was read to its end.
    return *wanted || (has_length_ && at_ == end_) ? Result<void>() : end({});
  }

  // The body ended before all requested bytes were received.
  Outcome after_body() {
    if (is_whole_ && end_ == UINT64_MAX) {
      end_ = at_;
      return {};
    }
    if (is_whole_)
      return give_up(Code::corrupt, fmt::format("{}: ends before byte {}, expected {}", printable(), at_ + 1, end_));
    if (received_ > 0)
      return {Next::retry_now, {Code::network, fmt::format("{}: sends less than requested", printable())}};
    return {Next::retry_later, {Code::network, fmt::format("{}: sent no data", printable())}};
  }

  Result<void> end(Outcome outcome) {
    outcome_ = std::move(outcome);
    return enough();
  }

  RemoteFile& file_;
  const size_t index_;
  const OriginState state_;
  const ByteRange range_;
  const uint64_t passed_;
  const Sink& sink_;
  bool is_ranged_ = false;
  bool is_whole_ = false;   // the server sends the whole file
  bool is_enough_ = false;  // the sink needs no more
  uint64_t at_ = 0;         // the next byte
  uint64_t end_ = UINT64_MAX;
  bool has_length_ = false;  // the response ends at end_, whether the connection does or not
  uint64_t received_ = 0;    // bytes passed to the sink
  std::optional<uint64_t> total_;
  std::optional<Outcome> outcome_;
  std::string error_body_;
};

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

void RemoteFile::OriginState::set_server(const http::Response& response) {
  redirect = response.url == http::normalized_url(origin.url) ? "" : response.url;
  is_public = response.from_public;
}

RemoteFile::OriginState RemoteFile::state(size_t origin) const {
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

Error RemoteFile::changed(const std::string& url) const {
  return {Code::corrupt, fmt::format("{}: changed on the server{}", url, name_.empty() ? "; mount it again" : "")};
}

// `attempt` uses one origin until it has all bytes, or a request fails without progress.
template <class Attempt>
Result<void> RemoteFile::try_origins(const std::stop_token& stop, Attempt attempt) {
  MirrorScheduler mirrors(origins_.size(), retries_, *http_, current_);
  for (size_t i = 0; i < origins_.size(); ++i)
    if (state(i).is_rejected) mirrors.exclude(i);
  while (const auto next = mirrors.next(stop)) {
    current_ = *next;
    const Outcome outcome = attempt(*next, mirrors);
    if (outcome.next == Next::done) return {};
    if (outcome.next == Next::stop) return tl::unexpected(outcome.error);
    report_if_mirror(*next, outcome.error);
    mirrors.failed(*next, outcome);
  }
  if (stop.stop_requested() || is_cancelled())
    return failure(Code::network, name_.empty() ? "cancelled" : name_ + ": cancelled");
  return tl::unexpected(combined_error(name_, mirrors.errors()));
}

Result<void> RemoteFile::fetch(ByteRange range, const Sink& sink, const std::stop_token& stop) {
  if (http_ == nullptr)
    return failure(Code::network, fmt::format("{}: not cached, and downloads are disabled by --offline", printable()));
  uint64_t passed = 0;  // bytes of a whole file that a server without ranges sent
  return try_origins(stop, [&](size_t origin, MirrorScheduler& mirrors) {
    return fetch_from(origin, range, passed, sink, mirrors, stop);
  });
}

// Continues at `range.from`, which it moves, and at `passed` if the server sends the whole file.
Outcome RemoteFile::fetch_from(size_t origin, ByteRange& range, uint64_t& passed, const Sink& sink,
                               MirrorScheduler& mirrors, const std::stop_token& stop) {
  auto since = Clock::now();
  for (int retries = 0; range.from < range.to;) {
    Get get(*this, origin, range, passed, sink);
    Outcome outcome = get.perform(stop);
    if (outcome.next == Next::stop || (outcome.next == Next::done && get.is_complete())) return outcome;
    // The sink may need more of a whole file than the range.
    if (get.is_whole() && get.at() >= range.from) range.to = std::max(range.to, size_.value_or(range.to));
    if (get.is_whole()) passed = std::max(passed, get.at());
    range.from = std::clamp(get.at(), range.from, range.to);
    if (outcome.next == Next::done)  // a shorter answer is legal (RFC 9110, 15.3.7), but bytes must come
      outcome = {Next::retry_now, {Code::network, fmt::format("{}: sends less than requested", printable())}};
    // Delays included: one byte per request must not count as progress.
    const auto now = Clock::now();
    const std::chrono::duration<double> time = now - std::exchange(since, now);
    const auto bytes = static_cast<double>(get.received());
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
  for (OriginState& state : origins_) state = {state.origin};
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
  FileVersion version;
  std::optional<uint64_t> expected;  // bytes of the head
  bool says_web_page = false;        // servers also say it of files whose type they do not know
  http::Request request = request_to(at);
  request.headers.push_back(fmt::format("Range: bytes=0-{}", kHead - 1));
  if (known && known->has_quoted_etag()) request.headers.push_back("If-None-Match: " + known->etag);
  const auto end = [&](Outcome how) {
    outcome = std::move(how);
    return enough();
  };
  const auto on_response = [&](const http::Response& response) -> Result<void> {
    const auto found = head_of(response, known, kHead);
    if (!found) {
      const bool is_success = response.status >= 200 && response.status <= 206;
      return end(is_success ? unusable(at, "the size of the file is not known: " + why_no_size(response))
                            : refusal(at, response));
    }
    version = found->version;
    expected = found->expected;
    if (size_ && version.size != *size_)
      return end({Next::give_up, wrong_size(http::printable_url(at.url), version.size, *size_)});
    change_state(origin, [&](OriginState& state) {
      state.set_server(response);
      state.has_ranges = found->has_ranges;
      state.version = version;
    });
    says_web_page = is_web_page(response);
    return {};
  };
  std::string head;
  const auto on_body = [&](std::span<const std::byte> bytes) -> Result<void> {
    const auto count = static_cast<size_t>(std::min<uint64_t>(bytes.size(), *expected - head.size()));
    head.append(reinterpret_cast<const char*>(bytes.data()), count);
    return count < bytes.size() ? enough() : Result<void>();
  };
  ++requests_;
  const auto done = http_->perform(request, {on_response, on_body}, stop);
  if (outcome) return *outcome;
  if (!done && (!expected || head.size() < *expected)) return outcome_of(done.error());
  if (says_web_page && begins_web_page(head))
    return unusable(at, "the server sent a web page (text/html), not a model");
  version_ = version;
  size_ = version.size;
  head_ = std::move(head);
  return {};
}

// ---- the size

Result<std::optional<uint64_t>> RemoteFile::query_size(const std::stop_token& stop) {
  if (size_) return size_;
  const http::Options& limits = http_->options();
  const auto until = Clock::now() + limits.connect_timeout + limits.stall_timeout + http_->patience();
  RetryPolicy once = retries_;
  once.retries = std::min(once.retries, 1);
  MirrorScheduler mirrors(origins_.size(), once, *http_);
  std::optional<uint64_t> size;
  while (const auto next = mirrors.next(stop, until)) {
    const Origin origin = state(*next).origin;
    const auto response = size_response(*http_, origin, until, stop);
    const auto reported = response ? reported_size(*response) : std::nullopt;
    if (!response || (!reported && response->status >= 300)) {
      const Outcome outcome = response ? refusal(origin, *response) : outcome_of(response.error());
      report_if_mirror(*next, outcome.error);
      mirrors.failed(*next, outcome);
      continue;
    }
    // No size, or a different one than before: only a complete download determines it.
    if (!reported || (size && size != reported)) return std::nullopt;
    size = reported;
    mirrors.exclude(*next);
  }
  if (stop.stop_requested() || is_cancelled()) return failure(Code::network, fmt::format("{}: cancelled", name_));
  if (size) return size;
  auto errors = mirrors.errors();
  if (errors.size() < origins_.size()) errors.push_back({Code::network, "timed out before all origins were tried"});
  return tl::unexpected(combined_error(name_, errors));
}

}  // namespace weightfs::download
