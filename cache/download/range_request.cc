#include "cache/download/range_request.h"

#include <algorithm>
#include <tuple>

#include "base/text.h"

namespace weightfs {
namespace {

using Then = Outcome::Then;

// What is compressed cannot be fetched over several connections, nor gone on with: not worth it for long ones.
constexpr uint64_t kMostEncoded = 16 << 20;

Outcome give_up(Error error) { return {Then::give_up, std::move(error)}; }

Outcome contradiction(const Answer& answer, uint64_t size) {
  return give_up({Code::corrupt, str(printable_url(answer.url), ": has ", size, " bytes, and more came before")});
}

}  // namespace

Fetch::Transfer::Asking::Asking(Transfer& transfer, Window::Piece& piece, Window::Owner who)
    : transfer_(transfer), window_(transfer.window_), piece_(piece), who_(who) {
  std::tie(origin_, told_) = transfer.told();
  std::tie(span_.from, span_.to) = window_.bounds(piece);
  const bool whole = span_.from == 0 && span_.to == window_.end();
  ranged_ = !whole && !told_.no_ranges;
  if (ranged_ && leads()) tag_ = expected_tag();
}

Outcome Fetch::Transfer::Asking::ask() {
  const Receiver receiver{[this](const Answer& answer) { return answered(answer); },
                          [this](std::span<const std::byte> bytes) { return received(bytes); }};
  const auto done = transfer_.fetch_->http_->perform(request(), receiver, transfer_.ended_);
  if (outcome_) return *outcome_;
  const auto [at, end] = window_.bounds(piece_);
  if (at == end) {
    window_.confirm(piece_);
    return {};
  }
  return done ? after_all(at) : after(done.error());
}

Request Fetch::Transfer::Asking::request() const {
  Request request;
  request.url = told_.url;
  request.trust = origin().trust;
  request.credentials = credentials_for(origin(), told_.url);
  request.only_public = told_.is_public && told_.url != origin().url;
  request.encoded = !ranged_ && span_.from == 0 && size().value_or(0) <= kMostEncoded;
  if (!ranged_) return request;
  const std::string last = span_.to == window_.end() ? "" : str(span_.to - 1);
  request.headers.push_back(str("Range: bytes=", span_.from, "-", last));
  if (!tag_.empty()) request.headers.push_back("If-Range: " + tag_);
  return request;
}

// By which the server knows whether the rest is the rest of the same.
std::string Fetch::Transfer::Asking::expected_tag() const {
  if (!told_.tag.empty()) return told_.encoded ? "" : told_.tag;
  const std::string& known = transfer_.left_.from;
  const std::string url = printable_url(origin().url) + " ";
  const bool same = window_.progress().arrived == 0 && known.substr(0, url.size()) == url;
  return same ? known.substr(url.size()) : "";
}

// Ends the request; the error is never shown.
Result<void> Fetch::Transfer::Asking::end_with(Outcome outcome) {
  outcome_ = std::move(outcome);
  return failure(Code::resource, "enough");
}

Result<void> Fetch::Transfer::Asking::answered(const Answer& answer) {
  if (answer.status == 206 && ranged_) return answered_part(answer);
  if (answer.status == 200 && leads()) return answered_whole(answer);
  if (answer.status == 416 && ranged_ && leads()) return answered_beyond(answer);
  if (answer.status == 200) transfer_.be_alone(origin_);  // a helper's range was ignored
  Outcome outcome = outcome_of(answer, credentials_for(origin(), answer.url).get());
  // Where a redirect once led to is not for ever: the links of stores expire.
  if (outcome.then == Then::give_up && answer.status >= 400 && told_.url != origin().url) {
    transfer_.forget_redirect(origin_);
    outcome.then = Then::again;
  }
  return end_with(std::move(outcome));
}

Result<void> Fetch::Transfer::Asking::answered_whole(const Answer& answer) {
  if (auto same = check_whole(answer, told_, size()); !same) return end_with(give_up(std::move(same).error()));
  const auto length = length_of(answer);
  Told told{answer.url, strong_tag_of(answer), length, is_encoded(answer)};
  // By another tag than the one asked for it says only that the bytes are others.
  const bool ignored = ranged_ && (tag_.empty() || tag_ == told.tag);
  if (span_.from > 0 && !(ranged_ && begin_anew())) skip_ = span_.from;
  if (ignored) transfer_.be_alone(origin_);
  if (length && !window_.set_end(*length)) return end_with(contradiction(answer, *length));
  const std::string_view ranges = answer.header("accept-ranges").value_or("");
  told.ranges = ranges == "bytes" && length && !ignored;
  told.no_ranges = told_.no_ranges || ignored || ranges == "none";
  told.is_public = answer.from_public;
  transfer_.tell(origin_, told);
  whole_ = true;
  if (length) window_.confirm(piece_);
  return {};
}

Result<void> Fetch::Transfer::Asking::answered_part(const Answer& answer) {
  auto range = check_part(answer, span_, told_, size());
  if (!range) {
    if (!leads()) transfer_.be_alone(origin_);
    return end_with(give_up(std::move(range).error()));
  }
  if (range->total && !window_.set_end(*range->total)) return end_with(contradiction(answer, *range->total));
  Told told{answer.url, strong_tag_of(answer), range->total, false, true, false, answer.from_public};
  if (told.tag.empty() && !told_.encoded) told.tag = told_.tag;
  if (!told.size) told.size = told_.size;
  transfer_.tell(origin_, told);
  if (*range->last + 1 == window_.end()) window_.confirm(piece_);
  return {};
}

// There is nothing from there on: either all is there, or what is there is of something else.
Result<void> Fetch::Transfer::Asking::answered_beyond(const Answer& answer) {
  const auto range = content_range_of(answer.header("content-range").value_or(""));
  const bool complete = range && range->total == span_.from && size().value_or(span_.from) == span_.from;
  if (complete && window_.set_end(span_.from)) {
    window_.confirm(piece_);
    return end_with({});
  }
  Error error{Code::corrupt,
              str(printable_url(answer.url), ": has nothing from byte ", span_.from, " on, where more is expected")};
  return end_with({begin_anew() ? Then::again : Then::give_up, std::move(error)});
}

// Without what an earlier fetch left, unless something has come already that follows on from it.
bool Fetch::Transfer::Asking::begin_anew() {
  if (!window_.begin_anew(piece_)) return false;
  span_.from = 0;
  transfer_.fetch_->forget_earlier();
  return true;
}

Result<void> Fetch::Transfer::Asking::received(std::span<const std::byte> bytes) {
  const auto passed = static_cast<size_t>(std::min<uint64_t>(skip_, bytes.size()));
  skip_ -= passed;
  bytes = bytes.subspan(passed);
  if (bytes.empty()) return {};
  const auto [took, count] = window_.put(piece_, bytes);
  if (count > 0) transfer_.fetch_->note_giver(origin_);
  gave_ += count;
  switch (took) {
    case Window::Took::all:
      transfer_.look();
      return {};
    case Window::Took::too_long:
      window_.drop_unread();
      return end_with(too_long());
    case Window::Took::piece_is_full:
    case Window::Took::dropped:
      break;
  }
  return end_with({});
}

Outcome Fetch::Transfer::Asking::too_long() const {
  return give_up({Code::corrupt,
                  str(printable_url(told_.url), ": goes on after the ", window_.end(), " bytes that are expected")});
}

// The body came to its end before the piece did.
Outcome Fetch::Transfer::Asking::after_all(uint64_t at) {
  if (whole_ && skip_ == 0 && window_.end() == Window::kUnknown) {
    window_.set_end(at);
    window_.confirm(piece_);
    return {};
  }
  const std::string url = printable_url(told_.url);
  if (whole_) {
    const uint64_t end = window_.end();
    const std::string expected = end == Window::kUnknown ? "more" : str(end);
    return give_up({Code::corrupt, str(url, ": ends before byte ", at + 1, ", where ", expected, " are expected")});
  }
  // A server may give less than was asked for (RFC 9110, section 14.2), but something.
  if (gave_ > 0) return {Then::again, {Code::network, str(url, ": gives less than it is asked for")}};
  return {Then::later, {Code::network, str(url, ": gave nothing")}};
}

Outcome Fetch::Transfer::Asking::after(const Error& error) {
  transfer_.forget_redirect(origin_);
  return outcome_of(error);
}

}  // namespace weightfs
