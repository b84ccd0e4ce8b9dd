#include "protocols/aws/profile.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/files/file_source.h"
#include "base/source.h"
#include "base/text.h"

namespace weightfs::aws {
namespace {

constexpr uint64_t kMaxFile = 1024 * 1024;

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

}  // namespace

std::string first_of(std::initializer_list<std::string> values) {
  const auto* const found = std::ranges::find_if(values, [](const std::string& value) { return !value.empty(); });
  return found == values.end() ? "" : *found;
}

std::optional<s3::Keys> keys_of(std::string id, std::string secret, std::string token) {
  if (id.empty() && secret.empty()) return std::nullopt;
  return s3::Keys{std::move(id), std::move(secret), std::move(token)};
}

Result<void> check_keys(const s3::Keys& keys) {
  if (keys.id.empty() || keys.secret.empty())
    return failure(Code::unsupported, "incomplete AWS credentials: an access key has an id and a secret");
  if (!is_visible_ascii(keys.id) || !is_visible_ascii(keys.secret) || !is_visible_ascii(keys.token))
    return failure(Code::unsupported, "AWS credentials with spaces or control characters");
  return {};
}

std::string Profile::get(std::string_view setting) const {
  for (const Section* section : {&credentials, &config})
    if (const auto found = section->find(setting); found != section->end() && !found->second.empty())
      return found->second;
  return {};
}

std::string Profile::shown() const { return "the profile " + quoted(name); }

Certificates Profile::certificates() const {
  if (std::string file = environment("AWS_CA_BUNDLE"); !file.empty()) {
    std::string setting = "AWS_CA_BUNDLE=" + file;
    return {.file = std::move(file), .setting = std::move(setting)};
  }
  std::string file = get("ca_bundle");
  if (file.empty()) return {};
  std::string setting = fmt::format("ca_bundle of {}: {}", shown(), file);
  return {.file = std::move(file), .setting = std::move(setting)};
}

std::optional<s3::Keys> Profile::keys() const {
  return keys_of(get("aws_access_key_id"), get("aws_secret_access_key"), get("aws_session_token"));
}

std::string ProfileFiles::credentials_path() { return file_path("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials"); }
std::string ProfileFiles::config_path() { return file_path("AWS_CONFIG_FILE", "/.aws/config"); }

Result<ProfileFiles> ProfileFiles::read() {
  ProfileFiles files;
  files.credentials_ = TRY(read_sections(credentials_path()));
  files.config_ = TRY(read_sections(config_path()));
  return files;
}

Profile ProfileFiles::profile(const std::string& name) const {
  Profile profile{name};
  const auto take = [&](const Sections& sections, const std::string& section, Section& into) {
    const auto found = sections.find(section);
    if (found == sections.end()) return;
    into = found->second;
    profile.is_found = true;
  };
  take(credentials_, name, profile.credentials);
  if (name == "default") take(config_, "default", profile.config);
  take(config_, "profile " + name, profile.config);
  if (const std::string services = profile.get("services"); !services.empty())
    take(config_, "services " + services, profile.services);
  return profile;
}

const Section* ProfileFiles::sso_session(const std::string& name) const {
  const auto found = config_.find("sso-session " + name);
  return found == config_.end() ? nullptr : &found->second;
}

}  // namespace weightfs::aws
