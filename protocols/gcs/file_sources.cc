// The files of application default credentials, by their "type".
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "base/text.h"
#include "cache/address_policy.h"
#include "protocols/aws/key_requests.h"
#include "protocols/aws/key_sources.h"
#include "protocols/gcs/token_sources.h"

namespace weightfs::gcs {
namespace {

constexpr size_t kMaxField = 16 * 1024;  // a private key has 3 KiB

class ServiceAccountTokens final : public s3::KeySource {
 public:
  ServiceAccountTokens(std::string path, ServiceAccount account)
      : path_(std::move(path)), account_(std::move(account)) {}

  Result<s3::TimedKeys> obtain(http::Client& /*client*/, const std::stop_token& /*stop*/) const override {
    constexpr std::chrono::hours kLifetime{1};
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    const auto name_it = [&](const Error& error) { return aws::named(name(), error); };
    s3::TimedKeys keys;
    keys.keys.emplace();
    keys.keys->token = TRY(self_signed_token(account_, now.time_since_epoch().count()).map_error(name_it));
    keys.expiry = now + kLifetime;
    return keys;
  }
  std::string name() const override { return printable(path_); }
  std::string origin() const override { return path_; }

 private:
  const std::string path_;
  const ServiceAccount account_;
};

// The login of `gcloud auth application-default login`. (RFC 6749, section 6.)
struct User {
  std::string id;
  std::string secret;
  std::string refresh_token;
  std::string url;
};

class UserTokens final : public s3::KeySource {
 public:
  UserTokens(std::string path, User user) : path_(std::move(path)), user_(std::move(user)) {}

  Result<s3::TimedKeys> obtain(http::Client& client, const std::stop_token& stop) const override {
    const Map object = TRY(send_post(client,
                                     {.name = name(),
                                      .url = user_.url,
                                      .body = form_of({{"grant_type", "refresh_token"},
                                                       {"client_id", user_.id},
                                                       {"client_secret", user_.secret},
                                                       {"refresh_token", user_.refresh_token}})},
                                     stop)
                               .map_error([](Error error) {
                                 if (error.message.ends_with("invalid_grant"))
                                   error.message += "; run gcloud auth application-default login";
                                 return error;
                               }));
    return token_in(object, std::chrono::system_clock::now()).map_error([&](const Error& error) {
      return aws::named(name(), error);
    });
  }
  std::string name() const override { return printable(path_); }
  std::string origin() const override { return path_; }

 private:
  const std::string path_;
  const User user_;
};

// The fields of a file, of which the first that is wrong is reported.
class Fields {
 public:
  Fields(const Map& object, const std::string& path) : object_(object), path_(path) {}

  Result<std::string> required(const char* name) const {
    const std::string_view text = text_in(object_, name);
    if (text.empty() || text.size() > kMaxField) return wrong(fmt::format("no valid {}", name));
    return std::string(text);
  }
  // A name that is sent within JSON.
  Result<std::string> plain(const char* name) const {
    std::string text = TRY(required(name));
    if (!is_visible_ascii(text) || text.find_first_of("\"\\") != text.npos)
      return wrong(fmt::format("no valid {}", name));
    return text;
  }
  Result<std::string> url(const char* name, const char* otherwise) const {
    std::string text(text_in(object_, name));
    if (text.empty()) return otherwise;
    if (may_get_secrets(text)) return text;
    return wrong(fmt::format("{} {}: refused; it must be https:// to a token service of Google, or a loopback address",
                             name, http::printable_url(text)));
  }
  tl::unexpected<Error> wrong(const std::string& problem) const {
    return failure(Code::unsupported, fmt::format("{}: {}", printable(path_), problem));
  }

 private:
  const Map& object_;
  const std::string& path_;
};

constexpr const char* kTokenUrl = "https://oauth2.googleapis.com/token";

Result<FileSource> service_account(const Map& file, const Fields& fields, const std::string& path) {
  ServiceAccount account;
  account.email = TRY(fields.plain("client_email"));
  account.private_key = TRY(fields.required("private_key"));
  if (file.find("private_key_id") != nullptr) account.private_key_id = TRY(fields.plain("private_key_id"));
  return FileSource{std::make_shared<ServiceAccountTokens>(path, std::move(account)),
                    std::string(text_in(file, "project_id"))};
}

Result<FileSource> authorized_user(const Map& file, const Fields& fields, const std::string& path) {
  User user;
  user.id = TRY(fields.required("client_id"));
  user.secret = TRY(fields.required("client_secret"));
  user.refresh_token = TRY(fields.required("refresh_token"));
  user.url = TRY(fields.url("token_uri", kTokenUrl));
  return FileSource{std::make_shared<UserTokens>(path, std::move(user)),
                    std::string(text_in(file, "quota_project_id"))};
}

// "credential_source": where the token of the other provider is.
Result<void> add_subject(ExternalAccount& account, const Map& source, const Fields& fields) {
  account.file = text_in(source, "file");
  account.url = text_in(source, "url");
  if (account.file.empty() == account.url.empty())
    return fields.wrong("credential_source needs a file or a url; programs and keys of AWS are not supported");
  if (!account.file.empty() && !account.file.starts_with('/'))
    return fields.wrong("the file of credential_source needs an absolute path");
  if (!account.url.empty() && !aws::may_give_keys(account.url))
    return fields.wrong(
        fmt::format("credential_source {}: refused; it must be https://, or http:// to a loopback or "
                    "metadata address",
                    http::printable_url(account.url)));
  constexpr size_t kMaxHeaders = 16;
  if (const auto* const headers = source.find_as<Map>("headers"))
    for (const auto& [name, value] : *headers) {
      const auto* const text = std::get_if<std::string>(&value);
      if (text == nullptr || name.empty() || !is_visible_ascii(name) || account.headers.size() == kMaxHeaders ||
          text->find_first_of(std::string_view("\r\n\0", 3)) != text->npos)
        return fields.wrong("no valid headers of credential_source");
      account.headers.push_back(fmt::format("{}: {}", name, *text));
    }
  const auto* const format = source.find_as<Map>("format");
  if (format == nullptr || text_in(*format, "type") != "json") return {};
  account.field = text_in(*format, "subject_token_field_name");
  if (account.field.empty()) return fields.wrong("no subject_token_field_name of credential_source");
  return {};
}

Result<FileSource> external(const Map& file, const Fields& fields, const std::string& path) {
  ExternalAccount account{.path = path};
  account.audience = TRY(fields.required("audience"));
  account.token_type = TRY(fields.required("subject_token_type"));
  account.token_url = TRY(fields.url("token_url", "https://sts.googleapis.com/v1/token"));
  account.impersonation_url = TRY(fields.url("service_account_impersonation_url", ""));
  const auto* const source = file.find_as<Map>("credential_source");
  if (source == nullptr) return fields.wrong("no valid credential_source");
  TRY_VOID(add_subject(account, *source, fields));
  FileSource found{.project = std::string(text_in(file, "quota_project_id"))};
  if (!account.file.empty()) found.files.push_back(account.file);
  found.source = external_account(std::move(account));
  return found;
}

}  // namespace

bool may_get_secrets(const std::string& url) {
  constexpr std::array<std::string_view, 3> kServices = {"https://oauth2.googleapis.com:443",
                                                         "https://sts.googleapis.com:443",
                                                         "https://iamcredentials.googleapis.com:443"};
  const std::string origin = http::origin_of(url);
  if (origin.empty() || url.find('@') != url.npos) return false;
  if (std::ranges::find(kServices, origin) != kServices.end()) return true;
  return is_loopback_host(std::string_view(origin).substr(origin.find("://") + 3));
}

Result<FileSource> source_of_file(const Map& file, const std::string& path) {
  const Fields fields(file, path);
  const std::string_view type = text_in(file, "type");
  if (type == "service_account") return service_account(file, fields, path);
  if (type == "authorized_user") return authorized_user(file, fields, path);
  if (type == "external_account") return external(file, fields, path);
  return fields.wrong(fmt::format("credentials of type {} are not supported", quoted(type)));
}

}  // namespace weightfs::gcs
