#include "cache/download/download.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "cache/download/mirror_scheduler.h"
#include "cache/download/origin_info.h"
#include "cache/download/transfer.h"

namespace weightfs {
namespace {

constexpr int kMostUnexplained = 2;

// Whether there is something to learn from asking otherwise than by HEAD: links of stores are often signed for GET
// only.
bool says_nothing(const Answer& answer) {
  return answer.status == 200 || answer.status == 400 || answer.status == 403 || answer.status == 405 ||
         answer.status == 501;
}

std::optional<uint64_t> size_told(const Answer& answer) {
  if (answer.status == 200) return length_of(answer);
  const auto range = content_range_of(answer.header("content-range").value_or(""));
  const bool tells = answer.status == 206 || answer.status == 416;  // 416: there is not even one byte
  return tells && range && !is_encoded(answer) ? range->total : std::nullopt;
}

// The answer without its body.
Result<Answer> head_of(Http& http, const Request& request, const std::atomic<bool>& stop) {
  std::optional<Answer> seen;
  const Receiver receiver{[&](const Answer& answer) -> Result<void> {
                            seen = answer;
                            if (request.method == Request::Method::head) return {};
                            return failure(Code::resource, "enough");  // is not shown
                          },
                          [](std::span<const std::byte>) -> Result<void> { return {}; }};
  const auto done = http.perform(request, receiver, stop);
  if (seen) return *seen;
  return tl::unexpected(done ? Error{Code::corrupt, "no answer"} : done.error());
}

}  // namespace

std::shared_ptr<Credentials> credentials_for(const Origin& origin, const std::string& url) {
  return origin_of(url) == origin_of(origin.url) ? origin.credentials : nullptr;
}

Fetch::Fetch(HttpPtr http, std::string name, std::optional<uint64_t> size, std::vector<Origin> origins,
             FetchOptions options)
    : http_(std::move(http)), name_(std::move(name)), size_(size), origins_(std::move(origins)), options_(options) {}

// What one origin says: the size, if it tells it at all, or why it does not.
struct Fetch::SizeAt {
  Outcome outcome = {};
  std::optional<uint64_t> size = {};
};

Result<std::optional<uint64_t>> Fetch::size(const std::atomic<bool>& stop) {
  if (size_) return size_;
  const HttpOptions& limits = http_->options();
  const auto until = std::chrono::steady_clock::now() + limits.connect_timeout + limits.stall_timeout;
  Patience once = options_;
  once.retries = std::min(once.retries, 1);
  Turns turns(asked(), once);
  std::optional<uint64_t> told;
  while (const auto next = turns.next(stop, until)) {
    const SizeAt at = size_at(origins_[*next], until, stop);
    if (at.outcome.then == Outcome::Then::later) {
      turns.later(*next, at.outcome);
    } else if (at.outcome.then == Outcome::Then::give_up) {
      turns.give_up(*next, at.outcome.error);
    } else {
      // One that does not tell, or tells another size than those before: what is right only the bytes tell.
      if (!at.size || (told && told != at.size)) return std::nullopt;
      told = at.size;
      turns.leave_out(*next);
    }
  }
  if (stop) return failure(Code::network, str(name_, ": cancelled"));
  if (told) return told;
  auto errors = turns.errors();
  if (errors.size() < asked()) errors.push_back({Code::network, "no time was left to ask the others"});
  return tl::unexpected(all_of(name_, errors));
}

Fetch::SizeAt Fetch::size_at(const Origin& origin, std::chrono::steady_clock::time_point until,
                             const std::atomic<bool>& stop) {
  Request request;
  request.url = origin.url;
  request.trust = origin.trust;
  request.credentials = origin.credentials;
  request.method = Request::Method::head;
  request.until = until;
  auto answer = head_of(*http_, request, stop);
  if (answer && !size_told(*answer) && says_nothing(*answer)) {
    request.method = Request::Method::get;
    request.headers = {"Range: bytes=0-0"};
    answer = head_of(*http_, request, stop);
  }
  if (!answer) return {outcome_of(answer.error())};
  if (const auto size = size_told(*answer)) return {{}, size};
  if (answer->status < 300) return {};
  return {outcome_of(*answer, credentials_for(origin, answer->url).get())};
}

Result<std::unique_ptr<FetchStream>> Fetch::begin(const Left& left, const std::atomic<bool>& stop) {
  const Left begun = !size_ || left.bytes <= *size_ ? left : Left{};
  {
    const std::scoped_lock lock(mutex_);
    gave_.clear();
    earlier_ = begun.bytes > 0;
  }
  return std::make_unique<Transfer>(shared_from_this(), begun, stop);
}

bool Fetch::is_rejected(size_t origin) {
  const std::scoped_lock lock(mutex_);
  return rejected_.count(origin) > 0;
}

void Fetch::note_giver(size_t origin) {
  const std::scoped_lock lock(mutex_);
  gave_.insert(origin);
}

void Fetch::forget_earlier() {
  const std::scoped_lock lock(mutex_);
  earlier_ = false;
}

bool Fetch::reject() {
  const std::scoped_lock lock(mutex_);
  if (gave_.empty() && !earlier_) return false;
  if (gave_.size() == 1 && !earlier_)
    rejected_.insert(*gave_.begin());
  else if (++unexplained_ > kMostUnexplained)
    return false;
  return rejected_.size() < asked();
}

}  // namespace weightfs
