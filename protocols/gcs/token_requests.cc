// The requests for tokens: of a provider, of the Security Token Service, for a service account, and of the machine.
#include <fmt/core.h>

#include <utility>

#include "base/text.h"
#include "cache/download/shown_reason.h"
#include "protocols/aws/key_requests.h"
#include "protocols/gcs/token_sources.h"

namespace weightfs::gcs {
namespace {

constexpr const char* kPlatform = "https://www.googleapis.com/auth/cloud-platform";

// {"error": "invalid_grant"} (RFC 6749, section 5.2), {"error": {"message": "…"}}
std::string reason_of(const std::string& body) {
  const auto object = aws::object_in(body);
  if (!object) return {};
  std::string reason(text_in(*object, "error"));
  if (const auto* const error = object->find_as<Map>("error")) reason = text_in(*error, "message");
  return download::shown_reason(reason);
}

class ExternalTokens final : public s3::KeySource {
 public:
  explicit ExternalTokens(ExternalAccount settings) : settings_(std::move(settings)) {}

  Result<s3::TimedKeys> obtain(http::Client& client, const std::stop_token& stop) const override {
    const auto name_it = [&](const Error& error) { return aws::named(name(), error); };
    const std::string subject = TRY(subject_token(client, stop).map_error(name_it));
    const bool impersonates = !settings_.impersonation_url.empty();
    Map object =
        TRY(send_post(client,
                      {.name = name(),
                       .url = settings_.token_url,
                       .body = form_of({{"grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"},
                                        {"audience", settings_.audience},
                                        {"scope", impersonates ? kPlatform : kScope},
                                        {"requested_token_type", "urn:ietf:params:oauth:token-type:access_token"},
                                        {"subject_token", subject},
                                        {"subject_token_type", settings_.token_type}})},
                      stop));
    s3::TimedKeys keys = TRY(token_in(object, std::chrono::system_clock::now()).map_error(name_it));
    if (!impersonates) return keys;
    object = TRY(send_post(client,
                           {.name = name(),
                            .url = settings_.impersonation_url,
                            .body = fmt::format(R"({{"scope":["{}"],"lifetime":"3600s"}})", kScope),
                            .content_type = "application/json",
                            .secret_headers = {"Authorization: Bearer " + keys.keys->token}},
                           stop));
    return token_in(object, std::chrono::system_clock::now()).map_error(name_it);
  }
  std::string name() const override { return printable(settings_.path); }
  std::string origin() const override { return settings_.path; }

 private:
  // The provider replaces it while it is in use.
  Result<std::string> subject_token(http::Client& client, const std::stop_token& stop) const {
    std::string text;
    if (settings_.url.empty()) {
      text = TRY(aws::read_small_file(settings_.file));
    } else {
      const bool is_plain = settings_.url.starts_with("http:");
      const http::Request request{.url = settings_.url,
                                  .credentials = std::make_shared<aws::SecretHeaders>(settings_.headers),
                                  .purpose = is_plain ? http::Purpose::metadata : http::Purpose::keys};
      const download::Response page = TRY(aws::ask(client, request, stop));
      if (page.head.status != 200) return aws::refused("credential_source", settings_.url, page);
      text = page.body;
    }
    if (!settings_.field.empty()) text = text_in(TRY(aws::object_in(std::move(text))), settings_.field);
    std::string token(trimmed(text));
    if (token.empty() || !is_visible_ascii(token)) return failure(Code::forbidden, "credential_source has no token");
    return token;
  }

  const ExternalAccount settings_;
};

class MachineTokens final : public s3::KeySource {
 public:
  explicit MachineTokens(Machine settings) : settings_(std::move(settings)) {}

  Result<s3::TimedKeys> obtain(http::Client& client, const std::stop_token& stop) const override {
    constexpr int kAttempts = 3;  // the service of a Kubernetes node starts later than its first pods
    const auto name_it = [&](const Error& error) { return aws::named(name(), error); };
    const http::Request request{.url = settings_.url + "/computeMetadata/v1/instance/service-accounts/default/token",
                                .headers = {"Metadata-Flavor: Google"},
                                .purpose = http::Purpose::metadata};
    const download::Response page =
        TRY(aws::ask_soon(client, request, {settings_.timeout, kAttempts}, stop).map_error(name_it));
    if (page.head.status == 404) return s3::TimedKeys{};  // it has no service account
    if (page.head.status != 200) return aws::refused(name(), request.url, page);
    const Map object = TRY(aws::object_in(page.body).map_error(name_it));
    return token_in(object, std::chrono::system_clock::now()).map_error(name_it);
  }
  std::string name() const override { return "instance metadata"; }
  bool is_optional() const override { return true; }

 private:
  const Machine settings_;
};

}  // namespace

std::string form_of(const std::vector<std::pair<std::string_view, std::string>>& parameters) {
  std::string form;
  for (const auto& [name, value] : parameters)
    form += fmt::format("{}{}={}", form.empty() ? "" : "&", name, http::url_encoded(value));
  return form;
}

Result<Map> send_post(http::Client& client, const Post& post, const std::stop_token& stop) {
  http::Request request{.url = post.url,
                        .method = http::Request::Method::post,
                        .headers = {"Content-Type: " + post.content_type},
                        .purpose = http::Purpose::keys,
                        .body = post.body};
  if (!post.secret_headers.empty()) request.credentials = std::make_shared<aws::SecretHeaders>(post.secret_headers);
  const auto name_it = [&](const Error& error) { return aws::named(post.name, error); };
  const download::Response page = TRY(aws::ask(client, request, stop).map_error(name_it));
  if (page.head.status != 200) return aws::refused(post.name, post.url, page, reason_of(page.body));
  return aws::object_in(page.body).map_error(name_it);
}

Result<s3::TimedKeys> token_in(const Map& object, std::chrono::system_clock::time_point now) {
  constexpr int64_t kMaxLife = 7 * 24 * 3600;  // seconds
  std::string_view token = text_in(object, "access_token");
  if (token.empty()) token = text_in(object, "accessToken");
  if (token.empty() || !is_visible_ascii(token)) return failure(Code::forbidden, "the answer has no token");
  s3::TimedKeys keys;
  keys.keys = s3::Keys{"", "", std::string(token)};
  if (const auto* const seconds = object.find_as<int64_t>("expires_in")) {
    if (*seconds <= 0 || *seconds > kMaxLife) return failure(Code::forbidden, "expires_in is not a valid time");
    keys.expiry = now + std::chrono::seconds(*seconds);
  } else if (const std::string_view end = text_in(object, "expireTime"); !end.empty()) {
    keys.expiry = aws::parse_expiry(end);
    if (!keys.expiry) return failure(Code::forbidden, "expireTime is not a valid time");
  }
  return keys;
}

s3::KeySourcePtr external_account(ExternalAccount settings) {
  return std::make_shared<ExternalTokens>(std::move(settings));
}
s3::KeySourcePtr machine(Machine settings) { return std::make_shared<MachineTokens>(std::move(settings)); }

}  // namespace weightfs::gcs
