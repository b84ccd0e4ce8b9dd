#include "protocols/credential_helpers.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/cancel.h"
#include "base/source.h"
#include "base/text.h"
#include "base/values/json.h"

namespace weightfs::registry {
namespace {

constexpr size_t kMaxHelperName = 64;
constexpr std::string_view kNoLogin = "credentials not found in native keychain";  // of docker-credential-helpers

tl::unexpected<Error> bad_answer(std::string_view why) {
  return failure(Code::unsupported, fmt::format("printed no login: {}", why));
}

// A login becomes a header in base64, or a form; a token for the user name "<token>" is an identity token.
Result<Login> parse_answer(const std::string& text) {
  const auto value = parse_json(*in_memory(text), 0, text.size());
  const Map* const answer = value ? std::get_if<Map>(&*value) : nullptr;
  if (answer == nullptr) return bad_answer("not a JSON object");  // the parser's message quotes the text
  const auto* const user = answer->find_as<std::string>("Username");
  const auto* const secret = answer->find_as<std::string>("Secret");
  if (user == nullptr || secret == nullptr || secret->empty()) return bad_answer("Username and Secret expected");
  const auto is_refused = [](char c) { return c == ':' || c == '\x7f' || static_cast<unsigned char>(c) < ' '; };
  if (*user == "<token>") return Login{{}, {}, *secret};
  if (user->empty() || std::ranges::any_of(*user, is_refused)) return bad_answer("not a valid user name");
  return Login{*user, *secret};
}

Result<Login> login_in(const HelperOutput& output) {
  if (output.status == 0) return parse_answer(output.text);
  if (trimmed(output.text) == kNoLogin) return failure(Code::not_found, "has no login");
  return failure(Code::unsupported, fmt::format("failed with exit status {}", output.status));
}

}  // namespace

bool is_helper_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxHelperName &&
         std::ranges::all_of(name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

Result<Login> CredentialHelpers::login(const HelperUse& use, const std::stop_token& stop) {
  std::unique_lock lock(mutex_, std::defer_lock);
  while (!lock.try_lock_for(kCancelCheck))
    if (stop.stop_requested() || is_cancelled())
      return failure(Code::network, "stopped while waiting for a credential helper");
  const auto last = answers_.find(use);
  if (last != answers_.end() && now_() - last->second.time < kBetweenAnswers) return last->second.login;
  const auto output = run_(use, stop);
  if (!output && output.error().code == Code::network) return failure(output.error());
  Result<Login> login = output ? login_in(*output) : Result<Login>(failure(Code::unsupported, output.error().message));
  answers_.insert_or_assign(use, Answer{now_(), login});
  return login;
}

}  // namespace weightfs::registry
