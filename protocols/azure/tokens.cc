#include "protocols/azure/tokens.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include "base/text.h"
#include "cache/url.h"
#include "protocols/aws/key_requests.h"

namespace weightfs::azure {
namespace {

using Clock = std::chrono::system_clock;

// A number, or the text of one.
std::optional<int64_t> seconds_in(const Map& object, const char* name) {
  constexpr int64_t kMost = 7'289'654'400;  // the end of the year 2200, as a time
  const Value* const value = object.find(name);
  std::optional<int64_t> found;
  if (value == nullptr) return found;
  if (const auto* const text = std::get_if<std::string>(value)) found = parse_number<int64_t>(*text);
  if (const auto* const number = std::get_if<int64_t>(value)) found = *number;
  if (const auto* const number = std::get_if<uint64_t>(value))
    found = static_cast<int64_t>(std::min<uint64_t>(*number, INT64_MAX));
  if (found && (*found < 0 || *found > kMost)) found.reset();
  return found;
}

// {"access_token", "expires_in"}, or "expires_on", a time.
Result<s3::TimedKeys> token_in(std::string body) {
  const Map object = TRY(aws::object_in(std::move(body)));
  s3::TimedKeys found;
  found.keys = s3::Keys{"", "", std::string(text_in(object, "access_token"))};
  if (found.keys->token.empty() || !is_visible_ascii(found.keys->token))
    return failure(Code::forbidden, "the answer has no valid access_token");
  if (const auto end = seconds_in(object, "expires_on"))
    found.expiry = Clock::time_point(std::chrono::seconds(*end));
  else if (const auto life = seconds_in(object, "expires_in"))
    found.expiry = Clock::now() + std::chrono::seconds(*life);
  else
    return failure(Code::forbidden, "the answer has no valid expires_in");
  return found;
}

class ApplicationTokens final : public s3::KeySource {
 public:
  explicit ApplicationTokens(Application settings) : settings_(std::move(settings)) {}

  Result<s3::TimedKeys> obtain(http::Client& client, const std::stop_token& stop) const override {
    const auto name_it = [&](const Error& error) { return aws::named(name(), error); };
    std::string body =
        fmt::format("grant_type=client_credentials&client_id={}&scope={}", http::url_encoded(settings_.client),
                    http::url_encoded(settings_.resource + "/.default"));
    if (settings_.token_file.empty()) {
      body += "&client_secret=" + http::url_encoded(settings_.secret);
    } else {
      const std::string token = TRY(aws::read_small_file(settings_.token_file).map_error(name_it));
      body += "&client_assertion_type=" + http::url_encoded("urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
      body += "&client_assertion=" + http::url_encoded(token);
    }
    const http::Request request{
        .url = fmt::format("{}/{}/oauth2/v2.0/token", settings_.authority, http::url_encoded(settings_.tenant)),
        .method = http::Request::Method::post,
        .headers = {"Accept: application/json"},
        .purpose = http::Purpose::keys,
        .body = std::move(body)};
    const download::Response page = TRY(aws::ask(client, request, stop).map_error(name_it));
    if (page.head.status != 200) return aws::refused(name(), request.url, page);
    return token_in(page.body).map_error(name_it);
  }
  std::string name() const override { return settings_.token_file.empty() ? "client secret" : "workload identity"; }

 private:
  const Application settings_;
};

class MachineTokens final : public s3::KeySource {
 public:
  explicit MachineTokens(ManagedIdentity settings) : settings_(std::move(settings)) {}

  Result<s3::TimedKeys> obtain(http::Client& client, const std::stop_token& stop) const override {
    const auto name_it = [&](const Error& error) { return aws::named(name(), error); };
    const download::Response page = TRY(ask_patiently(client, stop).map_error(name_it));
    if (page.head.status == 400 && is_optional()) return s3::TimedKeys{};  // it has no identity
    if (page.head.status != 200) {
      if (http::is_temporary(page.head.status))
        return failure(Code::network, fmt::format("{}: status {}", name(), page.head.status));
      return aws::refused(name(), settings_.url, page);
    }
    return token_in(page.body).map_error(name_it);
  }
  std::string name() const override { return "managed identity"; }
  bool is_optional() const override { return !settings_.is_named; }

 private:
  http::Request request() const {
    const bool is_metadata = settings_.secret.empty();
    http::Request asked{
        .url = fmt::format("{}?api-version={}&resource={}", settings_.url, is_metadata ? "2018-02-01" : "2019-08-01",
                           http::url_encoded(settings_.resource)),
        .headers = {"Metadata: true"},
        .purpose = http::Purpose::metadata};
    if (!settings_.client.empty()) asked.url += "&client_id=" + http::url_encoded(settings_.client);
    if (is_metadata) return asked;
    const std::vector<std::string> secret = {"X-IDENTITY-HEADER: " + settings_.secret};
    asked.credentials = std::make_shared<aws::SecretHeaders>(secret);
    return asked;
  }

  // The service answers 404 and 410 while it starts. (azure-identity, imdsRetryPolicy.ts.) One that does not respond is
  // not asked again: a machine without it never has an answer.
  Result<download::Response> ask_patiently(http::Client& client, const std::stop_token& stop) const {
    constexpr int kAttempts = 5;
    constexpr std::chrono::seconds kTimeout{3};
    std::chrono::milliseconds pause = settings_.pause;
    for (int attempt = 1;; ++attempt, pause *= 2) {
      http::Request asked = request();
      asked.deadline = std::chrono::steady_clock::now() + kTimeout;
      auto page = download::send_request(client, asked, aws::kMaxAnswer, stop);
      if (!page || attempt == kAttempts) return page;
      const int status = page->head.status;
      if (status != 404 && status != 410 && !http::is_temporary(status)) return page;
      if (!aws::pause_for(pause, stop)) return page;
    }
  }

  const ManagedIdentity settings_;
};

}  // namespace

s3::KeySourcePtr application(Application settings) { return std::make_shared<ApplicationTokens>(std::move(settings)); }

s3::KeySourcePtr managed_identity(ManagedIdentity settings) {
  return std::make_shared<MachineTokens>(std::move(settings));
}

// (cloud-init, cloudinit/sources/azure/identity.py: ChassisAssetTag.AZURE_CLOUD.)
bool is_tag_of_azure(const std::string& file) {
  constexpr std::string_view kTag = "7783-7084-3265-9085-8269-3286-77";
  std::array<char, kTag.size()> text{};
  std::ifstream(file, std::ios::binary).read(text.data(), text.size());
  return std::string_view(text.data(), text.size()) == kTag;
}

bool is_machine_of_azure() {
  static const bool is_one = is_tag_of_azure("/sys/class/dmi/id/chassis_asset_tag");
  return is_one;
}

}  // namespace weightfs::azure
