#include "cache/ask.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <thread>

#include "base/json.h"
#include "base/text.h"

namespace weightfs {
namespace {

using Clock = std::chrono::steady_clock;

// Before the second and the third try.
constexpr std::array kPauses = {std::chrono::milliseconds(200), std::chrono::milliseconds(600)};

// Who says to wait longer is not waited for: the user can ask again.
constexpr std::chrono::seconds kLongestPause{5};

// A try that took so long failed by a limit on time, and is not made again.
constexpr std::chrono::seconds kLongTry{5};

constexpr size_t kLongestRefusal = 64 * 1024;
constexpr uint64_t kMostRefusalValues = 1000;
constexpr size_t kLongestReason = 300;

void wait(Clock::duration pause, const std::atomic<bool>& stop) {
  for (const auto end = Clock::now() + pause; !stop && Clock::now() < end;)
    std::this_thread::sleep_for(std::min<Clock::duration>(end - Clock::now(), std::chrono::milliseconds(100)));
}

bool is_for_a_moment(int status) { return status == 429 || status >= 500; }

// Retry-After in seconds (RFC 9110, section 10.2.3); its other form, a date, says no pause.
std::chrono::seconds pause_wanted(const Answer& answer) {
  const auto text = answer.header("retry-after").value_or("");
  uint32_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc::result_out_of_range) seconds = UINT32_MAX;
  return std::chrono::seconds(end == text.data() + text.size() ? seconds : 0);
}

// Http::page takes an answer whole or not at all; of one that is refused the beginning says enough.
Result<Http::Page> page_of(Http& http, const Request& request, size_t most, const std::atomic<bool>& stop) {
  Http::Page page;
  bool enough = false;
  Receiver receiver;
  receiver.answered = [&](const Answer& answer) -> Result<void> {
    page.answer = answer;
    return {};
  };
  receiver.received = [&](std::span<const std::byte> bytes) -> Result<void> {
    const bool refused = page.answer.status != 200;
    const size_t room = (refused ? kLongestRefusal : most) - page.body.size();
    page.body.append(reinterpret_cast<const char*>(bytes.data()), std::min(room, bytes.size()));
    if (bytes.size() <= room) return {};
    enough = refused;
    return failure(Code::corrupt, str(printable_url(request.url), ": an answer of more than ", human_size(most)));
  };
  const auto done = http.perform(request, receiver, stop);
  if (!done && !enough) return tl::unexpected(done.error());
  return page;
}

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

Result<Http::Page> ask(Http& http, const Request& request, size_t most, const std::atomic<bool>& stop) {
  for (size_t retries = 0;; ++retries) {
    const Clock::time_point begun = Clock::now();
    auto page = page_of(http, request, most, stop);
    if (page ? !is_for_a_moment(page->answer.status) : page.error().code != Code::unreachable) return page;
    std::chrono::milliseconds pause{};
    bool last = stop || retries == kPauses.size() || Clock::now() - begun > kLongTry;
    if (!last) {
      const auto wanted = page ? pause_wanted(page->answer) : std::chrono::seconds(0);
      last = wanted > kLongestPause;
      pause = std::max<std::chrono::milliseconds>(wanted, kPauses[retries]);
    }
    if (last && page) return failure(Code::unreachable, printable_url(request.url) + refusal(*page));
    if (last) return page;
    wait(pause, stop);
  }
}

std::string refusal(const Http::Page& page) {
  std::string out = str(": status ", page.answer.status);
  ValueBuilder builder(kMostRefusalValues);
  const SourcePtr text = in_memory(page.body);
  std::string reason;
  if (read_json(*text, 0, text->size(), builder)) reason = reason_in(builder.take());
  if (const auto wanted = page.answer.header("retry-after"); page.answer.status == 429 && wanted)
    out += str(", try again after ", printable(wanted->substr(0, 40)), wanted->find(' ') == wanted->npos ? " s" : "");
  if (reason.size() > kLongestReason) reason = reason.substr(0, kLongestReason) + "...";
  return reason.empty() ? out : out + ", " + printable(reason);
}

}  // namespace weightfs
