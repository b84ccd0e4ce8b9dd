// IAM Identity Center. (docs.aws.amazon.com, "AWS Single Sign-On Portal API Reference": GetRoleCredentials.)
#include <fmt/core.h>

#include <utility>

#include "base/digest.h"
#include "base/text.h"
#include "protocols/aws/key_requests.h"
#include "protocols/aws/key_sources.h"

namespace weightfs::aws {
namespace {

class SingleSignOnKeys final : public s3::KeySource {
 public:
  explicit SingleSignOnKeys(SingleSignOn settings) : settings_(std::move(settings)) {}

  // The command line of AWS renews the token, and this reads its file for each request.
  Result<s3::TimedKeys> obtain(http::Client& client, const std::stop_token& stop) const override {
    const std::string token = TRY(read_token());
    const http::Request request{
        .url = fmt::format("{}/federation/credentials?account_id={}&role_name={}", settings_.url,
                           http::url_encoded(settings_.account), http::url_encoded(settings_.role)),
        .headers = {"Accept: application/json"},
        .credentials = std::make_shared<SecretHeaders>(std::vector<std::string>{"x-amz-sso_bearer_token: " + token}),
        .purpose = http::Purpose::keys,
        .certificates = settings_.certificates};
    const auto name_it = [&](const Error& error) { return named(name(), error); };
    const download::Response page = TRY(ask(client, request, stop).map_error(name_it));
    if (page.head.status == 401) return no_login("the service does not accept the login");
    if (page.head.status != 200) return refused(name(), request.url, page);
    const Map object = TRY(object_in(page.body).map_error(name_it));
    const auto* const keys = object.find_as<Map>("roleCredentials");
    if (keys == nullptr) return failure(Code::forbidden, name() + ": an answer without roleCredentials");
    const KeyNames names{"accessKeyId", "secretAccessKey", "sessionToken", "expiration"};
    return keys_in(*keys, names).map_error(name_it);
  }
  std::string name() const override { return "single sign-on"; }

 private:
  tl::unexpected<Error> no_login(const std::string& problem) const {
    return failure(Code::forbidden, fmt::format("{}: {}; run: aws sso login --profile {}", name(), problem,
                                                shell_word(settings_.profile)));
  }

  Result<std::string> read_token() const {
    auto text = read_small_file(settings_.token_file);
    if (!text) return no_login(text.error().message);
    const auto object = object_in(std::move(*text));
    if (!object) return no_login(fmt::format("{}: {}", printable(settings_.token_file), object.error().message));
    const std::string token(text_in(*object, "accessToken"));
    const auto expiry = parse_expiry(text_in(*object, "expiresAt"));
    if (token.empty() || !is_visible_ascii(token) || !expiry)
      return no_login(printable(settings_.token_file) + ": no token");
    if (*expiry <= std::chrono::system_clock::now()) return no_login("the login has expired");
    return token;
  }

  const SingleSignOn settings_;
};

}  // namespace

std::string sso_token_file(const std::string& key) {
  Sha1Sum sum;
  sum.update(std::as_bytes(std::span(key)));
  return sum.finish().hex() + ".json";
}

s3::KeySourcePtr single_sign_on(SingleSignOn settings) {
  return std::make_shared<SingleSignOnKeys>(std::move(settings));
}

}  // namespace weightfs::aws
