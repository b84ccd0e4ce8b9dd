// The user's keys, region and endpoint, from the environment and from the files of the AWS command line.
// (docs.aws.amazon.com, "AWS SDKs and Tools Reference Guide": configuration and credential file settings.)
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "base/files/file_source.h"
#include "base/source.h"
#include "base/text.h"
#include "protocols/s3.h"

namespace weightfs::s3 {
namespace {

constexpr uint64_t kMaxFile = 1024 * 1024;

std::string first_of(std::initializer_list<std::string> values) {
  const auto* const found = std::ranges::find_if(values, [](const std::string& value) { return !value.empty(); });
  return found == values.end() ? "" : *found;
}

// The value of the first variable that is set, and its name; else another value, and where it is from.
std::pair<std::string, std::string> first_set(std::initializer_list<const char*> variables, std::string otherwise,
                                              const std::string& otherwise_from) {
  for (const char* const name : variables)
    if (std::string value = environment(name); !value.empty()) return {std::move(value), name};
  return {std::move(otherwise), otherwise_from};
}

// The settings of a file by section: "default", "profile x", "services y". A setting below another one, which is
// indented, is called "s3.endpoint_url".
using Section = std::map<std::string, std::string, std::less<>>;
using Sections = std::map<std::string, Section, std::less<>>;

Sections parse_sections(std::string_view text) {
  Sections sections;
  Section* section = nullptr;
  std::string outer;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::string_view content = trimmed(line);
    if (content.empty() || content.starts_with('#') || content.starts_with(';')) continue;
    if (content.starts_with('[')) {
      section = &sections[std::string(trimmed(content.substr(1, content.find(']') - 1)))];
      outer.clear();
      continue;
    }
    const size_t equals = content.find('=');
    if (section == nullptr || equals == content.npos) continue;
    const std::string name = lower_case(trimmed(content.substr(0, equals)));
    std::string_view value = trimmed(content.substr(equals + 1));
    for (const std::string_view comment : {" #", " ;"}) value = trimmed(value.substr(0, value.find(comment)));
    const bool is_inner = line.starts_with(' ') || line.starts_with('\t');
    if (!is_inner) outer = value.empty() ? name : "";
    (*section)[is_inner && !outer.empty() ? fmt::format("{}.{}", outer, name) : name] = value;
  }
  return sections;
}

Result<Sections> read_sections(const std::string& path) {
  if (path.empty()) return Sections{};
  const auto file = open_file(path);
  if (!file && file.error().code == Code::not_found) return Sections{};
  if (!file) return tl::unexpected(file.error());
  if ((*file)->size() > kMaxFile)
    return failure(Code::unsupported, fmt::format("{}: larger than {}", printable(path), human_size(kMaxFile)));
  return parse_sections(TRY(read_text(**file, 0, (*file)->size())));
}

std::string file_path(const char* variable, const char* below_home) {
  const std::string home = environment("HOME");
  return first_of({environment(variable), home.empty() ? "" : home + below_home});
}

// A profile: its settings in both files.
struct Profile {
  std::string name;
  Section credentials;
  Section config;
  Section services;
  bool is_found = false;

  std::string get(std::string_view setting) const {
    for (const Section* section : {&credentials, &config})
      if (const auto found = section->find(setting); found != section->end() && !found->second.empty())
        return found->second;
    return {};
  }
};

Result<Profile> read_profile() {
  Profile profile;
  profile.name = first_of({environment({"AWS_PROFILE", "AWS_DEFAULT_PROFILE"}), "default"});
  const Sections credentials = TRY(read_sections(file_path("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials")));
  const Sections config = TRY(read_sections(file_path("AWS_CONFIG_FILE", "/.aws/config")));
  const auto take = [&](const Sections& sections, const std::string& section, Section& into) {
    const auto found = sections.find(section);
    if (found == sections.end()) return;
    into = found->second;
    profile.is_found = true;
  };
  take(credentials, profile.name, profile.credentials);
  if (profile.name == "default") take(config, "default", profile.config);
  take(config, "profile " + profile.name, profile.config);
  if (const std::string services = profile.get("services"); !services.empty())
    take(config, "services " + services, profile.services);
  return profile;
}

std::optional<Keys> keys_of(std::string id, std::string secret, std::string token) {
  if (id.empty() && secret.empty()) return std::nullopt;
  return Keys{std::move(id), std::move(secret), std::move(token)};
}

Result<void> check_keys(const std::optional<Keys>& keys) {
  if (!keys) return {};
  if (keys->id.empty() || keys->secret.empty())
    return failure(Code::unsupported, "incomplete AWS credentials: an access key has an id and a secret");
  if (!is_visible_ascii(keys->id) || !is_visible_ascii(keys->secret) || !is_visible_ascii(keys->token))
    return failure(Code::unsupported, "AWS credentials with spaces or control characters");
  return {};
}

// Why a profile without keys has none.
std::string unused_settings(const Profile& profile) {
  constexpr std::array kUnsupported = {"credential_process", "sso_session",       "sso_start_url",
                                       "role_arn",           "credential_source", "web_identity_token_file"};
  for (const char* const name : kUnsupported)
    if (!profile.get(name).empty())
      return fmt::format("the profile {} uses {}, which is not supported", quoted(profile.name), name);
  return {};
}

}  // namespace

Result<Settings> Settings::of_user() {
  const Profile profile = TRY(read_profile());
  Settings settings;
  settings.keys =
      keys_of(environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"), environment("AWS_SESSION_TOKEN"));
  const std::string required = environment({"AWS_PROFILE", "AWS_DEFAULT_PROFILE"});
  if (!profile.is_found && !settings.keys && !required.empty())
    return failure(Code::unsupported, fmt::format("AWS profile {} not found", quoted(required)));
  if (!settings.keys)
    settings.keys = keys_of(profile.get("aws_access_key_id"), profile.get("aws_secret_access_key"),
                            profile.get("aws_session_token"));
  TRY_VOID(check_keys(settings.keys));
  if (!settings.keys) settings.note = unused_settings(profile);
  const std::string of_profile = fmt::format("the profile {}", quoted(profile.name));
  std::tie(settings.region, settings.region_from) =
      first_set({"AWS_REGION", "AWS_DEFAULT_REGION"}, profile.get("region"), of_profile);
  const auto service = profile.services.find("s3.endpoint_url");
  const std::string of_service = service == profile.services.end() ? "" : service->second;
  std::tie(settings.endpoint, settings.endpoint_from) = first_set(
      {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, first_of({of_service, profile.get("endpoint_url")}), of_profile);
  return settings;
}

}  // namespace weightfs::s3
