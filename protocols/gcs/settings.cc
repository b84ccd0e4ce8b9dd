// Which tokens are used for gs://, and where the store is.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include "base/text.h"
#include "cache/address_policy.h"
#include "protocols/aws/key_requests.h"
#include "protocols/aws/key_sources.h"
#include "protocols/gcs.h"
#include "protocols/gcs/machine.h"
#include "protocols/gcs/token_sources.h"

namespace weightfs::gcs {
namespace {

constexpr const char* kEndpoint = "https://storage.googleapis.com";
constexpr const char* kVariable = "GOOGLE_APPLICATION_CREDENTIALS";

std::string gcloud_file() {
  const std::string folder = environment("CLOUDSDK_CONFIG"), home = environment("HOME");
  if (folder.empty() && home.empty()) return {};
  return (folder.empty() ? home + "/.config/gcloud" : folder) + "/application_default_credentials.json";
}

// A file that was read, and its source. Fails with unsupported.
Result<FileSource> read_file(const std::string& path) {
  const auto as_unsupported = [&](const Error& error) {
    const bool has_path = error.message.find(path) != error.message.npos;
    return Error{Code::unsupported, has_path ? error.message : fmt::format("{}: {}", printable(path), error.message)};
  };
  std::string text = TRY(aws::read_small_file(path).map_error(as_unsupported));
  const Map object = TRY(aws::object_in(std::move(text)).map_error(as_unsupported));
  return source_of_file(object, path);
}

void use(s3::Settings& settings, FileSource found) {
  settings.key_source = std::move(found.source);
  settings.project = std::move(found.project);
  for (std::string& file : found.files) settings.files.push_back(std::move(file));
}

// A name or an address, perhaps with a port. The name is that of the address, which needs no DNS.
Result<std::string> machine_url() {
  std::string host = environment({"GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"});
  if (host.empty() || host == "metadata.google.internal") host = "169.254.169.254";
  std::string url = "http://" + host;
  if (url.find_first_of("/?#@", 7) != url.npos || !aws::may_give_keys(url))
    return failure(Code::unsupported,
                   fmt::format("GCE_METADATA_HOST={}: refused; it must be metadata.google.internal, 169.254.169.254 or "
                               "a loopback address",
                               printable(host)));
  return url;
}

Result<void> use_machine(s3::Settings& settings) {
  constexpr unsigned kMostSeconds = 60;
  Machine found{.url = TRY(machine_url())};
  if (const auto most = parse_number<unsigned>(environment("GCE_METADATA_TIMEOUT")); most && *most > 0)
    found.timeout = std::chrono::seconds(std::min(*most, kMostSeconds));
  settings.key_source = machine(std::move(found));
  return {};
}

bool is_machine_named() { return !environment({"GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"}).empty(); }

// The rest of the order, without a file that a variable names.
Result<void> choose(s3::Settings& settings, bool is_emulator) {
  if (const std::string path = is_emulator ? "" : gcloud_file(); !path.empty()) {
    settings.files.push_back(path);
    if (std::ifstream(path).good()) {
      auto found = read_file(path);
      if (found)
        use(settings, std::move(*found));
      else
        settings.note = found.error().message;  // it was not asked for by name: requests are anonymous
      return {};
    }
  }
  const bool is_service = !environment({"K_SERVICE", "CLOUD_RUN_JOB"}).empty();  // Cloud Run, which hides the product
  if (is_machine_named()) return use_machine(settings);
  if (!is_emulator && lower_case(environment("NO_GCE_CHECK")) != "true" && (is_service || is_machine_of_google()))
    return use_machine(settings);
  return {};
}

// Emulators are named without a scheme, too.
void set_endpoint(s3::Settings& settings) {
  settings.endpoint = environment("STORAGE_EMULATOR_HOST");
  if (settings.endpoint.empty()) {
    settings.endpoint = kEndpoint;
    return;
  }
  settings.endpoint_from = "STORAGE_EMULATOR_HOST";
  if (settings.endpoint.find("://") == settings.endpoint.npos) settings.endpoint = "http://" + settings.endpoint;
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
}

Result<void> set_project(s3::Settings& settings) {
  const std::string named = environment("GOOGLE_CLOUD_QUOTA_PROJECT");
  if (!named.empty()) settings.project = named;
  if (settings.project.empty()) settings.project = environment("GOOGLE_CLOUD_PROJECT");
  if (!settings.flags.requester_pays) return {};
  if (settings.project.empty())
    return failure(Code::unsupported, "--requester-pays: no project; set GOOGLE_CLOUD_QUOTA_PROJECT");
  if (!is_visible_ascii(settings.project))
    return failure(Code::unsupported, fmt::format("not a valid project: {}", quoted(settings.project)));
  return {};
}

}  // namespace

bool is_product_of_google(const std::string& file) {
  std::array<char, 8> text{};
  std::ifstream(file, std::ios::binary).read(text.data(), text.size());
  return std::string_view(text.data(), text.size()).starts_with("Google");
}

bool is_machine_of_google() {
  static const bool is_one = is_product_of_google("/sys/class/dmi/id/product_name");
  return is_one;
}

Result<s3::Settings> settings_of_user(const s3::BucketFlags& flags) {
  s3::Settings settings;
  settings.flags = flags;
  settings.dialect = &s3::kGoogle;
  set_endpoint(settings);
  const bool is_emulator = !settings.endpoint_from.empty();
  if (const std::string path = environment(kVariable); !path.empty()) {
    settings.files.push_back(path);
    use(settings, TRY(read_file(path).map_error([](const Error& error) {
          return Error{error.code, fmt::format("{}: {}", kVariable, error.message)};
        })));
  } else {
    TRY_VOID(choose(settings, is_emulator));
  }
  TRY_VOID(set_project(settings));
  if (settings.key_source != nullptr && !is_confidential(http::origin_of(settings.endpoint))) {
    settings.key_source.reset();
    settings.note = "tokens are sent to https and loopback only";
  }
  return settings;
}

Result<s3::Settings> settings_for_renewal(const s3::BucketFlags& flags) {
  s3::Settings settings = TRY(settings_of_user(flags));
  if (settings.key_source == nullptr && !settings.note.empty()) return failure(Code::unsupported, settings.note);
  return settings;
}

}  // namespace weightfs::gcs
