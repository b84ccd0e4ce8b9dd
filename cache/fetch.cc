#include "cache/fetch.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "cache/fetch_answer.h"
#include "cache/fetch_transfer.h"

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
                            return failure(Code::unavailable, "enough");  // is not shown
                          },
                          [](std::span<const std::byte>) -> Result<void> { return {}; }};
  const auto done = http.perform(request, receiver, stop);
  if (seen) return *seen;
  return tl::unexpected(done ? Error{Code::corrupt, "no answer"} : done.error());
}

}  // namespace

Fetch::Fetch(HttpPtr http, std::string name, std::optional<uint64_t> size, std::vector<Origin> origins,
             FetchOptions options)
    : http_(std::move(http)), name_(std::move(name)), size_(size), origins_(std::move(origins)), options_(options) {}

Result<std::optional<uint64_t>> Fetch::size(const std::atomic<bool>& stop) {
  if (size_) return size_;
  std::vector<Error> errors;
  std::optional<uint64_t> told;
  for (const Origin& origin : origins_) {
    const auto size = size_at(origin, stop);
    if (!size) {
      errors.push_back(size.error());
      continue;
    }
    // One that does not tell, or tells another size than those before: what is right only the bytes tell.
    if (!*size || (told && told != *size)) return std::nullopt;
    told = *size;
  }
  if (told) return told;
  return tl::unexpected(all_of(name_, errors));
}

Result<std::optional<uint64_t>> Fetch::size_at(const Origin& origin, const std::atomic<bool>& stop) {
  Request request;
  request.url = origin.url;
  request.trust = origin.trust;
  request.credentials = origin.credentials;
  request.method = Request::Method::head;
  // Whoever wants to know a size lists a directory, maybe: one that is not to be had must not take long.
  FetchOptions few = options_;
  few.retries = std::min(few.retries, 1);
  Backoff backoff(few);
  for (;;) {
    const auto answer = head_of(*http_, request, stop);
    if (!answer && answer.error().code != Code::unreachable) return tl::unexpected(answer.error());
    const Outcome outcome = answer ? outcome_of(*answer) : Outcome{Outcome::Then::later, answer.error()};
    if (answer && size_told(*answer)) return size_told(*answer);
    if (answer && request.method == Request::Method::head && says_nothing(*answer)) {
      request.method = Request::Method::get;
      request.headers = {"Range: bytes=0-0"};
    } else if (outcome.then == Outcome::Then::later) {
      TRY_VOID(backoff.wait(outcome, stop));
    } else if (answer->status < 300) {
      return std::nullopt;
    } else {
      return tl::unexpected(outcome.error);
    }
  }
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
  return rejected_.size() < origins_.size();
}

}  // namespace weightfs
