#include "protocols/registry/cloud_logins.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <utility>

#include "base/digest.h"
#include "base/text.h"
#include "base/values/base64.h"
#include "cache/address_policy.h"
#include "protocols/aws/choose_keys.h"
#include "protocols/aws/key_requests.h"
#include "protocols/registry/token.h"
#include "protocols/s3/signature.h"

namespace weightfs::registry {
namespace {

using s3::UserKeys;

constexpr const char* kPublicAmazon = "public.ecr.aws";
constexpr const char* kPublicDualStack = "ecr-public.aws.com";
constexpr size_t kMaxReason = 300;

bool is_host_label(std::string_view text) {
  constexpr size_t kMaxLabel = 63;
  return !text.empty() && text.size() <= kMaxLabel &&
         std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

// The one label before a domain; empty if it is another name.
std::string_view label_before(std::string_view host, std::string_view domain) {
  if (!host.ends_with(domain)) return {};
  host.remove_suffix(domain.size());
  return is_host_label(host) ? host : std::string_view();
}

// The names of registries of an account, and of the API for them: what is before and after the region.
struct AmazonNames {
  std::string_view before;
  std::string_view after;
  std::string_view api_before;
  std::string_view api_after;
  bool is_china = false;
};

constexpr std::array<AmazonNames, 6> kAmazonNames{{
    {".dkr.ecr.", ".amazonaws.com", "api.ecr", "amazonaws.com", false},
    {".dkr.ecr-fips.", ".amazonaws.com", "ecr-fips", "amazonaws.com", false},
    {".dkr.ecr.", ".amazonaws.com.cn", "api.ecr", "amazonaws.com.cn", true},
    {".dkr-ecr.", ".on.aws", "ecr", "api.aws", false},
    {".dkr-ecr-fips.", ".on.aws", "ecr-fips", "api.aws", false},
    {".dkr-ecr.", ".on.amazonwebservices.com.cn", "ecr", "api.amazonwebservices.com.cn", true},
}};

// One audience of tokens is for all clouds of Azure. (sigs.k8s.io/cloud-provider-azure, acr-credential-provider.)
bool is_azure_registry(std::string_view host) {
  return std::ranges::any_of(std::array{".azurecr.io", ".azurecr.us", ".azurecr.cn"},
                             [&](const char* domain) { return !label_before(host, domain).empty(); });
}

bool is_google_registry(std::string_view host) {
  constexpr std::string_view kArtifacts = "-docker";
  const std::string_view artifacts = label_before(host, ".pkg.dev");
  if (artifacts.size() > kArtifacts.size() && artifacts.ends_with(kArtifacts)) return true;
  return host == "gcr.io" || !label_before(host, ".gcr.io").empty();
}

const char* name_of_cloud(Cloud cloud) {
  return cloud == Cloud::amazon ? "AWS" : cloud == Cloud::google ? "Google" : "Azure";
}

// The host of an origin with https and its usual port; empty for others.
std::string_view https_host(std::string_view origin) {
  constexpr std::string_view kHttps = "https://", kPort = ":443";
  if (!origin.starts_with(kHttps) || !origin.ends_with(kPort)) return {};
  return origin.substr(kHttps.size(), origin.size() - kHttps.size() - kPort.size());
}

// {"__type": "AccessDeniedException", "message": "…"}
std::string reason_of_amazon(const std::string& body) {
  const auto object = aws::object_in(body);
  if (!object) return {};
  std::string_view message = text_in(*object, "message");
  if (message.empty()) message = text_in(*object, "Message");
  std::string_view type = text_in(*object, "__type");
  type.remove_prefix(std::min(type.rfind('#') + 1, type.size()));
  std::string reason = message.empty() ? std::string(type) : fmt::format("{}: {}", type, message);
  if (reason.size() > kMaxReason) reason = reason.substr(0, kMaxReason) + "...";
  return printable(reason);
}

// Seconds since 1970, with a fraction.
std::optional<int64_t> seconds_in(const Value& value) {
  constexpr double kEndOfTimes = 7'289'654'400;  // the end of the year 2200
  double seconds = -1;
  if (const auto* const number = std::get_if<double>(&value)) seconds = *number;
  if (const auto* const number = std::get_if<int64_t>(&value)) seconds = static_cast<double>(*number);
  if (const auto* const number = std::get_if<uint64_t>(&value)) seconds = static_cast<double>(*number);
  if (!std::isfinite(seconds) || seconds < 0 || seconds >= kEndOfTimes) return std::nullopt;
  return static_cast<int64_t>(seconds);
}

// {"authorizationData": [{"authorizationToken": "base64 of AWS:password", "expiresAt": 1.7e9}]}; that of the public
// registry has no list. (Amazon ECR API Reference, AuthorizationData.)
Result<FoundLogin> login_in(const Map& answer) {
  const Map* entry = answer.find_as<Map>("authorizationData");
  if (const auto* const list = answer.find_as<List>("authorizationData"); list != nullptr && !list->empty())
    entry = std::get_if<Map>(&list->front());
  const auto both = entry == nullptr ? std::nullopt : from_base64(text_in(*entry, "authorizationToken"));
  const size_t colon = both ? both->find(':') : std::string::npos;
  if (colon == std::string::npos || colon == 0 || colon + 1 == both->size())
    return failure(Code::forbidden, "the answer has no login");
  FoundLogin found{.login = Login{both->substr(0, colon), both->substr(colon + 1)}};
  const Value* const expiry = entry->find("expiresAt");
  if (expiry == nullptr) return found;
  found.expiry = seconds_in(*expiry);
  if (!found.expiry) return failure(Code::forbidden, "expiresAt is not a valid time");
  return found;
}

http::Request login_request(const AmazonRegistry& registry, const std::string& url, const UserKeys::Current& current) {
  constexpr const char* kType = "application/x-amz-json-1.1";
  constexpr const char* kBody = "{}";
  s3::SignedRequest request{"POST", url, {}, registry.region, registry.service};
  request.headers = {{"x-amz-content-sha256", sha256(kBody).hex()}, {"x-amz-date", s3::amz_date(std::time(nullptr))}};
  if (!current.keys->token.empty()) request.headers["x-amz-security-token"] = current.keys->token;
  std::vector<std::string> secret;
  for (const auto& [name, value] : request.headers) secret.push_back(fmt::format("{}: {}", name, value));
  request.headers["content-type"] = kType;
  request.headers["x-amz-target"] = registry.target;
  secret.push_back("Authorization: " + s3::authorization(request, *current.keys));
  return {.url = url,
          .method = http::Request::Method::post,
          .headers = {fmt::format("Content-Type: {}", kType), "X-Amz-Target: " + registry.target},
          .credentials = std::make_shared<aws::SecretHeaders>(std::move(secret)),
          .purpose = http::Purpose::keys,
          .body = kBody,
          .certificates = current.certificates};
}

Result<FoundLogin> login_of_amazon(const AmazonRegistry& registry, const UserKeys::Current& current,
                                   http::Client& client, const std::stop_token& stop) {
  const std::string name = "login of " + registry.service;
  const auto name_it = [&](const Error& error) { return aws::named(name, error); };
  const std::string url =
      TRY(aws::service_url(registry.variable, registry.host, registry.region, registry.domain)) + "/";
  if (!is_confidential(http::origin_of(url)))
    return failure(Code::forbidden, fmt::format("{}={}: refused; it must be https://, or http:// to a loopback address",
                                                registry.variable, http::printable_url(url)));
  const download::Response page = TRY(aws::ask(client, login_request(registry, url, current), stop).map_error(name_it));
  if (page.head.status != 200) return aws::refused(name, url, page, reason_of_amazon(page.body));
  const Map answer = TRY(aws::object_in(page.body).map_error(name_it));
  return login_in(answer).map_error(name_it);
}

// The refresh token of the registry, which its token server exchanges.
Result<FoundLogin> login_of_azure(const std::string& host, const s3::Keys& keys, http::Client& client,
                                  const std::stop_token& stop) {
  const std::string name = "login of Azure";
  const auto name_it = [&](const Error& error) { return aws::named(name, error); };
  const std::string url = fmt::format("https://{}/oauth2/exchange", host);
  std::vector<std::pair<std::string, std::string>> form = {
      {"access_token", keys.token}, {"grant_type", "access_token"}, {"service", host}};
  if (std::string tenant = environment("AZURE_TENANT_ID"); !tenant.empty())
    form.emplace_back("tenant", std::move(tenant));
  const http::Request request{.url = url,
                              .method = http::Request::Method::post,
                              .headers = {"Accept: application/json"},
                              .purpose = http::Purpose::keys,
                              .body = query_of(std::move(form))};
  const download::Response page = TRY(aws::ask(client, request, stop).map_error(name_it));
  if (page.head.status != 200) return aws::refused(name, url, page);
  const Map answer = TRY(aws::object_in(page.body).map_error(name_it));
  const std::string_view token = text_in(answer, "refresh_token");
  if (token.empty() || !is_visible_ascii(token))
    return failure(Code::forbidden, fmt::format("{}: {}: the answer has no refresh_token", name, url));
  return FoundLogin{.login = Login{{}, {}, std::string(token)}};
}

Result<FoundLogin> login_with(const UserKeys::Current& current, Cloud cloud, const std::string& host,
                              http::Client& client, const std::stop_token& stop) {
  if (cloud == Cloud::amazon) return login_of_amazon(*amazon_registry(host), current, client, stop);
  if (cloud == Cloud::azure) return login_of_azure(host, *current.keys, client, stop);
  FoundLogin found{.login = Login{"oauth2accesstoken", current.keys->token}};
  if (current.expiry)
    found.expiry = std::chrono::floor<std::chrono::seconds>(*current.expiry).time_since_epoch().count();
  return found;
}

// Keys that the cloud refuses may have been replaced.
Result<FoundLogin> login_of_cloud(UserKeys& keys, Cloud cloud, const std::string& host, const http::ClientPtr& client,
                                  const std::stop_token& stop) {
  UserKeys::Current current = TRY(keys.get(client, UserKeys::Clock::now(), stop));
  if (!current.keys)
    return FoundLogin{.reason = current.note.empty()
                                    ? fmt::format("there are no keys of {} for it", name_of_cloud(cloud))
                                    : current.note};
  auto found = login_with(current, cloud, host, *client, stop);
  if (!found && found.error().code == Code::forbidden &&
      keys.renew(current.generation, UserKeys::Clock::now(), client, stop)) {
    current = keys.current();
    if (current.keys) found = login_with(current, cloud, host, *client, stop);
  }
  if (found) found->file = current.origin.from;
  return found;
}

}  // namespace

std::optional<AmazonRegistry> amazon_registry(std::string_view host) {
  constexpr size_t kAccount = 12;  // digits
  if (host == kPublicAmazon || host == kPublicDualStack) {
    const bool is_plain = host == kPublicAmazon;
    return AmazonRegistry{
        "us-east-1",  is_plain ? "api.ecr-public" : "ecr-public",     is_plain ? "amazonaws.com" : "api.aws",
        "ecr-public", "SpencerFrontendService.GetAuthorizationToken", "AWS_ENDPOINT_URL_ECR_PUBLIC"};
  }
  const bool is_account = host.size() > kAccount &&
                          std::ranges::all_of(host.substr(0, kAccount), [](char c) { return c >= '0' && c <= '9'; });
  if (!is_account) return std::nullopt;
  host.remove_prefix(kAccount);
  for (const AmazonNames& names : kAmazonNames) {
    if (!host.starts_with(names.before)) continue;
    const std::string_view region = label_before(host.substr(names.before.size()), names.after);
    if (region.empty() || region.starts_with("cn-") != names.is_china) continue;
    return AmazonRegistry{std::string(region),
                          std::string(names.api_before),
                          std::string(names.api_after),
                          "ecr",
                          "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken",
                          "AWS_ENDPOINT_URL_ECR"};
  }
  return std::nullopt;
}

Result<FoundLogin> CloudLogins::find(const std::string& registry, const std::string& token_server,
                                     const http::ClientPtr& client, const std::stop_token& stop) const {
  const Cloud cloud = cloud_of(registry);
  const bool is_named = std::ranges::find(origins_, registry) != origins_.end();
  const bool is_shared = cloud == Cloud::google && cloud_of(token_server) == Cloud::google;
  if (cloud == Cloud::none || !is_named || client == nullptr || (registry != token_server && !is_shared))
    return FoundLogin{};
  UserKeys& keys = cloud == Cloud::amazon ? *keys_.amazon : cloud == Cloud::google ? *keys_.google : *keys_.azure;
  auto found = login_of_cloud(keys, cloud, std::string(https_host(registry)), client, stop);
  if (found) return found;
  // The request is not repeated for this: each repetition would repeat the requests for keys, too.
  if (is_about_the_network(found.error())) return failure(given_up(found.error()));
  return FoundLogin{.reason = found.error().message};
}

}  // namespace weightfs::registry

namespace weightfs {

Cloud cloud_of(std::string_view origin) {
  const std::string_view host = registry::https_host(origin);
  if (registry::amazon_registry(host)) return Cloud::amazon;
  if (registry::is_google_registry(host)) return Cloud::google;
  return registry::is_azure_registry(host) ? Cloud::azure : Cloud::none;
}

}  // namespace weightfs
