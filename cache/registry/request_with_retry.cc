#include "cache/registry/request_with_retry.h"

#include <algorithm>
#include <chrono>

#include "base/text.h"
#include "base/values/json.h"
#include "cache/download/mirror_scheduler.h"
#include "cache/download/origin_info.h"

namespace weightfs {
namespace {

using Clock = std::chrono::steady_clock;

// Who says to wait longer than five seconds is not waited for: the user can ask again.
constexpr Patience kPatience{2, std::chrono::milliseconds(400), std::chrono::seconds(5)};

// A try that took so long failed by a limit on time, and is not made again.
constexpr std::chrono::seconds kLongTry{5};

constexpr size_t kLongestRefusal = 64 * 1024;
constexpr uint64_t kMostRefusalValues = 1000;
constexpr size_t kLongestReason = 300;

// The first of the texts that registries put into such an object.
std::string reason_in(const Value& value) {
  const auto* object = std::get_if<Map>(&value);
  if (object == nullptr) return {};
  if (const Value* errors = object->find("errors")) {
    const auto* list = std::get_if<List>(errors);
    return list == nullptr || list->empty() ? std::string() : reason_in(list->front());
  }
  for (const char* key : {"message", "details", "error", "code"})
    if (const Value* text = object->find(key); text != nullptr && std::holds_alternative<std::string>(*text))
      return std::get<std::string>(*text);
  return {};
}

}  // namespace

Result<Page> page_of(Http& http, const Request& request, size_t most, const std::atomic<bool>& stop) {
  Page page;
  bool enough = false;
  const Receiver receiver{
      [&](const Answer& answer) -> Result<void> {
        page.answer = answer;
        return {};
      },
      [&](std::span<const std::byte> bytes) -> Result<void> {
        const bool refused = page.answer.status != 200;
        const size_t room = (refused ? kLongestRefusal : most) - page.body.size();
        page.body.append(reinterpret_cast<const char*>(bytes.data()), std::min(room, bytes.size()));
        if (bytes.size() <= room) return {};
        enough = refused;
        return failure(Code::corrupt, str(printable_url(request.url), ": an answer of more than ", human_size(most)));
      }};
  const auto done = http.perform(request, receiver, stop);
  if (!done && !enough) return tl::unexpected(done.error());
  return page;
}

Result<Page> ask(Http& http, const Request& request, size_t most, const std::atomic<bool>& stop) {
  for (Backoff backoff(kPatience);;) {
    const Clock::time_point begun = Clock::now();
    auto page = page_of(http, request, most, stop);
    const auto outcome = page ? outcome_of(page->answer) : outcome_of(page.error());
    if (outcome.then != Outcome::Then::later) return page;
    const Error error = page ? Error{Code::network, printable_url(request.url) + refusal(*page)} : page.error();
    if (Clock::now() - begun > kLongTry) return tl::unexpected(error);
    const auto pause = TRY(backoff.pause(error, outcome.pause));
    if (!rest(pause, stop)) return tl::unexpected(error);
  }
}

std::string refusal(const Page& page) {
  std::string out = str(": status ", page.answer.status);
  ValueBuilder builder(kMostRefusalValues);
  const SourcePtr text = in_memory(page.body);
  std::string reason;
  if (read_json(*text, 0, text->size(), builder)) reason = reason_in(builder.take());
  if (reason.size() > kLongestReason) reason = reason.substr(0, kLongestReason) + "...";
  return reason.empty() ? out : out + ", " + printable(reason);
}

}  // namespace weightfs
