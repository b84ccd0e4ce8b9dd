#include "cache/http/client.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "base/text.h"
#include "base/values/http.h"

namespace weightfs::http {

void Client::count_request(const std::string& origin, uint64_t count) {
  const std::scoped_lock lock(mutex_);
  requests_[requests_.size() < kMaxOrigins || requests_.contains(origin) ? origin : "other"] += count;
}

void Client::record_answer(const std::string& origin, const Response& response) {
  const auto date = parse_http_date(std::string(response.header("date")));
  std::optional<std::chrono::system_clock::time_point> since;
  {
    const std::scoped_lock lock(mutex_);
    if (answers_.size() < kMaxOrigins || answers_.contains(origin)) {
      Answer& answer = answers_[origin];
      answer.last = response.status;
      if (response.status < 400) answer.accepted = response.status;
      // A cache sends the Date of the origin, and how long ago that was (RFC 9111, section 5.1).
      const uint32_t age = parse_number<uint32_t>(response.header("age")).value_or(0);
      if (date) answer.clock_ahead = std::chrono::seconds(*date + age - std::time(nullptr));
    }
    if (is_temporary(response.status)) return;
    since.swap(waiting_.since);
    waiting_.is_outage = false;
  }
  if (since && options_.on_answer)
    options_.on_answer(
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now() - *since));
}

bool Client::is_expected_to_answer(const std::string& origin, Trust trust) const {
  if (trust == Trust::user && patience().count() > 0) return true;
  const std::scoped_lock lock(mutex_);
  return answers_.contains(origin);
}

void Client::record_end_of_fetcher() {
  const std::scoped_lock lock(mutex_);
  waiting_.has_fetcher_ended = true;
}

Waiting Client::waiting() const {
  const std::scoped_lock lock(mutex_);
  return waiting_;
}

Client::Wait::Wait(Client& client, const Error& error, std::chrono::milliseconds delay, bool is_outage)
    : client_(client) {
  Waiting now;
  {
    const std::scoped_lock lock(client_.mutex_);
    ++client_.waiting_.requests;
    client_.waiting_.reason = error.message;
    client_.waiting_.is_outage |= is_outage;
    if (!client_.waiting_.since) client_.waiting_.since = std::chrono::system_clock::now();
    now = client_.waiting_;
  }
  if (client_.options_.on_retry) client_.options_.on_retry(now, delay);
}

Client::Wait::~Wait() {
  const std::scoped_lock lock(client_.mutex_);
  --client_.waiting_.requests;
}

void Client::record_keys(const std::string& url, const KeyOrigin& keys) {
  const std::string origin = origin_of(url);
  const std::scoped_lock lock(mutex_);
  if (keys.from.empty())
    keys_.erase(origin);
  else if (keys_.size() < kMaxOrigins || keys_.contains(origin))
    keys_[origin] = keys;
}

std::map<std::string, KeyOrigin> Client::keys() const {
  const std::scoped_lock lock(mutex_);
  return keys_;
}

std::map<std::string, Answer> Client::answers() const {
  const std::scoped_lock lock(mutex_);
  return answers_;
}

std::map<std::string, uint64_t> Client::requests() const {
  const std::scoped_lock lock(mutex_);
  return requests_;
}

CredentialsName Client::keys_of_source(const std::string& url) const {
  using Kind = CredentialsName::Kind;
  const std::string server = origin_of(url);
  if (options_.has_source_token || options_.keyed_origins.contains(server))
    return {.kind = Kind::web, .server = server};
  return server.starts_with("https://") ? CredentialsName{.kind = Kind::site, .server = server} : CredentialsName();
}

Result<CredentialsPtr> Client::credentials_of_source(const std::string& url) {
  const CredentialsName name = keys_of_source(url);
  return name.kind == CredentialsName::Kind::none ? CredentialsPtr() : credentials(name);
}

std::string_view Response::header(std::string_view name) const {
  const auto found =
      std::find_if(headers.begin(), headers.end(), [&](const auto& header) { return header.first == name; });
  return found == headers.end() ? std::string_view() : found->second;
}

bool Response::is_encoded() const {
  // The registry of IANA, without "identity".
  constexpr std::array<std::string_view, 12> kCodings = {"gzip", "x-gzip",   "deflate",    "br",
                                                         "zstd", "compress", "x-compress", "aes128gcm",
                                                         "dcb",  "dcz",      "exi",        "pack200-gzip"};
  for (const auto& [name, value] : headers) {
    if (name != "content-encoding") continue;
    for (std::string_view rest = value; !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
      if (std::ranges::find(kCodings, lower_case(trimmed(word))) != kCodings.end()) return true;
    }
  }
  return false;
}

bool Response::has_unknown_coding() const {
  const std::string_view words = header("content-encoding");
  return !words.empty() && lower_case(words) != "identity" && !is_encoded();
}

}  // namespace weightfs::http
