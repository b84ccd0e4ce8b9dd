#include "cache/download/range_request.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "base/text.h"

namespace weightfs::download {
namespace {

using Next = Outcome::Next;

// Compressed responses allow neither ranges nor resuming, so large blobs are requested uncompressed.
constexpr uint64_t kMaxEncoded = 16 << 20;

Outcome give_up(Error error) { return {Next::give_up, std::move(error)}; }

Outcome contradiction(const http::Response& response, uint64_t size) {
  return give_up({Code::corrupt,
                  fmt::format("{}: has {} bytes, but more were received", http::printable_url(response.url), size)});
}

}  // namespace

Fetch::Transfer::RangeRequest::RangeRequest(Transfer& transfer, ReassemblyBuffer::Chunk& chunk,
                                            ReassemblyBuffer::Owner owner)
    : transfer_(transfer), buffer_(transfer.buffer_), chunk_(chunk), owner_(owner) {
  std::tie(origin_, info_) = transfer.current_origin();
  std::tie(span_.from, span_.to) = buffer_.bounds(chunk);
  const bool is_everything = span_.from == 0 && span_.to == buffer_.end();
  is_ranged_ = !is_everything && !info_.no_ranges;
  if (is_ranged_ && is_leader()) etag_ = expected_tag();
}

Outcome Fetch::Transfer::RangeRequest::perform() {
  const http::ResponseHandler handler{[this](const http::Response& response) { return on_response(response); },
                                      [this](std::span<const std::byte> bytes) { return on_body(bytes); }};
  const auto done = transfer_.fetch_->http_->perform(request(), handler, transfer_.ended_.get_token());
  if (outcome_) return *outcome_;
  const auto [at, end] = buffer_.bounds(chunk_);
  if (at == end) {
    buffer_.confirm(chunk_);
    return {};
  }
  return done ? after_body_end(at) : after_error(done.error());
}

http::Request Fetch::Transfer::RangeRequest::request() const {
  http::Request request;
  request.url = info_.url;
  request.trust = origin().trust;
  request.credentials = credentials_for(origin(), info_.url);
  request.public_only = info_.is_public && info_.url != origin().url;
  request.encoded = !is_ranged_ && span_.from == 0 && size().value_or(0) <= kMaxEncoded;
  if (!is_ranged_) return request;
  const std::string last = span_.to == buffer_.end() ? "" : std::to_string(span_.to - 1);
  request.headers.push_back(fmt::format("Range: bytes={}-{}", span_.from, last));
  if (!etag_.empty()) request.headers.push_back("If-Range: " + etag_);
  return request;
}

// The tag by which the server checks that the rest belongs to the same bytes.
std::string Fetch::Transfer::RangeRequest::expected_tag() const {
  if (!info_.etag.empty()) return info_.encoded ? "" : info_.etag;
  const std::string& state = transfer_.resume_.validator;
  const std::string url = http::printable_url(origin().url) + " ";
  const bool same = buffer_.progress().arrived == 0 && state.substr(0, url.size()) == url;
  return same ? state.substr(url.size()) : "";
}

// Ends the request; the error is not reported.
Result<void> Fetch::Transfer::RangeRequest::end_with(Outcome outcome) {
  outcome_ = std::move(outcome);
  return failure(Code::resource, "enough");
}

Result<void> Fetch::Transfer::RangeRequest::on_response(const http::Response& response) {
  if (response.status == 206 && is_ranged_) return on_partial_response(response);
  if (response.status == 200 && is_leader()) return on_full_response(response);
  if (response.status == 416 && is_ranged_ && is_leader()) return on_range_not_satisfiable(response);
  if (response.status == 200) transfer_.use_single_connection(origin_);  // the server ignored a helper's range
  Outcome outcome = outcome_of(response, credentials_for(origin(), response.url).get());
  // Redirect targets expire (signed store URLs): resolve the redirect again.
  if (outcome.next == Next::give_up && response.status >= 400 && info_.url != origin().url) {
    transfer_.forget_redirect(origin_);
    outcome.next = Next::retry_now;
  }
  return end_with(std::move(outcome));
}

Result<void> Fetch::Transfer::RangeRequest::on_full_response(const http::Response& response) {
  if (auto same = check_full_response(response, info_, size()); !same)
    return end_with(give_up(std::move(same).error()));
  const auto length = content_length(response);
  OriginInfo info{response.url, strong_etag(response), length, is_encoded(response)};
  // A response 200 to If-Range with a different tag only means that the bytes changed.
  const bool ignored = is_ranged_ && (etag_.empty() || etag_ == info.etag);
  if (span_.from > 0 && !(is_ranged_ && restart_from_zero())) skip_ = span_.from;
  if (ignored) transfer_.use_single_connection(origin_);
  if (length && !buffer_.set_end(*length)) return end_with(contradiction(response, *length));
  const std::string_view ranges = response.header("accept-ranges").value_or("");
  info.ranges = ranges == "bytes" && length && !ignored;
  info.no_ranges = info_.no_ranges || ignored || ranges == "none";
  info.is_public = response.from_public;
  transfer_.record_info(origin_, info);
  is_full_response_ = true;
  if (length) buffer_.confirm(chunk_);
  return {};
}

Result<void> Fetch::Transfer::RangeRequest::on_partial_response(const http::Response& response) {
  auto range = check_partial_response(response, span_, info_, size());
  if (!range) {
    if (!is_leader()) transfer_.use_single_connection(origin_);
    return end_with(give_up(std::move(range).error()));
  }
  if (range->total && !buffer_.set_end(*range->total)) return end_with(contradiction(response, *range->total));
  OriginInfo info{.url = response.url,
                  .etag = strong_etag(response),
                  .size = range->total,
                  .ranges = true,
                  .is_public = response.from_public};
  if (info.etag.empty() && !info_.encoded) info.etag = info_.etag;
  if (!info.size) info.size = info_.size;
  transfer_.record_info(origin_, info);
  if (*range->last + 1 == buffer_.end()) buffer_.confirm(chunk_);
  return {};
}

// No bytes beyond the start: either the blob is complete, or the earlier bytes belong to another one.
Result<void> Fetch::Transfer::RangeRequest::on_range_not_satisfiable(const http::Response& response) {
  const auto range = parse_content_range(response.header("content-range").value_or(""));
  const bool complete = range && range->total == span_.from && size().value_or(span_.from) == span_.from;
  if (complete && buffer_.set_end(span_.from)) {
    buffer_.confirm(chunk_);
    return end_with({});
  }
  Error error{Code::corrupt, fmt::format("{}: no data from byte {} on, but more is expected",
                                         http::printable_url(response.url), span_.from)};
  return end_with({restart_from_zero() ? Next::retry_now : Next::give_up, std::move(error)});
}

// Discards resumed bytes, unless newer bytes already follow them.
bool Fetch::Transfer::RangeRequest::restart_from_zero() {
  if (!buffer_.restart_from_zero(chunk_)) return false;
  span_.from = 0;
  transfer_.fetch_->forget_resumed_data();
  return true;
}

Result<void> Fetch::Transfer::RangeRequest::on_body(std::span<const std::byte> bytes) {
  const auto passed = static_cast<size_t>(std::min<uint64_t>(skip_, bytes.size()));
  skip_ -= passed;
  bytes = bytes.subspan(passed);
  if (bytes.empty()) return {};
  const auto [status, count] = buffer_.put(chunk_, bytes);
  if (count > 0) transfer_.fetch_->record_contributor(origin_);
  gave_bytes_ += count;
  switch (status) {
    case ReassemblyBuffer::PutStatus::accepted:
      transfer_.maybe_scale_up();
      return {};
    case ReassemblyBuffer::PutStatus::past_end:
      buffer_.drop_unread();
      return end_with(past_end());
    case ReassemblyBuffer::PutStatus::chunk_full:
    case ReassemblyBuffer::PutStatus::dropped:
      break;
  }
  return end_with({});
}

Outcome Fetch::Transfer::RangeRequest::past_end() const {
  return give_up({Code::corrupt,
                  fmt::format("{}: longer than the expected {} bytes", http::printable_url(info_.url), buffer_.end())});
}

// The body ended before the chunk did.
Outcome Fetch::Transfer::RangeRequest::after_body_end(uint64_t at) {
  if (is_full_response_ && skip_ == 0 && buffer_.end() == ReassemblyBuffer::kUnknown) {
    buffer_.set_end(at);
    buffer_.confirm(chunk_);
    return {};
  }
  const std::string url = http::printable_url(info_.url);
  if (is_full_response_) {
    const uint64_t end = buffer_.end();
    const std::string expected = end == ReassemblyBuffer::kUnknown ? "more" : std::to_string(end);
    return give_up({Code::corrupt, fmt::format("{}: ends before byte {}, expected {}", url, at + 1, expected)});
  }
  // A server may send fewer bytes than requested (RFC 9110, section 14.2), but not none.
  if (gave_bytes_ > 0) return {Next::retry_now, {Code::network, fmt::format("{}: sends less than requested", url)}};
  return {Next::retry_later, {Code::network, fmt::format("{}: sent no data", url)}};
}

Outcome Fetch::Transfer::RangeRequest::after_error(const Error& error) {
  transfer_.forget_redirect(origin_);
  return outcome_of(error);
}

}  // namespace weightfs::download
