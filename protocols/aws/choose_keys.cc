#include "protocols/aws/choose_keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <utility>

#include "base/text.h"
#include "cache/url.h"
#include "protocols/aws/key_sources.h"

namespace weightfs::aws {
namespace {

constexpr const char* kSessionName = "weightfs";

bool is_true(const std::string& value) { return lower_case(value) == "true"; }

bool is_dns_label(std::string_view text) {
  constexpr size_t kMaxLabel = 63;
  return !text.empty() && text.size() <= kMaxLabel &&
         std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

std::string home_path(const char* below) {
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + below;
}

// The choice for one profile, and for those that its roles name.
class Chooser {
 public:
  explicit Chooser(const ChoiceOf& of) : of_(of) {}

  Result<ChosenKeys> choose();

 private:
  Result<TokenService> token_service() const;
  static std::optional<Result<ChosenKeys>> of_environment();
  Result<ChosenKeys> of_role(const Profile& profile);
  Result<ChosenKeys> keys_of_role(const Profile& profile);
  Result<ChosenKeys> of_named_source(const std::string& name);
  Result<ChosenKeys> of_source_profile(const Profile& profile, const std::string& name);
  Result<ChosenKeys> of_web_identity(const Profile& profile, bool with_environment) const;
  Result<ChosenKeys> of_single_sign_on(const Profile& profile) const;
  Result<std::optional<ChosenKeys>> of_profile(const Profile& profile, bool with_environment);
  Result<ChosenKeys> of_container() const;
  static Result<ChosenKeys> of_instance(bool is_named);

  const ChoiceOf& of_;
  std::set<std::string> seen_;  // profiles whose roles are being chosen
};

tl::unexpected<Error> wrong(const Profile& profile, const std::string& problem) {
  return failure(Code::unsupported, fmt::format("{}: {}", profile.shown(), problem));
}

bool has_container() {
  return !environment({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"}).empty();
}

bool has_role(const Profile& profile) { return profile.has("role_arn") && !profile.has("web_identity_token_file"); }

bool has_instance() {
  if (is_true(environment("AWS_EC2_METADATA_DISABLED"))) return false;
  const bool is_asked =
      !environment({"AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"}).empty();
  return is_asked || is_instance_of_ec2();
}

// Why a profile without keys has none.
std::string unused_settings(const Profile& profile) {
  const std::string uses = profile.shown() + " uses ";
  if (profile.has("credential_process"))
    return uses +
           "credential_process, but weightfs runs no programs; write what it prints to a file for "
           "--credentials-file";
  if (profile.has("login_session"))
    return uses +
           "login_session (aws login), which is not supported; use aws configure export-credentials "
           "--format process with --credentials-file";
  if (profile.has("sso_session") || profile.has("sso_start_url"))
    return uses + "single sign-on without sso_account_id and sso_role_name";
  return {};
}

Result<TokenService> Chooser::token_service() const {
  const std::string region = first_of({of_.region, "us-east-1"});
  const bool is_fips = is_true(first_of({environment("AWS_USE_FIPS_ENDPOINT"), of_.profile.get("use_fips_endpoint")}));
  return TokenService{TRY(service_url("AWS_ENDPOINT_URL_STS", is_fips ? "sts-fips" : "sts", region)), region,
                      of_.profile.certificates()};
}

std::optional<Result<ChosenKeys>> Chooser::of_environment() {
  auto keys =
      keys_of(environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"), environment("AWS_SESSION_TOKEN"));
  if (!keys) return std::nullopt;
  if (const auto checked = check_keys(*keys); !checked) return failure(checked.error());
  return ChosenKeys{.keys = std::move(keys), .from = "$AWS_ACCESS_KEY_ID"};
}

Result<ChosenKeys> Chooser::of_role(const Profile& profile) {
  if (profile.has("mfa_serial")) return wrong(profile, "mfa_serial needs a prompt, which is not supported");
  const ChosenKeys by = TRY(keys_of_role(profile));
  AssumedRole role{.service = TRY(token_service()),
                   .role = profile.get("role_arn"),
                   .session_name = first_of({profile.get("role_session_name"), kSessionName})};
  role.external_id = profile.get("external_id");
  role.duration = profile.get("duration_seconds");
  if (!role.duration.empty() && !parse_number<unsigned>(role.duration))
    return wrong(profile, fmt::format("duration_seconds is not a number: {}", quoted(role.duration)));
  role.keys = by.keys;
  role.source = by.source;
  if (!role.keys && role.source == nullptr)
    return wrong(profile, fmt::format("no keys for its role{}{}", by.note.empty() ? "" : "; ", by.note));
  return ChosenKeys{.source = assumed_role(std::move(role)), .files = by.files};
}

Result<ChosenKeys> Chooser::keys_of_role(const Profile& profile) {
  const std::string by_profile = profile.get("source_profile"), by_name = profile.get("credential_source");
  if (by_profile.empty() == by_name.empty())
    return wrong(profile, "role_arn needs either source_profile or credential_source");
  if (!seen_.insert(profile.name).second) return wrong(profile, "its source_profile leads back to it");
  return by_name.empty() ? of_source_profile(profile, by_profile) : of_named_source(by_name);
}

Result<ChosenKeys> Chooser::of_named_source(const std::string& name) {
  if (name == "EcsContainer") return of_container();
  if (name == "Ec2InstanceMetadata") return of_instance(true);
  if (name != "Environment")
    return failure(Code::unsupported, fmt::format("credential_source is {}; use Environment, Ec2InstanceMetadata or "
                                                  "EcsContainer",
                                                  quoted(name)));
  if (auto found = of_environment()) return std::move(*found);
  return failure(Code::unsupported, "credential_source is Environment, but AWS_ACCESS_KEY_ID is not set");
}

// A profile may name itself if it has keys, too.
Result<ChosenKeys> Chooser::of_source_profile(const Profile& profile, const std::string& name) {
  const Profile source = of_.files.profile(name);
  if (!source.is_found) return wrong(profile, fmt::format("its source_profile {} was not found", quoted(name)));
  if (const auto keys = source.keys(); keys && (name == profile.name || !has_role(source))) {
    TRY_VOID(check_keys(*keys));
    return ChosenKeys{.keys = keys};
  }
  auto found = TRY(of_profile(source, false));
  return found ? std::move(*found) : ChosenKeys{.note = unused_settings(source)};
}

Result<ChosenKeys> Chooser::of_web_identity(const Profile& profile, bool with_environment) const {
  const auto setting = [&](const char* variable, const char* name) {
    return first_of({with_environment ? environment(variable) : "", profile.get(name)});
  };
  WebIdentity identity{.service = TRY(token_service()),
                       .token_file = setting("AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file"),
                       .role = setting("AWS_ROLE_ARN", "role_arn"),
                       .session_name = setting("AWS_ROLE_SESSION_NAME", "role_session_name")};
  if (identity.role.empty())
    return failure(Code::unsupported, "web identity: AWS_WEB_IDENTITY_TOKEN_FILE without AWS_ROLE_ARN");
  if (identity.session_name.empty()) identity.session_name = kSessionName;
  const std::string file = identity.token_file;
  return ChosenKeys{.source = web_identity(std::move(identity)), .files = {file}};
}

// A setting of the profile and of its session must be equal.
Result<ChosenKeys> Chooser::of_single_sign_on(const Profile& profile) const {
  const std::string session = profile.get("sso_session");
  const Section* const section = session.empty() ? nullptr : of_.files.sso_session(session);
  if (!session.empty() && section == nullptr)
    return wrong(profile, fmt::format("its sso_session {} was not found", quoted(session)));
  const auto setting = [&](const char* name) -> Result<std::string> {
    const std::string own = profile.get(name);
    const auto found = section == nullptr ? Section::const_iterator() : section->find(name);
    const std::string shared = section == nullptr || found == section->end() ? "" : found->second;
    if (!own.empty() && !shared.empty() && own != shared)
      return wrong(profile, fmt::format("another {} than its sso_session", name));
    const std::string value = first_of({shared, own});
    if (value.empty()) return wrong(profile, fmt::format("single sign-on without {}", name));
    return value;
  };
  const std::string start = TRY(setting("sso_start_url"));
  const std::string region = TRY(setting("sso_region"));
  SingleSignOn sign_on{.url = TRY(service_url("AWS_ENDPOINT_URL_SSO", "portal.sso", region)),
                       .token_file = {},
                       .account = profile.get("sso_account_id"),
                       .role = profile.get("sso_role_name"),
                       .profile = profile.name,
                       .certificates = of_.profile.certificates()};
  if (sign_on.account.empty() || sign_on.role.empty())
    return wrong(profile, "single sign-on needs sso_account_id and sso_role_name");
  sign_on.token_file = home_path("/.aws/sso/cache/") + sso_token_file(session.empty() ? start : session);
  const std::string file = sign_on.token_file;
  return ChosenKeys{.source = single_sign_on(std::move(sign_on)), .files = {file}};
}

Result<ChosenKeys> Chooser::of_container() const {
  Container settings;
  const std::string relative = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  settings.url =
      relative.empty() ? environment("AWS_CONTAINER_CREDENTIALS_FULL_URI") : "http://169.254.170.2" + relative;
  if (!relative.empty() && !relative.starts_with('/'))
    return failure(Code::unsupported, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does not begin with /");
  if (settings.url.empty())
    return failure(Code::unsupported,
                   "credential_source is EcsContainer, but AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is not set");
  if (!may_give_keys(settings.url))
    return failure(Code::unsupported,
                   fmt::format("AWS_CONTAINER_CREDENTIALS_FULL_URI={}: refused; it must be https://, or http:// to a "
                               "loopback address or an address of AWS",
                               http::printable_url(settings.url)));
  settings.token_file = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  settings.token = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  settings.certificates = of_.profile.certificates();
  ChosenKeys chosen;
  if (!settings.token_file.empty()) chosen.files.push_back(settings.token_file);
  chosen.source = container(std::move(settings));
  return chosen;
}

Result<ChosenKeys> Chooser::of_instance(bool is_named) {
  Instance settings{.is_named = is_named};
  if (lower_case(environment("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE")) == "ipv6")
    settings.url = "http://[fd00:ec2::254]";
  settings.url = first_of({environment("AWS_EC2_METADATA_SERVICE_ENDPOINT"), settings.url});
  while (settings.url.ends_with('/')) settings.url.pop_back();
  if (!may_give_keys(settings.url))
    return failure(Code::unsupported,
                   fmt::format("AWS_EC2_METADATA_SERVICE_ENDPOINT={}: refused; it must be https://, or http:// to a "
                               "loopback address or an address of AWS",
                               http::printable_url(settings.url)));
  constexpr unsigned kMostSeconds = 60;
  constexpr unsigned kMostAttempts = 10;
  if (const auto most = parse_number<unsigned>(environment("AWS_METADATA_SERVICE_TIMEOUT")); most && *most > 0)
    settings.timeout = std::chrono::seconds(std::min(*most, kMostSeconds));
  if (const auto most = parse_number<unsigned>(environment("AWS_METADATA_SERVICE_NUM_ATTEMPTS")); most && *most > 0)
    settings.attempts = static_cast<int>(std::min(*most, kMostAttempts));
  return ChosenKeys{.source = instance(std::move(settings))};
}

// Nothing if the profile has neither keys nor a source.
Result<std::optional<ChosenKeys>> Chooser::of_profile(const Profile& profile, bool with_environment) {
  if (has_role(profile)) return TRY(of_role(profile));
  const bool has_token = with_environment && !environment("AWS_WEB_IDENTITY_TOKEN_FILE").empty();
  if (has_token || profile.has("web_identity_token_file")) return TRY(of_web_identity(profile, with_environment));
  if (profile.has("sso_account_id") || profile.has("sso_role_name")) return TRY(of_single_sign_on(profile));
  auto keys = profile.keys();
  if (!keys) return std::nullopt;
  TRY_VOID(check_keys(*keys));
  const bool has_credentials = profile.credentials.contains("aws_access_key_id");
  return ChosenKeys{.keys = std::move(keys),
                    .from = has_credentials ? ProfileFiles::credentials_path() : ProfileFiles::config_path()};
}

Result<ChosenKeys> Chooser::choose() {
  if (!of_.credentials_file.empty())
    return ChosenKeys{.source = credentials_file(of_.credentials_file), .files = {of_.credentials_file}};
  if (auto found = of_environment()) return std::move(*found);
  if (auto found = TRY(of_profile(of_.profile, true))) return std::move(*found);
  if (!of_.profile.is_found && of_.is_profile_required)
    return failure(Code::unsupported, fmt::format("AWS profile {} not found", quoted(of_.profile.name)));
  if (std::string note = unused_settings(of_.profile); !note.empty()) return ChosenKeys{.note = std::move(note)};
  if (has_container()) return of_container();
  if (has_instance()) return of_instance(false);
  return ChosenKeys{};
}

}  // namespace

Result<std::string> service_url(const char* variable, const std::string& host, const std::string& region,
                                const std::string& domain) {
  const bool is_ignored = is_true(environment("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"));
  std::string url = is_ignored ? "" : environment(variable);
  while (url.ends_with('/')) url.pop_back();
  if (!url.empty()) {
    if (http::origin_of(url).empty() || url.find_first_of("?#@") != url.npos)
      return failure(Code::unsupported, fmt::format("{}={}: not a valid URL", variable, http::printable_url(url)));
    return url;
  }
  if (!is_dns_label(region))
    return failure(Code::unsupported, fmt::format("not a valid AWS region: {}", quoted(region)));
  const std::string usual = region.starts_with("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  return fmt::format("https://{}.{}.{}", host, region, domain.empty() ? usual : domain);
}

Result<ChosenKeys> choose_keys(const ChoiceOf& of) { return Chooser(of).choose(); }

bool is_vendor_of_ec2(const std::string& file) {
  std::array<char, 16> text{};
  std::ifstream(file, std::ios::binary).read(text.data(), text.size());
  return std::string_view(text.data(), text.size()).starts_with("Amazon EC2");
}

bool is_instance_of_ec2() {
  static const bool is_one = is_vendor_of_ec2("/sys/class/dmi/id/sys_vendor");
  return is_one;
}

}  // namespace weightfs::aws
