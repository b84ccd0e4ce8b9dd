// The requests of each source of tokens, and what their answers mean.
#include "protocols/gcs/token_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <memory>

#include "base/values/base64.h"
#include "protocols/aws/key_requests.h"
#include "tests/support/scripted_client.h"
#include "tests/support/temporary.h"

namespace weightfs::gcs::token_sources_test {
namespace {

using test::all_headers;
using test::page;
using test::ScriptedClient;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)>;

KeyPtr rsa_key() { return {::EVP_RSA_gen(2048), ::EVP_PKEY_free}; }

std::string pem_of(EVP_PKEY* key) {
  const std::unique_ptr<BIO, decltype(&::BIO_free)> out(::BIO_new(::BIO_s_mem()), ::BIO_free);
  ::PEM_write_bio_PKCS8PrivateKey(out.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  char* text = nullptr;
  const long size = ::BIO_get_mem_data(out.get(), &text);
  return {text, static_cast<size_t>(size)};
}

// RSASSA-PKCS1-v1_5 has one signature of a text: that of OpenSSL, in one call for all of it.
std::string signature_by_openssl(EVP_PKEY* key, const std::string& text) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&::EVP_MD_CTX_free)> context(::EVP_MD_CTX_new(), ::EVP_MD_CTX_free);
  ::EVP_SignInit_ex(context.get(), ::EVP_sha256(), nullptr);
  ::EVP_SignUpdate(context.get(), text.data(), text.size());
  std::string out(static_cast<size_t>(::EVP_PKEY_size(key)), '\0');
  unsigned size = 0;
  ::EVP_SignFinal(context.get(), reinterpret_cast<unsigned char*>(out.data()), &size, key);
  out.resize(size);
  return out;
}

std::string text(const s3::KeySource& source, ScriptedClient& client) {
  const auto found = source.obtain(client, {});
  if (!found) return (found.error().code == Code::network ? "network: " : "forbidden: ") + found.error().message;
  return found->keys ? found->keys->token : "none";
}

Result<FileSource> source_of(const std::string& json) { return source_of_file(*aws::object_in(json), "/keys.json"); }
std::string refusal_of(const std::string& json) {
  const auto found = source_of(json);
  return found ? "" : found.error().message;
}

TEST(SelfSignedToken, HasTheClaimsAndTheSignature) {
  const KeyPtr key = rsa_key();
  const auto token = self_signed_token({"a@b.example", pem_of(key.get()), "key1"}, 1'700'000'000);
  ASSERT_TRUE(token) << token.error().message;
  const std::string signed_text =
      base64url(R"({"alg":"RS256","typ":"JWT","kid":"key1"})") + "." +
      base64url(R"({"iss":"a@b.example","sub":"a@b.example","scope":"https://www.googleapis.com/auth/)"
                R"(devstorage.read_only","iat":1700000000,"exp":1700003600})");
  EXPECT_EQ(*token, signed_text + "." + base64url(signature_by_openssl(key.get(), signed_text)));
}

TEST(SelfSignedToken, NeedsARsaKeyInPem) {
  const KeyPtr small(::EVP_RSA_gen(1024), ::EVP_PKEY_free);
  const KeyPtr other(::EVP_EC_gen("P-256"), ::EVP_PKEY_free);
  for (const std::string& pem : {std::string("no key"), std::string(), pem_of(small.get()), pem_of(other.get())}) {
    const auto token = self_signed_token({"a@b.example", pem}, 1);
    ASSERT_FALSE(token) << pem;
    EXPECT_EQ(token.error().code, Code::forbidden);
  }
}

TEST(TokensOfFile, LoginIsRefreshed) {
  ScriptedClient client([](const auto&) { return page(200, R"({"access_token": "ya29.x", "expires_in": 3599})"); });
  const auto found = source_of(R"({"type": "authorized_user", "client_id": "c", "client_secret": "s+",
                                   "refresh_token": "1//r", "quota_project_id": "p"})");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->project, "p");
  EXPECT_EQ(text(*found->source, client), "ya29.x");
  const http::Request request = client.requests().at(0);
  EXPECT_EQ(request.url, "https://oauth2.googleapis.com/token");
  EXPECT_EQ(request.body, "grant_type=refresh_token&client_id=c&client_secret=s%2B&refresh_token=1%2F%2Fr");
  EXPECT_EQ(request.purpose, http::Purpose::keys);
}

TEST(TokensOfFile, RefusalsNameTheReasonAndNoSecret) {
  const auto found = source_of(R"({"type": "authorized_user", "client_id": "c", "client_secret": "hidden",
                                   "refresh_token": "hidden"})");
  ASSERT_TRUE(found);
  ScriptedClient refusing([](const auto&) { return page(400, R"({"error": "invalid_grant"})"); });
  EXPECT_THAT(text(*found->source, refusing),
              AllOf(StartsWith("forbidden: /keys.json: "),
                    HasSubstr("invalid_grant; run gcloud auth application-default login"), Not(HasSubstr("hidden"))));
  ScriptedClient repeating(
      [](const auto&) { return page(403, R"({"error": {"message": "bad 1//0abcdefghijklmnopqrstuv"}})"); });
  EXPECT_THAT(text(*found->source, repeating), AllOf(HasSubstr("bad 1//..."), Not(HasSubstr("0abcdef"))));
  for (const char* body : {"", "[]", "{}", R"({"access_token": "a b"})", R"({"access_token": "a", "expires_in": 0})"}) {
    ScriptedClient client([&](const auto&) { return page(200, body); });
    EXPECT_THAT(text(*found->source, client), StartsWith("forbidden: ")) << body;
  }
}

TEST(TokensOfFile, ExternalTokenIsExchangedThenImpersonates) {
  const TemporaryDirectory temporary;
  temporary.write("subject", "subject-token\n");
  const auto found = source_of(
      R"({"type": "external_account", "audience": "//iam/x", "subject_token_type": "jwt", "credential_source": {"file": ")" +
      temporary.path("subject") +
      R"("}, "service_account_impersonation_url": "https://iamcredentials.googleapis.com/v1/x:generateAccessToken"})");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(found->files, ElementsAre(temporary.path("subject")));
  ScriptedClient client([](const http::Request& request) {
    return request.url.starts_with("https://sts.")
               ? page(200, R"({"access_token": "first", "expires_in": 10})")
               : page(200, R"({"accessToken": "second", "expireTime": "2026-10-08T12:34:56Z"})");
  });
  EXPECT_EQ(text(*found->source, client), "second");
  EXPECT_THAT(client.requests().at(0).body,
              AllOf(HasSubstr("&subject_token=subject-token&"), HasSubstr("cloud-platform")));
  EXPECT_THAT(all_headers(client.requests().at(1)), Contains("Authorization: Bearer first"));
  EXPECT_THAT(client.requests().at(1).body, HasSubstr("devstorage.read_only"));
}

TEST(TokensOfFile, OnlyKnownServicesGetSecrets) {
  for (const char* url : {"https://sts.googleapis.com/v1/token", "https://iamcredentials.googleapis.com/x",
                          "https://oauth2.googleapis.com/token", "http://127.0.0.1:1/token", "http://localhost/token"})
    EXPECT_TRUE(may_get_secrets(url)) << url;
  for (const char* url : {"http://sts.googleapis.com/v1/token", "https://sts.googleapis.com.evil.example/",
                          "https://evil.example/", "https://sts.googleapis.com@evil.example/",
                          "https://storage.googleapis.com/bucket", "http://169.254.169.254/", ""})
    EXPECT_FALSE(may_get_secrets(url)) << url;
}

TEST(TokensOfFile, InvalidFilesAreRefused) {
  EXPECT_THAT(refusal_of(R"({"type": "impersonated_service_account"})"),
              HasSubstr(R"(credentials of type "impersonated_service_account" are not supported)"));
  EXPECT_THAT(refusal_of("{}"), HasSubstr("are not supported"));
  EXPECT_THAT(refusal_of(R"({"type": "service_account", "client_email": "a\"b", "private_key": "k"})"),
              HasSubstr("no valid client_email"));
  const std::string external = R"({"type": "external_account", "audience": "a", "subject_token_type": "t",)";
  EXPECT_THAT(refusal_of(external + R"("credential_source": {"file": "token"}})"), HasSubstr("needs an absolute path"));
  EXPECT_THAT(refusal_of(external + R"("credential_source": {"executable": {"command": "x"}}})"),
              HasSubstr("programs and keys of AWS are not supported"));
  EXPECT_THAT(refusal_of(external + R"("credential_source": {"url": "http://10.0.0.1/"}})"),
              HasSubstr("credential_source http://10.0.0.1/: refused"));
  EXPECT_THAT(refusal_of(external + R"("token_url": "https://evil.example/", "credential_source": {"file": "/f"}})"),
              HasSubstr("token_url https://evil.example/: refused"));
  EXPECT_THAT(refusal_of(external + R"("credential_source": {"url": "https://x.example/", "headers": {"a": "b\nc"}}})"),
              HasSubstr("no valid headers"));
}

TEST(TokensOfMachine, AreAskedForWithoutAProxy) {
  ScriptedClient client([](const auto&) { return page(200, R"({"access_token": "m", "expires_in": 3000})"); });
  const auto source = machine({.url = "http://169.254.169.254"});
  EXPECT_EQ(text(*source, client), "m");
  const http::Request request = client.requests().at(0);
  EXPECT_EQ(request.url, "http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/token");
  EXPECT_EQ(request.purpose, http::Purpose::metadata);
  EXPECT_THAT(request.headers, Contains("Metadata-Flavor: Google"));
  ScriptedClient without([](const auto&) { return page(404, ""); });
  EXPECT_EQ(text(*source, without), "none");
}

}  // namespace
}  // namespace weightfs::gcs::token_sources_test
