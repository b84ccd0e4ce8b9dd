#include "protocols/keyring.h"

#include <fmt/core.h>

#include <mutex>
#include <utility>

#include "base/files/file_source.h"
#include "base/text.h"
#include "protocols/azure/signer.h"
#include "protocols/gcs.h"
#include "protocols/huggingface.h"
#include "protocols/keyring/header_file.h"
#include "protocols/modelscope.h"
#include "protocols/netrc.h"
#include "protocols/registry/cloud_logins.h"
#include "protocols/registry/credentials.h"
#include "protocols/s3/signer.h"
#include "protocols/s3/user_keys.h"

namespace weightfs {
namespace {

// The token may be replaced while a mount lasts. If the file is gone or has no token, the last one is sent.
class TokenOfFile final : public http::Credentials {
 public:
  TokenOfFile(std::string path, std::string token) : path_(std::move(path)), token_(std::move(token)) {}

  std::string authorization() override {
    auto token = read_token_file(path_);
    const std::scoped_lock lock(mutex_);
    if (token) {
      token_ = std::move(*token);
      read_ = http::current_second();
    }
    return "Bearer " + token_;
  }
  http::KeyOrigin key_origin() override {
    const std::scoped_lock lock(mutex_);
    return {path_, read_};
  }
  std::string description() override { return "with the token of " + path_; }

 private:
  const std::string path_;
  std::mutex mutex_;  // guards the rest
  std::string token_;
  std::chrono::sys_seconds read_ = http::current_second();
};

Result<http::CredentialsPtr> token_of_file(const std::string& path) {
  return std::make_shared<TokenOfFile>(path, TRY(read_token_file(path)));
}

s3::Settings as_keys(const azure::Settings& tokens) {
  s3::Settings settings;
  settings.key_source = tokens.key_source;
  settings.note = tokens.note;
  return settings;
}

// Those without keys for null.
template <class Settings>
Settings value_of(const std::shared_ptr<const Settings>& settings) {
  return settings == nullptr ? Settings() : *settings;
}

template <class Settings>
std::shared_ptr<const Settings> shared_without_keys(const std::shared_ptr<const Settings>& settings) {
  return settings == nullptr ? nullptr : std::make_shared<const Settings>(settings->without_keys());
}

// Null without a registry of a cloud.
std::shared_ptr<const registry::CloudLogins> cloud_logins(const CloudRegistries& clouds,
                                                          const std::shared_ptr<s3::UserKeys>& amazon,
                                                          const std::shared_ptr<s3::UserKeys>& google) {
  if (clouds.origins.empty()) return nullptr;
  const s3::Settings tokens = clouds.azure == nullptr ? s3::Settings() : as_keys(*clouds.azure);
  const auto azure = std::make_shared<s3::UserKeys>(tokens, [tokens] { return Result<s3::Settings>(tokens); });
  return std::make_shared<registry::CloudLogins>(clouds.origins, registry::CloudKeys{amazon, google, azure});
}

// The keys for a server; null if there are none.
Result<http::CredentialsPtr> keys_of_server(const SourceKeys& keys, const std::string& server) {
  const auto own = keys.tokens.find(server);
  const std::string token_file = own == keys.tokens.end() ? keys.token : own->second;
  http::CredentialsPtr token = token_file.empty() ? nullptr : TRY(token_of_file(token_file));
  const auto headers = keys.headers.find(server);
  if (headers == keys.headers.end()) return token;
  auto found = header_file::credentials(headers->second, std::move(token));
  if (!found) return failure(found.error().code, "--header-file: " + found.error().message);
  return found;
}

}  // namespace

CloudSettings CloudSettings::without_keys() const {
  return {shared_without_keys(s3), shared_without_keys(google), shared_without_keys(azure), {}};
}

std::vector<std::string> SourceKeys::files() const {
  std::vector<std::string> all;
  if (!token.empty()) all.push_back(token);
  for (const auto* const each : {&tokens, &headers})
    for (const auto& [origin, file] : *each) all.push_back(file);
  return all;
}

std::vector<std::string> SourceKeys::origins() const {
  std::vector<std::string> all;
  for (const auto* const each : {&tokens, &headers})
    for (const auto& [origin, file] : *each) all.push_back(origin);
  return all;
}

Result<void> check_source_keys(const SourceKeys& keys) {
  if (!keys.token.empty()) TRY(read_token_file(keys.token));
  for (const std::string& origin : keys.origins()) TRY(keys_of_server(keys, origin));
  return {};
}

Result<std::string> read_token_file(const std::string& path) {
  constexpr size_t kMaxToken = 4096;
  const SourcePtr file = TRY(open_file(path));
  if (file->size() > kMaxToken) return failure(Code::unsupported, fmt::format("{}: too long for a token", path));
  const std::string text = TRY(read_text(*file, 0, file->size()));
  std::string token(trimmed(text));
  if (token.empty() || !is_visible_ascii(token))
    return failure(Code::unsupported, fmt::format("{}: not a token: visible ASCII characters on one line", path));
  return token;
}

UserKeyring::UserKeyring(CredentialPaths registries, const CloudSettings& clouds, SourceKeys source_keys)
    : registries_(std::move(registries)),
      buckets_(std::make_shared<s3::UserKeys>(value_of(clouds.s3))),
      source_keys_(std::move(source_keys)),
      google_project_(value_of(clouds.google).project),
      google_(std::make_shared<s3::UserKeys>(
          value_of(clouds.google),
          [flags = value_of(clouds.google).flags] { return gcs::settings_for_renewal(flags); })),
      azure_(std::make_shared<azure::UserCredentials>(value_of(clouds.azure))),
      clouds_(cloud_logins(clouds.registries, buckets_, google_)) {}

Result<http::CredentialsPtr> UserKeyring::find(const http::CredentialsName& name, const http::ClientPtr& client) {
  using Kind = http::CredentialsName::Kind;
  switch (name.kind) {
    case Kind::hub:
      return huggingface::credentials_for(name.server);
    case Kind::registry:
      return std::make_shared<registry::Credentials>(client, name.server, registries_, name.headers,
                                                     registry::ClockAndNonce::of_system(), clouds_);
    case Kind::bucket:
      return std::make_shared<s3::Signer>(buckets_, name.region, client);
    case Kind::web:
      if (auto keys = TRY(keys_of_server(source_keys_, http::origin_of(name.server)))) return keys;
      break;
    case Kind::modelscope:
      return modelscope::credentials_for(name.server);
    case Kind::site:
      return netrc::credentials_for(name.server);
    case Kind::google:
      return gcs::credentials_for(google_, google_project_, client);
    case Kind::azure:
      return std::make_shared<azure::Signer>(azure_, name.region, azure::domain_of_url(name.server),
                                             name.headers.empty() ? "" : name.headers.front(), client);
    case Kind::none:
      break;
  }
  return std::make_shared<http::FixedCredentials>("");
}

}  // namespace weightfs
