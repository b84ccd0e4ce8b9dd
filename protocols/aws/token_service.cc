// AssumeRole and AssumeRoleWithWebIdentity. (docs.aws.amazon.com, "AWS Security Token Service API Reference".)
#include <fmt/core.h>

#include <ctime>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cache/download/shown_reason.h"
#include "protocols/aws/key_requests.h"
#include "protocols/aws/key_sources.h"
#include "protocols/aws/profile.h"
#include "protocols/s3/signature.h"
#include "protocols/s3/xml.h"

namespace weightfs::aws {
namespace {

constexpr size_t kMaxToken = 20'000;  // bytes, of the service

using Parameters = std::vector<std::pair<std::string, std::string>>;

std::string form_of(const Parameters& parameters) {
  std::string form;
  for (const auto& [name, value] : parameters)
    form += fmt::format("{}{}={}", form.empty() ? "" : "&", name, http::url_encoded(value));
  return form;
}

struct ServiceAnswer {
  Map keys = {};          // with the names of KeyNames
  std::string code = {};  // of an error: "AccessDenied"
  std::string message = {};
};

ServiceAnswer parse_answer(const std::string& body) {
  ServiceAnswer answer;
  std::ignore = s3::read_xml(body, [&](std::string_view path, const std::string& text) {
    const size_t slash = path.rfind('/');
    const std::string_view name = path.substr(slash == path.npos ? 0 : slash + 1);
    if (path.find("Result/Credentials/") != path.npos) answer.keys.set(std::string(name), text);
    if (path.ends_with("Error/Code")) answer.code = text;
    if (path.ends_with("Error/Message")) answer.message = text;
  });
  return answer;
}

std::string reason_of(const ServiceAnswer& answer) {
  return download::shown_reason(answer.message.empty() ? answer.code
                                                       : fmt::format("{}: {}", answer.code, answer.message));
}

// The identity provider is asked by the service, which may fail as a network does.
bool may_succeed_later(const ServiceAnswer& answer) { return answer.code == "IDPCommunicationError"; }

Result<s3::TimedKeys> keys_of_answer(const std::string& name, const std::string& url, const download::Response& page) {
  const ServiceAnswer answer = parse_answer(page.body);
  if (page.head.status != 200) {
    auto failed = refused(name, url, page, reason_of(answer));
    if (may_succeed_later(answer)) failed.value().code = Code::network;
    return failed;
  }
  return keys_in(answer.keys, {.token = "SessionToken"}).map_error([&](const Error& error) {
    return named(fmt::format("{}: {}", name, http::printable_url(url)), error);
  });
}

class WebIdentityKeys final : public s3::KeySource {
 public:
  explicit WebIdentityKeys(WebIdentity settings) : settings_(std::move(settings)) {}

  // The token is replaced while it is in use.
  Result<s3::TimedKeys> obtain(http::Client& client, const std::stop_token& stop) const override {
    download::Response page = TRY(send(client, stop));
    if (page.head.status == 400 && parse_answer(page.body).code == "ExpiredTokenException")
      page = TRY(send(client, stop));
    return keys_of_answer(name(), settings_.service.url, page);
  }
  std::string name() const override { return "STS web identity"; }

 private:
  Result<download::Response> send(http::Client& client, const std::stop_token& stop) const {
    const auto name_it = [&](const Error& error) { return named(name(), error); };
    const std::string token = TRY(read_small_file(settings_.token_file).map_error(name_it));
    if (token.empty() || token.size() > kMaxToken || !is_visible_ascii(token))
      return failure(Code::forbidden, fmt::format("{}: {}: not a token", name(), printable(settings_.token_file)));
    // In the body, because servers log URLs.
    const http::Request request{.url = settings_.service.url + "/",
                                .method = http::Request::Method::post,
                                .headers = {"Content-Type: application/x-www-form-urlencoded"},
                                .purpose = http::Purpose::keys,
                                .body = form_of({{"Action", "AssumeRoleWithWebIdentity"},
                                                 {"Version", "2011-06-15"},
                                                 {"RoleArn", settings_.role},
                                                 {"RoleSessionName", settings_.session_name},
                                                 {"WebIdentityToken", token}}),
                                .certificates = settings_.service.certificates};
    return ask(client, request, stop).map_error(name_it);
  }

  const WebIdentity settings_;
};

class AssumedRoleKeys final : public s3::KeySource {
 public:
  explicit AssumedRoleKeys(AssumedRole settings) : settings_(std::move(settings)) {}

  Result<s3::TimedKeys> obtain(http::Client& client, const std::stop_token& stop) const override {
    std::optional<s3::Keys> keys = settings_.keys;
    if (!keys) keys = TRY(settings_.source->obtain(client, stop)).keys;
    if (!keys)
      return failure(Code::forbidden, fmt::format("{}: {} has no keys for it", name(), settings_.source->name()));
    // The parameters are sorted, as the signature needs them.
    Parameters parameters = {{"Action", "AssumeRole"}};
    if (!settings_.duration.empty()) parameters.emplace_back("DurationSeconds", settings_.duration);
    if (!settings_.external_id.empty()) parameters.emplace_back("ExternalId", settings_.external_id);
    parameters.emplace_back("RoleArn", settings_.role);
    parameters.emplace_back("RoleSessionName", settings_.session_name);
    parameters.emplace_back("Version", "2011-06-15");
    const std::string url = fmt::format("{}/?{}", settings_.service.url, form_of(parameters));
    const http::Request request{.url = url,
                                .credentials = std::make_shared<SecretHeaders>(signature_of(url, *keys)),
                                .purpose = http::Purpose::keys,
                                .certificates = settings_.service.certificates};
    const auto page = ask(client, request, stop).map_error([&](const Error& error) { return named(name(), error); });
    if (!page) return tl::unexpected(page.error());
    return keys_of_answer(name(), settings_.service.url, *page);
  }
  std::string name() const override { return "the role " + printable(settings_.role); }

 private:
  std::vector<std::string> signature_of(const std::string& url, const s3::Keys& keys) const {
    s3::SignedRequest request{"GET", url, {}, settings_.service.region, "sts"};
    request.headers["x-amz-date"] = s3::amz_date(std::time(nullptr));
    if (!keys.token.empty()) request.headers["x-amz-security-token"] = keys.token;
    std::vector<std::string> lines = {"Authorization: " + s3::authorization(request, keys)};
    for (const auto& [name, value] : request.headers) lines.push_back(fmt::format("{}: {}", name, value));
    return lines;
  }

  const AssumedRole settings_;
};

}  // namespace

s3::KeySourcePtr web_identity(WebIdentity settings) { return std::make_shared<WebIdentityKeys>(std::move(settings)); }
s3::KeySourcePtr assumed_role(AssumedRole settings) { return std::make_shared<AssumedRoleKeys>(std::move(settings)); }

}  // namespace weightfs::aws
