#include "cache/download/download.h"

#include <fmt/core.h>

#include <algorithm>
#include <stop_token>
#include <utility>

#include "base/text.h"
#include "cache/download/mirror_scheduler.h"
#include "cache/download/origin_info.h"
#include "cache/download/transfer.h"

namespace weightfs::download {
namespace {

constexpr int kMaxUnattributed = 2;

// Whether a range request may succeed where HEAD failed: URLs of object stores are often signed for GET only.
bool is_inconclusive(const http::Response& response) {
  return response.status == 200 || response.status == 400 || response.status == 403 || response.status == 405 ||
         response.status == 501;
}

std::optional<uint64_t> reported_size(const http::Response& response) {
  if (response.status == 200) return content_length(response);
  const auto range = parse_content_range(response.header("content-range").value_or(""));
  const bool has_range = response.status == 206 || response.status == 416;  // 416: the blob is empty
  return has_range && range && !is_encoded(response) ? range->total : std::nullopt;
}

// Sends a request, and returns the response without its body.
Result<http::Response> response_head(http::Client& http, const http::Request& request, const std::stop_token& stop) {
  std::optional<http::Response> head;
  const http::ResponseHandler handler{[&](const http::Response& response) -> Result<void> {
                                        head = response;
                                        if (request.method == http::Request::Method::head) return {};
                                        return failure(Code::resource, "enough");  // not reported
                                      },
                                      [](std::span<const std::byte>) -> Result<void> { return {}; }};
  const auto done = http.perform(request, handler, stop);
  if (head) return *head;
  return tl::unexpected(done ? Error{Code::corrupt, "no response"} : done.error());
}

}  // namespace

std::shared_ptr<http::Credentials> credentials_for(const Origin& origin, const std::string& url) {
  return http::origin_of(url) == http::origin_of(origin.url) ? origin.credentials : nullptr;
}

Fetch::Fetch(http::ClientPtr http, std::string name, std::optional<uint64_t> size, std::vector<Origin> origins,
             FetchOptions options)
    : http_(std::move(http)), name_(std::move(name)), size_(size), origins_(std::move(origins)), options_(options) {}

// What one origin reported: the size, if known, or the error.
struct Fetch::SizeReply {
  Outcome outcome = {};
  std::optional<uint64_t> size = {};
};

Result<std::optional<uint64_t>> Fetch::size(const std::stop_token& stop) {
  if (size_) return size_;
  const http::Options& limits = http_->options();
  const auto until = std::chrono::steady_clock::now() + limits.connect_timeout + limits.stall_timeout;
  RetryPolicy once = options_;
  once.retries = std::min(once.retries, 1);
  MirrorScheduler mirrors(origin_count(), once);
  std::optional<uint64_t> size;
  while (const auto next = mirrors.next(stop, until)) {
    const SizeReply at = query_size(origins_[*next], until, stop);
    if (at.outcome.next == Outcome::Next::retry_later) {
      mirrors.retry_later(*next, at.outcome);
    } else if (at.outcome.next == Outcome::Next::give_up) {
      mirrors.give_up(*next, at.outcome.error);
    } else {
      // No size, or a different one than before: only a complete download determines it.
      if (!at.size || (size && size != at.size)) return std::nullopt;
      size = at.size;
      mirrors.exclude(*next);
    }
  }
  if (stop.stop_requested()) return failure(Code::network, fmt::format("{}: cancelled", name_));
  if (size) return size;
  auto errors = mirrors.errors();
  if (errors.size() < origin_count()) errors.push_back({Code::network, "timed out before all origins were tried"});
  return tl::unexpected(combined_error(name_, errors));
}

Fetch::SizeReply Fetch::query_size(const Origin& origin, std::chrono::steady_clock::time_point until,
                                   const std::stop_token& stop) {
  http::Request request;
  request.url = origin.url;
  request.trust = origin.trust;
  request.credentials = origin.credentials;
  request.method = http::Request::Method::head;
  request.deadline = until;
  auto response = response_head(*http_, request, stop);
  if (response && !reported_size(*response) && is_inconclusive(*response)) {
    request.method = http::Request::Method::get;
    request.headers = {"Range: bytes=0-0"};
    response = response_head(*http_, request, stop);
  }
  if (!response) return {outcome_of(response.error())};
  if (const auto size = reported_size(*response)) return {{}, size};
  if (response->status < 300) return {};
  return {outcome_of(*response, credentials_for(origin, response->url).get())};
}

Result<std::unique_ptr<FetchStream>> Fetch::begin(const ResumePoint& resume, const std::stop_token& stop) {
  const ResumePoint resume_from = !size_ || resume.bytes <= *size_ ? resume : ResumePoint{};
  {
    const std::scoped_lock lock(mutex_);
    contributors_.clear();
    has_resumed_data_ = resume_from.bytes > 0;
  }
  return std::make_unique<Transfer>(shared_from_this(), resume_from, stop);
}

bool Fetch::is_rejected(size_t origin) {
  const std::scoped_lock lock(mutex_);
  return rejected_.count(origin) > 0;
}

void Fetch::record_contributor(size_t origin) {
  const std::scoped_lock lock(mutex_);
  contributors_.insert(origin);
}

void Fetch::forget_resumed_data() {
  const std::scoped_lock lock(mutex_);
  has_resumed_data_ = false;
}

bool Fetch::reject() {
  const std::scoped_lock lock(mutex_);
  if (contributors_.empty() && !has_resumed_data_) return false;
  if (contributors_.size() == 1 && !has_resumed_data_)
    rejected_.insert(*contributors_.begin());
  else if (++unattributed_ > kMaxUnattributed)
    return false;
  return rejected_.size() < origin_count();
}

}  // namespace weightfs::download
