// The metadata service of EC2, version 2. (docs.aws.amazon.com, "Amazon EC2 User Guide": instance metadata service.)
#include <fmt/core.h>

#include <utility>

#include "base/text.h"
#include "protocols/aws/key_requests.h"
#include "protocols/aws/key_sources.h"

namespace weightfs::aws {
namespace {

constexpr size_t kMaxRole = 256;

class InstanceKeys final : public s3::KeySource {
 public:
  explicit InstanceKeys(Instance settings) : settings_(std::move(settings)) {}

  Result<s3::TimedKeys> obtain(http::Client& client, const std::stop_token& stop) const override {
    const std::string token = TRY(request_token(client, stop));
    const std::string folder = "/latest/meta-data/iam/security-credentials/";
    const download::Response roles = TRY(get(client, folder, token, stop));
    if (roles.head.status == 404) return s3::TimedKeys{};  // it has no role
    if (roles.head.status != 200) return refused(name(), settings_.url + folder, roles);
    const std::string role(trimmed(std::string_view(roles.body).substr(0, roles.body.find('\n'))));
    if (role.empty() || role.size() > kMaxRole)
      return failure(Code::forbidden, fmt::format("{}: not a name of a role: {}", name(), quoted(role)));
    const download::Response page = TRY(get(client, folder + http::url_encoded(role), token, stop));
    if (page.head.status != 200) return refused(name(), settings_.url + folder, page);
    const auto name_it = [&](const Error& error) { return named(name(), error); };
    const Map object = TRY(object_in(page.body).map_error(name_it));
    const std::string_view code = text_in(object, "Code");
    if (!code.empty() && code != "Success")
      return failure(Code::forbidden,
                     fmt::format("{}: {}: {}", name(), printable(code), printable(text_in(object, "Message"))));
    return keys_in(object).map_error(name_it);
  }
  std::string name() const override { return "instance metadata"; }
  bool is_optional() const override { return !settings_.is_named; }

 private:
  // Beyond the hop limit an answer is lost, so a container sees no other error than a timeout.
  Result<std::string> request_token(http::Client& client, const std::stop_token& stop) const {
    const http::Request request{.url = settings_.url + "/latest/api/token",
                                .method = http::Request::Method::put,
                                .headers = {"X-aws-ec2-metadata-token-ttl-seconds: 21600"},
                                .purpose = http::Purpose::metadata};
    const auto page = ask(client, request, stop);
    if (!page && is_timeout(page.error()))
      return failure(
          timeout(fmt::format("{}: {}; in a container, the hop limit of the instance's metadata must be 2 "
                              "or more (modify-instance-metadata-options --http-put-response-hop-limit 2)",
                              name(), page.error().message)));
    if (!page) return failure(named(name(), page.error()));
    if (page->head.status != 200) return refused(name(), request.url, *page);
    const std::string token(trimmed(page->body));
    if (token.empty() || !is_visible_ascii(token))
      return failure(Code::forbidden, fmt::format("{}: {}: not a token", name(), request.url));
    return token;
  }

  Result<download::Response> get(http::Client& client, const std::string& path, const std::string& token,
                                 const std::stop_token& stop) const {
    const std::vector<std::string> secret = {"X-aws-ec2-metadata-token: " + token};
    const http::Request request{.url = settings_.url + path,
                                .credentials = std::make_shared<SecretHeaders>(secret),
                                .purpose = http::Purpose::metadata};
    return ask(client, request, stop).map_error([&](const Error& error) { return named(name(), error); });
  }

  Result<download::Response> ask(http::Client& client, http::Request request, const std::stop_token& stop) const {
    return ask_soon(client, std::move(request), {settings_.timeout, settings_.attempts}, stop);
  }

  const Instance settings_;
};

}  // namespace

s3::KeySourcePtr instance(Instance settings) { return std::make_shared<InstanceKeys>(std::move(settings)); }

}  // namespace weightfs::aws
