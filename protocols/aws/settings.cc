// The user's keys, region and endpoint, from the environment and from the files of the AWS command line.
#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "protocols/aws/choose_keys.h"
#include "protocols/aws/profile.h"
#include "protocols/s3.h"

namespace weightfs::s3 {
namespace {

// The value of the first variable that is set, and its name; else another value, and where it is from.
std::pair<std::string, std::string> first_set(std::initializer_list<const char*> variables, std::string otherwise,
                                              const std::string& otherwise_from) {
  for (const char* const name : variables)
    if (std::string value = environment(name); !value.empty()) return {std::move(value), name};
  return {std::move(otherwise), otherwise_from};
}

void set_endpoint(Settings& settings, const aws::Profile& profile) {
  if (lower_case(environment("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")) == "true") return;
  const auto service = profile.services.find("s3.endpoint_url");
  const std::string of_service = service == profile.services.end() ? "" : service->second;
  std::tie(settings.endpoint, settings.endpoint_from) =
      first_set({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, aws::first_of({of_service, profile.get("endpoint_url")}),
                profile.shown());
}

// (botocore/data/s3/*/endpoint-rule-set-1.json: not with a custom endpoint.)
Result<void> set_host(Settings& settings, const aws::Profile& profile) {
  const auto is_set = [&](const char* variable, const char* setting) {
    return lower_case(aws::first_of({environment(variable), profile.get(setting)})) == "true";
  };
  const bool is_fips = is_set("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint");
  const bool is_dual = is_set("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint");
  settings.host = std::string(is_fips ? "s3-fips" : "s3") + (is_dual ? ".dualstack" : "");
  if (settings.endpoint.empty() || !(is_fips || is_dual)) return {};
  return failure(Code::unsupported, fmt::format("{} contradicts {}", settings.endpoint_from,
                                                is_fips ? "AWS_USE_FIPS_ENDPOINT" : "AWS_USE_DUALSTACK_ENDPOINT"));
}

// (botocore's configuration: `s3 = addressing_style`.)
Result<void> set_addressing(Settings& settings, const aws::Profile& profile) {
  const std::string style = lower_case(profile.get("s3.addressing_style"));
  if (style == "virtual")
    settings.addressing = Addressing::host;
  else if (style == "path")
    settings.addressing = Addressing::path;
  else if (!style.empty() && style != "auto")
    return failure(Code::unsupported,
                   fmt::format("{}: addressing_style = {}: not auto, path or virtual", profile.shown(), quoted(style)));
  return {};
}

}  // namespace

Result<Settings> Settings::of_user(const BucketFlags& flags) {
  const aws::ProfileFiles files = TRY(aws::ProfileFiles::read());
  const std::string required = environment({"AWS_PROFILE", "AWS_DEFAULT_PROFILE"});
  const aws::Profile profile = files.profile(aws::first_of({required, "default"}));
  Settings settings;
  settings.flags = flags;
  std::tie(settings.region, settings.region_from) =
      first_set({"AWS_REGION", "AWS_DEFAULT_REGION"}, profile.get("region"), profile.shown());
  set_endpoint(settings, profile);
  TRY_VOID(set_host(settings, profile));
  TRY_VOID(set_addressing(settings, profile));
  aws::ChosenKeys chosen =
      TRY(aws::choose_keys({files, profile, !required.empty(), settings.region, flags.credentials_file}));
  settings.keys = std::move(chosen.keys);
  settings.key_source = std::move(chosen.source);
  settings.keys_from = std::move(chosen.from);
  settings.note = std::move(chosen.note);
  settings.certificates = profile.certificates();
  settings.files = {aws::ProfileFiles::credentials_path(), aws::ProfileFiles::config_path()};
  if (!settings.certificates.empty()) settings.files.push_back(settings.certificates.file);
  for (std::string& file : chosen.files) settings.files.push_back(std::move(file));
  return settings;
}

}  // namespace weightfs::s3
