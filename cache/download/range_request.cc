#include "cache/download/range_request.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "cache/download/request_with_retry.h"

namespace weightfs::download {
namespace {

using Next = Outcome::Next;

// Compressed responses allow neither ranges nor resuming, so large files are requested uncompressed.
constexpr uint64_t kMaxEncoded = 16 << 20;

// Bytes beside the requested ones that are read, at each end: a cache may send its whole slice.
constexpr uint64_t kMaxSurplus = 8 << 20;

Outcome give_up(Code code, std::string message) { return {Next::give_up, {code, std::move(message)}}; }

// Whether the body of a refusal may say why, if nothing else does.
bool may_have_reason(const Outcome& outcome, const http::Response& response) {
  const int status = response.status;
  return outcome.next == Next::give_up && response.header("x-error-message").empty() &&
         (status == 400 || status == 401 || status == 403);
}

// The origin's credentials, if `url` (its URL or a redirect target) has the same scheme, host and port; else null.
std::shared_ptr<http::Credentials> credentials_for(const Origin& origin, const std::string& url) {
  return http::origin_of(url) == http::origin_of(origin.url) ? origin.credentials : nullptr;
}

}  // namespace

http::Request request_to(const Origin& origin) {
  return {.url = origin.url, .trust = origin.trust, .credentials = origin.credentials};
}

Outcome refusal(const Origin& origin, const http::Response& response) {
  return outcome_of(response, credentials_for(origin, response.url).get());
}

tl::unexpected<Error> enough() { return failure(Code::resource, "enough"); }

Error wrong_size(const std::string& url, uint64_t size, uint64_t expected) {
  return {Code::corrupt, fmt::format("{}: has {} bytes, expected {}", url, size, expected)};
}

void OriginState::set_server(const http::Response& response) {
  redirect = response.url == http::normalized_url(origin.url) ? "" : response.url;
  is_public = response.from_public;
}

RangeRequest::RangeRequest(File file, OriginState state, ChangeState change_state, ByteRange range, uint64_t passed,
                           const Sink& sink)
    : file_(file),
      state_(std::move(state)),
      change_state_(std::move(change_state)),
      range_(range),
      passed_(passed),
      sink_(sink) {
  const bool is_everything = range_.from == 0 && range_.to >= file_.size.value_or(UINT64_MAX);
  is_ranged_ = !is_everything && state_.has_ranges.value_or(true);
}

Error RangeRequest::changed() const {
  if (state_.has_versions_in_turn)
    return {Code::corrupt,
            fmt::format("{}: changes on the server and back: several servers with different ETags answer "
                        "for it in turn",
                        printable())};
  return {Code::corrupt,
          fmt::format("{}: changed on the server{}", printable(), file_.name.empty() ? "; mount it again" : "")};
}

Outcome RangeRequest::other_version() const {
  change_state_([](OriginState& state) { state.had_other_version = true; });
  return {Next::give_up, changed()};
}

Outcome RangeRequest::perform(const std::stop_token& stop) {
  const http::ResponseHandler handler{[this](const http::Response& response) { return on_response(response); },
                                      [this](std::span<const std::byte> bytes) { return on_body(bytes); },
                                      [this] { return on_wait(); }};
  const auto done = file_.http.perform(request(), handler, stop);
  if (outcome_) return with_error_text(*outcome_);
  if (at_ >= end_) return {};
  if (done) return after_body();
  const bool was_redirect = !state_.redirect.empty();
  forget_redirect();
  // The fetcher remembers redirects for a time only.
  if (was_redirect && done.error().code == Code::forbidden) return {Next::retry_now, done.error()};
  Outcome failed = outcome_of(done.error());
  // A refused redirect names its target only.
  const bool is_refused = failed.error.code == Code::forbidden || failed.error.code == Code::unsupported;
  if (is_refused && !failed.error.message.starts_with(printable()))
    failed.error.message = fmt::format("{}: {}", http::printable_url(origin().url), failed.error.message);
  return failed;
}

http::Request RangeRequest::request() const {
  http::Request request = request_to(origin());
  request.urgency = file_.urgency;
  if (!state_.redirect.empty()) {
    request.url = state_.redirect;
    request.credentials = credentials_for(origin(), state_.redirect);
    request.public_only = state_.is_public;
  }
  request.encoded = !is_ranged_ && range_.from == 0 && !state_.version && !state_.needs_pinned_version &&
                    file_.size.value_or(0) <= kMaxEncoded;
  const std::string last = range_.to == UINT64_MAX ? "" : std::to_string(range_.to - 1);
  if (is_ranged_) request.headers.push_back(fmt::format("Range: bytes={}-{}", range_.from, last));
  if (state_.version && state_.version->has_quoted_etag())
    request.headers.push_back("If-Match: " + state_.version->etag);
  return request;
}

Result<void> RangeRequest::on_response(const http::Response& response) {
  // A Content-Range counts with status 200, too: some proxies send it.
  const auto range = is_ranged_ ? parse_content_range(response.header("content-range")) : std::nullopt;
  if ((response.status == 206 && is_ranged_) || (response.status == 200 && range)) return on_part(response, range);
  if (response.status == 200) return on_whole(response);
  if (response.status == 412 || (response.status == 404 && origin().names_version) ||
      (response.status == 416 && file_.name.empty()))
    return end(other_version());
  if (response.status == 416)
    return end(give_up(Code::corrupt,
                       fmt::format("{}: no data from byte {} on, but more is expected", printable(), range_.from)));
  Outcome outcome = refusal(origin(), response);
  // Redirect targets expire (signed URLs of object stores): resolve the redirect again.
  if (outcome.next == Next::give_up && !state_.redirect.empty()) outcome.next = Next::retry_now;
  forget_redirect();
  if (response.status < 300 || (origin().error_text == nullptr && !may_have_reason(outcome, response)))
    return end(std::move(outcome));
  outcome_ = std::move(outcome);  // the body describes it
  return {};
}

Outcome RangeRequest::with_error_text(Outcome outcome) const {
  const auto describe = origin().error_text;
  const std::string text = error_body_.empty()   ? ""
                           : describe == nullptr ? refusal_reason(error_body_)
                                                 : describe(error_body_);
  if (!text.empty()) outcome.error.message += ": " + text;
  if (is_timeout_of_store(error_body_)) outcome.next = Next::retry_later;
  return outcome;
}

Result<void> RangeRequest::on_part(const http::Response& response, const std::optional<ContentRange>& range) {
  const bool fits = range && range->first && *range->first <= range_.from && *range->last >= range_.from &&
                    range_.from - *range->first <= kMaxSurplus;
  if (!fits) {
    const std::string_view sent = response.header("content-range");
    Outcome outcome =
        give_up(Code::corrupt, fmt::format("{}: requested bytes from {}, got content-range {}", printable(),
                                           range_.from, quoted(sent.empty() ? "nothing" : sent)));
    // A server whose ranges were never right may send the whole file.
    if (!state_.has_ranges) outcome.next = Next::retry_now;
    if (!state_.has_ranges) change_state_([](OriginState& state) { state.has_ranges = false; });
    return end(std::move(outcome));
  }
  const auto length = content_length(response);
  if (response.is_encoded() || (length && *length != *range->last - *range->first + 1))
    return end(give_up(Code::corrupt, fmt::format("{}: content-length contradicts content-range", printable())));
  if (auto same = check_version(response, range->total); !same) return end({Next::give_up, std::move(same).error()});
  at_ = range_.from;
  before_ = range_.from - *range->first;
  end_ = std::min(*range->last + 1, range_.to);
  const uint64_t surplus = *range->last + 1 - end_;
  has_length_ = length.has_value() && surplus <= kMaxSurplus;
  after_ = has_length_ ? surplus : 0;
  total_ = range->total;
  remember(response, true);
  return {};
}

Result<void> RangeRequest::on_whole(const http::Response& response) {
  const auto length = content_length(response);
  if (auto same = check_version(response, length); !same) return end({Next::give_up, std::move(same).error()});
  is_whole_ = true;
  end_ = length.value_or(file_.size.value_or(UINT64_MAX));
  if (is_ranged_ || response.header("accept-ranges") == "none") {
    remember(response, false);
  } else {
    remember(response, response.header("accept-ranges") == "bytes" ? std::optional(true) : state_.has_ranges);
  }
  return {};
}

Result<void> RangeRequest::check_version(const http::Response& response, std::optional<uint64_t> size) const {
  const auto expected = file_.size;
  if (size && expected && *size != *expected && state_.version && file_.name.empty()) return tl::unexpected(changed());
  if (size && expected && *size != *expected) return tl::unexpected(wrong_size(printable(), *size, *expected));
  const FileVersion sent = version_of(response, size.value_or(state_.version ? state_.version->size : 0));
  const bool fits =
      state_.version ? is_same_version(*state_.version, sent) : !state_.needs_pinned_version || sent.is_pinned();
  if (!fits) return failure(other_version().error);
  if (state_.had_other_version) change_state_([](OriginState& state) { state.has_versions_in_turn = true; });
  return {};
}

void RangeRequest::remember(const http::Response& response, std::optional<bool> has_ranges) const {
  const uint64_t size = end_ == UINT64_MAX || !is_whole_ ? file_.size.value_or(0) : end_;
  change_state_([&](OriginState& state) {
    state.set_server(response);
    if (has_ranges && state.has_ranges != false) state.has_ranges = has_ranges;  // once wrong, never again
    if (!state.version && size > 0 && !response.is_encoded()) state.version = version_of(response, size);
  });
}

void RangeRequest::forget_redirect() const {
  change_state_([this](OriginState& state) {
    if (state.redirect == state_.redirect) state.redirect.clear();  // others may have renewed it
  });
}

Result<void> RangeRequest::on_body(std::span<const std::byte> bytes) {
  if (outcome_) {
    const size_t size = std::min(bytes.size(), kMaxErrorBody - error_body_.size());
    error_body_.append(reinterpret_cast<const char*>(bytes.data()), size);
    return size == bytes.size() ? Result<void>() : enough();
  }
  const auto before = static_cast<size_t>(std::min<uint64_t>(bytes.size(), before_));
  before_ -= before;
  bytes = bytes.subspan(before);
  const auto expected = static_cast<size_t>(std::min<uint64_t>(bytes.size(), end_ - at_));
  if (expected > 0) TRY_VOID(pass(bytes.first(expected)));
  const uint64_t after = bytes.size() - expected;
  if (after <= after_) {
    after_ -= after;
    return {};
  }
  if (!is_whole_) return end({});
  return end(give_up(Code::corrupt, fmt::format("{}: longer than the expected {} bytes", printable(), end_)));
}

Result<void> RangeRequest::on_wait() {
  if (outcome_) return {};
  if (const auto wanted = sink_(at_, {}); !wanted) return end({Next::stop, wanted.error()});
  return {};
}

Result<void> RangeRequest::pass(std::span<const std::byte> bytes) {
  const uint64_t skipped = is_whole_ ? std::min<uint64_t>(bytes.size(), passed_ - std::min(passed_, at_)) : 0;
  at_ += skipped;
  bytes = bytes.subspan(static_cast<size_t>(skipped));
  if (bytes.empty()) return {};
  if (received_ == 0) change_state_([](OriginState& state) { state.has_contributed = true; });
  received_ += bytes.size();
  const auto wanted = sink_(at_, bytes);
  if (!wanted) return end({Next::stop, wanted.error()});
  at_ += bytes.size();
  is_enough_ = !*wanted;
  // A connection can be used again if its response was read to its end.
  return *wanted || (has_length_ && at_ == end_) ? Result<void>() : end({});
}

// The body ended before all requested bytes were received.
Outcome RangeRequest::after_body() {
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

Result<void> RangeRequest::end(Outcome outcome) {
  outcome_ = std::move(outcome);
  return enough();
}

}  // namespace weightfs::download
