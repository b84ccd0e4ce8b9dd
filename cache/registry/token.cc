#include "cache/registry/token.h"

#include <sys/random.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <memory>
#include <new>

#include "base/digest.h"
#include "base/text.h"
#include "base/values/json.h"
#include "cache/registry/base64.h"
#include "cache/registry/request_with_retry.h"

namespace weightfs {
namespace {

using Parameters = std::vector<std::pair<std::string, std::string>>;

constexpr size_t kLongestAnswer = 256 * 1024;
constexpr size_t kLongestToken = 64 * 1024;
constexpr uint64_t kMostAnswerValues = 1000;

// Longer than any token that is worth keeping.
constexpr int64_t kLongestLife = 24 * 3600;

// One header for one question.
class Saying final : public Credentials {
 public:
  explicit Saying(std::string what) : what_(std::move(what)) {}
  std::string authorization() override { return what_; }
  Result<bool> challenged(const Denial&, const std::atomic<bool>&) override { return false; }

 private:
  const std::string what_;
};

std::string escaped(std::string_view text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                       c == '_' || c == '.' || c == '~';
    const auto byte = static_cast<uint8_t>(c);
    if (plain)
      out += c;
    else if (c == ' ')
      out += '+';
    else
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return out;
}

// The value of a hex digit; negative for any other character.
int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0;
    if (escape) {
      out += static_cast<char>(hex_digit(text[i + 1]) << 4 | hex_digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

// Calls `each` with the parts of `text` between separators, the empty ones left out.
template <class Each>
void split(std::string_view text, char separator, Each each) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) each(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

Parameters parameters_in(std::string_view query) {
  Parameters out;
  split(query, '&', [&](std::string_view part) {
    const size_t equals = std::min(part.find('='), part.size());
    out.emplace_back(unescaped(part.substr(0, equals)), unescaped(part.substr(std::min(equals + 1, part.size()))));
  });
  return out;
}

// It becomes a header.
bool is_token(std::string_view text) {
  return !text.empty() && text.size() <= kLongestToken &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7F'; });
}

Result<Token> token_in(const Page& page) {
  ValueBuilder builder(kMostAnswerValues);
  const SourcePtr text = in_memory(page.body);
  TRY_VOID(read_json(*text, 0, text->size(), builder));
  const Value value = builder.take();
  const auto* object = std::get_if<Map>(&value);
  if (object == nullptr) return failure(Code::corrupt, "no JSON object");
  Token token;
  for (const char* key : {"access_token", "token"})
    if (const Value* found = object->find(key); found != nullptr && std::holds_alternative<std::string>(*found))
      token.value = std::get<std::string>(*found);
  if (!is_token(token.value)) return failure(Code::corrupt, "no token");
  const Value* lifetime = object->find("expires_in");
  const auto* seconds = lifetime == nullptr ? nullptr : std::get_if<int64_t>(lifetime);
  if (seconds != nullptr && *seconds > 0) token.lifetime = std::min(*seconds, kLongestLife);
  return token;
}

Result<Token> asked(Http& http, const std::string& url, const std::string& authorization, Reach reach,
                    const std::atomic<bool>& stop) {
  Request request{.url = url, .headers = {"Accept: application/json"}};
  request.only_public = reach == Reach::only_public;
  if (!authorization.empty()) request.credentials = std::make_shared<Saying>(authorization);
  const auto page = TRY(ask(http, request, kLongestAnswer, stop));
  const bool denied = page.answer.status == 401 || page.answer.status == 403;
  const std::string who = str(denied ? "access denied: " : "", "no token from ", printable_url(url));
  if (page.answer.status != 200) return failure(Code::unsupported, who + refusal(page));
  return token_in(page).map_error([&](const Error& error) {
    return Error{Code::unsupported, who + ": " + error.message};
  });
}

}  // namespace

Chance Chance::of_system() {
  const auto nonce = [] {
    std::string bytes(16, '\0');
    if (::getrandom(bytes.data(), bytes.size(), 0) != 16) throw std::bad_alloc();
    return base64url(bytes);
  };
  return {[] { return static_cast<int64_t>(std::time(nullptr)); }, nonce};
}

std::string query_of(Parameters parameters) {
  std::stable_sort(parameters.begin(), parameters.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string out;
  for (const auto& [name, value] : parameters) out += (out.empty() ? "" : "&") + escaped(name) + "=" + escaped(value);
  return out;
}

std::string token_url(const Challenge& bearer, Parameters more) {
  std::string_view realm = bearer.parameter("realm");
  realm = realm.substr(0, realm.find('#'));
  const size_t question = std::min(realm.find('?'), realm.size());
  Parameters all = parameters_in(realm.substr(std::min(question + 1, realm.size())));
  if (const auto service = bearer.parameter("service"); !service.empty()) all.emplace_back("service", service);
  split(bearer.parameter("scope"), ' ', [&](std::string_view scope) { all.emplace_back("scope", scope); });
  std::move(more.begin(), more.end(), std::back_inserter(all));
  const std::string query = query_of(std::move(all));
  return std::string(realm.substr(0, question)) + (query.empty() ? "" : "?" + query);
}

std::string basic(const Login& login) { return "Basic " + base64(login.user + ":" + login.password); }

Result<std::string> signature(const SigningKey& key, const std::string& url) {
  // The last part stands for the request's body, which is empty.
  const std::string bytes = TRY(key.sign(str("GET,", url, ",", base64(sha256("").hex()))));
  return base64(key.public_blob()) + ":" + base64(bytes);
}

Result<Token> plain_token(Http& http, const Challenge& bearer, const std::optional<Login>& login, Reach reach,
                          const std::atomic<bool>& stop) {
  return asked(http, token_url(bearer), login ? basic(*login) : std::string(), reach, stop);
}

Result<Token> signed_token(Http& http, const Challenge& bearer, const SigningKey& key, const Chance& chance,
                           Reach reach, const std::atomic<bool>& stop) {
  const std::string url = token_url(bearer, {{"ts", str(chance.seconds())}, {"nonce", chance.nonce()}});
  return asked(http, url, TRY(signature(key, url)), reach, stop);
}

}  // namespace weightfs
