#include "protocols/azure/signer.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>

#include "base/text.h"
#include "base/values/base64.h"
#include "base/values/http.h"
#include "protocols/azure/signature.h"

namespace weightfs::azure {
namespace {

constexpr const char* kVersion = "2023-11-03";  // of the API; without one, anonymous requests have that of 2009

s3::Settings as_token_settings(const Settings& settings) {
  s3::Settings found;
  found.key_source = settings.key_source;
  return found;
}

}  // namespace

UserCredentials::UserCredentials(Settings settings)
    : settings_(std::move(settings)), tokens_(as_token_settings(settings_), [source = as_token_settings(settings_)] {
        return Result<s3::Settings>(source);
      }) {}

Signer::Signer(std::shared_ptr<UserCredentials> user, std::string account, const std::string& domain, std::string sas,
               http::ClientPtr client)
    : user_(std::move(user)),
      account_(std::move(account)),
      auth_(!sas.empty()                                 ? Auth::sas
            : user_->settings().is_for(account_, domain) ? user_->settings().auth
                                                         : Auth::anonymous),
      is_of_url_(!sas.empty()),
      sas_(is_of_url_           ? std::move(sas)
           : auth_ == Auth::sas ? user_->settings().secret
                                : ""),
      key_(auth_ == Auth::shared_key ? from_base64(user_->settings().secret).value_or("") : ""),
      client_(std::move(client)) {}

Result<void> Signer::prepare(const std::stop_token& stop) {
  if (!has_token() || client_ == nullptr) return {};
  const auto found = user_->tokens().get(client_, s3::UserKeys::Clock::now(), stop);
  if (found) return {};
  // The request is not repeated for this: each repetition would repeat the requests for tokens, too.
  return failure(is_about_the_network(found.error()) ? given_up(found.error()) : found.error());
}

std::string Signer::authorization() {
  if (!has_token()) return {};
  const auto keys = user_->tokens().current().keys;
  return keys ? "Bearer " + keys->token : "";
}

// Azure challenges a request whose token has expired.
Result<bool> Signer::on_unauthorized(const http::Response& /*response*/, const http::SentKeys& sent,
                                     const std::stop_token& stop) {
  if (auth_ != Auth::token) return false;
  if (authorization() != sent.authorization) return true;
  if (!has_token()) return false;
  renew(generation(), stop);
  return authorization() != sent.authorization;
}

uint64_t Signer::generation() { return has_token() ? user_->tokens().current().generation : 0; }

bool Signer::read_again(uint64_t sent, const std::stop_token& stop) {
  constexpr std::chrono::seconds kWithoutToken{60};
  if (auth_ != Auth::token || !user_->settings().account.empty()) return renew(sent, stop);
  token_from_ = Clock::now() + kWithoutToken;
  return true;
}

bool Signer::renew(uint64_t sent, const std::stop_token& stop) {
  return auth_ == Auth::token && user_->tokens().renew(sent, s3::UserKeys::Clock::now(), client_, stop);
}

std::vector<std::string> Signer::headers_beside(std::string_view method, const std::string& url,
                                                const std::vector<std::string>& sent) {
  SignedRequest request{std::string(method), url, {}, account_};
  request.headers = {{"x-ms-version", kVersion}, {"x-ms-date", http_date(std::time(nullptr))}};
  std::vector<std::string> lines;
  for (const auto& [name, value] : request.headers) lines.push_back(fmt::format("{}: {}", name, value));
  if (auth_ != Auth::shared_key) return lines;
  for (const std::string& line : sent) {
    const size_t colon = std::min(line.find(':'), line.size());
    request.headers[lower_case(line.substr(0, colon))] =
        std::string(trimmed(std::string_view(line).substr(std::min(colon + 1, line.size()))));
  }
  lines.push_back("Authorization: " + shared_key_authorization(request, key_));
  return lines;
}

http::KeyOrigin Signer::key_origin() {
  if (auth_ == Auth::anonymous) return {};
  if (is_of_url_) return {"the URL", read_};
  if (auth_ == Auth::token) return user_->tokens().current().origin;
  return {user_->settings().keys_from, read_};
}

std::string Signer::description() {
  if (is_of_url_) return "tried with the signature of the URL";
  if (auth_ == Auth::shared_key || auth_ == Auth::sas)
    return fmt::format("tried with the {} of {}", auth_ == Auth::sas ? "signature" : "key",
                       user_->settings().keys_from);
  const Settings& settings = user_->settings();
  if (auth_ == Auth::anonymous && settings.auth != Auth::anonymous)
    return fmt::format("tried anonymously: the credentials of the environment are for the account {}{}",
                       quoted(settings.account), settings.account == account_ ? " in " + settings.domain() : "");
  if (auth_ == Auth::anonymous) return "tried anonymously" + (settings.note.empty() ? "" : "; " + settings.note);
  const s3::UserKeys::Current current = user_->tokens().current();
  const std::string note = current.note.empty() ? "" : "; " + current.note;
  const std::string tried = current.keys ? "with the token of " + settings.keys_from : "anonymously";
  return fmt::format("tried {}{}{}", tried, current.keys && !has_token() ? ", and anonymously" : "", note);
}

}  // namespace weightfs::azure
