// The user's credentials for Azure Storage, from the environment.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/values/base64.h"
#include "cache/address_policy.h"
#include "cache/url.h"
#include "protocols/aws/key_sources.h"
#include "protocols/azure.h"
#include "protocols/azure/tokens.h"

namespace weightfs::azure {
namespace {

constexpr const char* kConnectionString = "AZURE_STORAGE_CONNECTION_STRING";

// The account and key of the emulator Azurite, which are the same everywhere. (learn.microsoft.com, "Use the Azurite
// emulator": well-known storage account and key.)
constexpr const char* kEmulatorAccount = "devstoreaccount1";
constexpr const char* kEmulatorKey =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
constexpr const char* kEmulatorEndpoint = "http://127.0.0.1:10000/devstoreaccount1";

using Fields = std::map<std::string, std::string>;

// `variable`: with or without `$`.
tl::unexpected<Error> not_valid(std::string_view variable, std::string_view why) {
  if (variable.starts_with('$')) variable.remove_prefix(1);
  return failure(Code::unsupported, fmt::format("{}: {}", variable, why));
}

// "AccountName=x;AccountKey=…;": values may have a `=`. Names are in lower case. No value is in a message.
Result<Fields> fields_of(std::string_view text) {
  Fields fields;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    if (trimmed(one).empty()) continue;
    const size_t equals = one.find('=');
    if (equals == one.npos || equals == 0) return not_valid(kConnectionString, "not of the form NAME=VALUE;…");
    fields[lower_case(trimmed(one.substr(0, equals)))] = std::string(trimmed(one.substr(equals + 1)));
  }
  return fields;
}

// The account in the URL of its service: the first label of the host, or of an emulator the first part of the path.
std::string account_in(const std::string& endpoint) {
  std::string_view rest = endpoint;
  rest.remove_prefix(std::min(rest.size(), rest.find("://") + 3));
  const std::string_view host = cut_component(rest);
  if (account_of_host(host)) return std::string(host.substr(0, host.find('.')));
  return std::string(cut_component(rest));
}

Result<void> set_key(Settings& settings, std::string key, const std::string& from) {
  const auto decoded = from_base64(key);
  if (!decoded || decoded->empty()) return not_valid(from, "not a key in base64");
  settings.auth = Auth::shared_key;
  settings.secret = std::move(key);
  settings.keys_from = from;
  return {};
}

Result<void> set_signature(Settings& settings, std::string parameters, const std::string& from) {
  if (parameters.starts_with('?')) parameters.erase(0, 1);
  const bool is_one = is_visible_ascii(parameters) && ("&" + parameters).find("&sig=") != std::string::npos &&
                      parameters.find('#') == std::string::npos;
  if (!is_one) return not_valid(from, "not a shared access signature: parameters of a query, with sig=");
  settings.auth = Auth::sas;
  settings.secret = std::move(parameters);
  settings.keys_from = from;
  return {};
}

Result<void> set_endpoint(Settings& settings, const std::string& url, const std::string& from) {
  const bool may_be_secret = url.find_first_of("?#@") != url.npos;
  if (may_be_secret || http::origin_of(url).empty())
    return not_valid(from, fmt::format("not a valid URL of a blob service{}", may_be_secret ? "" : ": " + quoted(url)));
  settings.endpoint = url;
  settings.endpoint_from = from;
  return {};
}

// The endpoint of another account is not one of this.
void set_account(Settings& settings, const std::string& name) {
  if (settings.account != name) settings.endpoint.clear();
  settings.account = name;
}

Result<Settings> of_connection_string(const std::string& text) {
  Fields fields = TRY(fields_of(text));
  if (lower_case(fields["usedevelopmentstorage"]) == "true")
    fields = {{"accountname", kEmulatorAccount}, {"accountkey", kEmulatorKey}, {"blobendpoint", kEmulatorEndpoint}};
  Settings settings;
  settings.account = fields["accountname"];
  std::string endpoint = fields["blobendpoint"];
  const std::string scheme = lower_case(fields["defaultendpointsprotocol"]);
  if (endpoint.empty() && !settings.account.empty() && (!fields["endpointsuffix"].empty() || scheme == "http"))
    endpoint = fmt::format("{}://{}.blob.{}", scheme.empty() ? "https" : scheme, settings.account,
                           fields["endpointsuffix"].empty() ? kPublicCloud : fields["endpointsuffix"].c_str());
  const std::string from = std::string("$") + kConnectionString;
  if (!endpoint.empty()) TRY_VOID(set_endpoint(settings, endpoint, kConnectionString));
  if (settings.account.empty() && !endpoint.empty()) settings.account = account_in(endpoint);
  if (settings.account.empty()) return not_valid(kConnectionString, "has no AccountName");
  if (!fields["accountkey"].empty()) {
    TRY_VOID(set_key(settings, fields["accountkey"], from));
  } else if (!fields["sharedaccesssignature"].empty()) {
    TRY_VOID(set_signature(settings, fields["sharedaccesssignature"], from));
  }
  return settings;
}

// A server that gets a secret: https, or http of this machine.
Result<std::string> authority() {
  std::string url = environment("AZURE_AUTHORITY_HOST");
  if (url.empty()) return "https://login.microsoftonline.com";
  while (url.ends_with('/')) url.pop_back();
  if (!is_confidential(http::origin_of(url)) || url.find_first_of("?#@") != url.npos)
    return not_valid("AZURE_AUTHORITY_HOST", "must be a URL of https, or of http to a loopback address");
  return url;
}

Result<void> use_application(Settings& settings, const std::string& token_file, const char* resource) {
  Application found;
  found.resource = resource;
  found.authority = TRY(authority());
  found.tenant = environment("AZURE_TENANT_ID");
  found.client = environment("AZURE_CLIENT_ID");
  if (token_file.empty()) found.secret = environment("AZURE_CLIENT_SECRET");
  found.token_file = token_file;
  const char* const variable = token_file.empty() ? "AZURE_CLIENT_SECRET" : "AZURE_FEDERATED_TOKEN_FILE";
  if (found.tenant.empty() || found.client.empty())
    return not_valid(variable, "needs AZURE_TENANT_ID and AZURE_CLIENT_ID");
  if (!token_file.empty()) settings.files.push_back(token_file);
  settings.auth = Auth::token;
  settings.key_source = application(std::move(found));
  return {};
}

// App Service on Linux: http://169.254.129.5:8081/msi/token, where the address differs.
bool is_link_local(const std::string& url) {
  constexpr std::string_view kHttp = "http://";
  const std::string origin = http::origin_of(url);
  if (!origin.starts_with(kHttp)) return false;
  const auto address = literal_address(origin.substr(kHttp.size(), origin.rfind(':') - kHttp.size()));
  return address && is_in(*address, "169.254.0.0/16");
}

// The metadata service is asked only on a machine of Azure, or if the user names it.
Result<void> use_managed_identity(Settings& settings, const char* resource) {
  ManagedIdentity found;
  found.resource = resource;
  found.client = environment("AZURE_CLIENT_ID");
  const std::string service = environment("IDENTITY_ENDPOINT");
  const std::string host = environment("AZURE_POD_IDENTITY_AUTHORITY_HOST");
  found.secret = environment("IDENTITY_HEADER");
  const bool has_service = !service.empty() && !found.secret.empty();
  found.is_named =
      has_service || !host.empty() || lower_case(environment("AZURE_TOKEN_CREDENTIALS")) == "managedidentitycredential";
  if (!found.is_named && !is_machine_of_azure()) return {};
  if (!has_service) found.secret.clear();
  found.url = host.empty() ? "http://169.254.169.254" : host;
  if (has_service) found.url = service;
  while (found.url.ends_with('/')) found.url.pop_back();
  if (!has_service) found.url += "/metadata/identity/oauth2/token";
  const bool is_local = aws::may_give_keys(found.url) || (has_service && is_link_local(found.url));
  if (!is_local || found.url.find_first_of("?#@") != found.url.npos ||
      found.secret.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos)
    return not_valid(has_service ? "IDENTITY_ENDPOINT" : "AZURE_POD_IDENTITY_AUTHORITY_HOST",
                     "refused; it must be https://, or http:// to a loopback or link-local address");
  settings.auth = Auth::token;
  settings.key_source = managed_identity(std::move(found));
  return {};
}

Result<void> use_token_source(Settings& settings, const char* resource) {
  const std::string token_file = environment("AZURE_FEDERATED_TOKEN_FILE");
  if (!environment("AZURE_CLIENT_SECRET").empty()) return use_application(settings, "", resource);
  if (!token_file.empty()) return use_application(settings, token_file, resource);
  return use_managed_identity(settings, resource);
}

// The first of these variables that is set.
const char* first_set(std::initializer_list<const char*> variables) {
  const auto* const found =
      std::ranges::find_if(variables, [](const char* variable) { return !environment(variable).empty(); });
  return found == variables.end() ? nullptr : *found;
}

// A signature by the key tells nothing; others would be in the request as they are.
Settings for_endpoint(Settings settings) {
  const bool is_sent = settings.auth == Auth::sas || settings.auth == Auth::token;
  if (settings.endpoint.empty() || !is_sent || is_confidential(http::origin_of(settings.endpoint))) return settings;
  Settings anonymous = settings.without_keys();
  anonymous.note =
      fmt::format("the {} is not sent over plain http ({})",
                  settings.auth == Auth::sas ? "signature of " + settings.keys_from : "token of " + settings.keys_from,
                  settings.endpoint_from);
  return anonymous;
}

Result<Settings> settings_of_user() {
  Settings settings;
  if (const std::string text = environment(kConnectionString); !text.empty())
    settings = TRY(of_connection_string(text));
  if (settings.auth != Auth::anonymous) return settings;
  if (const std::string name = environment({"AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"}); !name.empty())
    set_account(settings, name);
  if (const std::string url = environment("AZURE_STORAGE_ENDPOINT"); !url.empty())
    TRY_VOID(set_endpoint(settings, url, "AZURE_STORAGE_ENDPOINT"));
  if (settings.account.empty() && !domain_of_url(settings.endpoint).empty())
    settings.account = account_in(settings.endpoint);
  if (const char* const key =
          first_set({"AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_KEY"})) {
    TRY_VOID(set_key(settings, environment(key), std::string("$") + key));
  } else if (const std::string sas = environment("AZURE_STORAGE_SAS_TOKEN"); !sas.empty()) {
    TRY_VOID(set_signature(settings, sas, "$AZURE_STORAGE_SAS_TOKEN"));
  } else {
    TRY_VOID(use_token_source(settings, kStorage));
  }
  if (settings.key_source != nullptr) settings.keys_from = settings.key_source->name();
  return settings;
}

}  // namespace

Result<Settings> Settings::of_user() { return settings_of_user().map(for_endpoint); }

Settings Settings::of_user_if_valid() {
  auto found = of_user();
  return found ? *std::move(found) : Settings{.note = found.error().message};
}

Settings tokens_for_registries() {
  Settings settings;
  if (const auto chosen = use_token_source(settings, kRegistries); !chosen) return {.note = chosen.error().message};
  return settings;
}

Settings Settings::without_keys() const {
  Settings copy;
  copy.account = account;
  copy.endpoint = endpoint;
  copy.endpoint_from = endpoint_from;
  return copy;
}

}  // namespace weightfs::azure
