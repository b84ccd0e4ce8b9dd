// Which credentials are used for Azure Storage, by the environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "protocols/azure.h"
#include "protocols/azure/tokens.h"
#include "tests/support/temporary.h"

namespace weightfs::azure::settings_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kKey = "c2VjcmV0";  // "secret"

class AzureSettingsTest : public testing::Test {
 protected:
  AzureSettingsTest() {
    for (char** each = environ; *each != nullptr; ++each) {
      const std::string entry = *each;
      if (entry.starts_with("AZURE_") || entry.starts_with("IDENTITY_"))
        before_[entry.substr(0, entry.find('='))] = entry.substr(entry.find('=') + 1);
    }
    for (const auto& [name, value] : before_) ::unsetenv(name.c_str());
  }
  ~AzureSettingsTest() override {
    for (const std::string& name : set_) ::unsetenv(name.c_str());
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
  }

  void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
  }
  void unset(const std::string& name) { ::unsetenv(name.c_str()); }

  static std::string chosen() {
    const auto found = Settings::of_user();
    if (!found) return "error: " + found.error().message;
    return found->auth == Auth::anonymous ? "none" : found->keys_from;
  }

 private:
  std::map<std::string, std::string> before_;
  std::vector<std::string> set_;
};

TEST_F(AzureSettingsTest, FirstOfTheOrderIsUsed) {
  set("IDENTITY_ENDPOINT", "http://127.0.0.1:41000/msi/token");
  set("IDENTITY_HEADER", "header");
  EXPECT_EQ(chosen(), "managed identity");
  set("AZURE_TENANT_ID", "tenant");
  set("AZURE_CLIENT_ID", "client");
  set("AZURE_FEDERATED_TOKEN_FILE", "/var/run/token");
  EXPECT_EQ(chosen(), "workload identity");
  EXPECT_EQ(Settings::of_user()->files, std::vector<std::string>{"/var/run/token"});
  set("AZURE_CLIENT_SECRET", "secret");
  EXPECT_EQ(chosen(), "client secret");
  set("AZURE_STORAGE_SAS_TOKEN", "?sv=2023&sig=x%3D");
  EXPECT_EQ(chosen(), "$AZURE_STORAGE_SAS_TOKEN");
  EXPECT_EQ(Settings::of_user()->secret, "sv=2023&sig=x%3D");
  for (const char* name : {"AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_KEY"}) {
    set(name, kKey);
    EXPECT_EQ(chosen(), std::string("$") + name);
  }
  set("AZURE_STORAGE_CONNECTION_STRING", "AccountName=abc;SharedAccessSignature=sig=y");
  EXPECT_EQ(chosen(), "$AZURE_STORAGE_CONNECTION_STRING");
}

TEST_F(AzureSettingsTest, NothingIsUsedOnAnOrdinaryMachine) {
  if (is_machine_of_azure()) GTEST_SKIP() << "this machine is one of Azure";
  EXPECT_EQ(chosen(), "none");
  set("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential");
  EXPECT_EQ(chosen(), "managed identity");
}

TEST_F(AzureSettingsTest, ServiceOfAppServiceIsLinkLocal) {
  set("IDENTITY_ENDPOINT", "http://169.254.129.5:8081/msi/token");
  set("IDENTITY_HEADER", "header");
  EXPECT_EQ(chosen(), "managed identity");
  for (const char* const url :
       {"http://10.0.0.1:8081/msi/token", "http://169.254.129.5@h.example/", "http://h.example/"}) {
    set("IDENTITY_ENDPOINT", url);
    EXPECT_THAT(chosen(), HasSubstr("IDENTITY_ENDPOINT: refused")) << url;
  }
  unset("IDENTITY_ENDPOINT");
  set("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://169.254.129.5");
  EXPECT_THAT(chosen(), HasSubstr("AZURE_POD_IDENTITY_AUTHORITY_HOST: refused"));
}

TEST_F(AzureSettingsTest, MachineIsKnownByItsTag) {
  const TemporaryDirectory temporary;
  EXPECT_TRUE(is_tag_of_azure(temporary.write("azure", "7783-7084-3265-9085-8269-3286-77\n")));
  EXPECT_FALSE(is_tag_of_azure(temporary.write("other", "No Asset Tag\n")));
  EXPECT_FALSE(is_tag_of_azure(temporary.path("missing")));
}

TEST_F(AzureSettingsTest, ConnectionStringHasAccountKeyAndEndpoint) {
  set("AZURE_STORAGE_CONNECTION_STRING", std::string("DefaultEndpointsProtocol=https;AccountName=abc;AccountKey=") +
                                             kKey + ";EndpointSuffix=core.chinacloudapi.cn;");
  auto found = Settings::of_user().value();
  EXPECT_EQ(found.account, "abc");
  EXPECT_EQ(found.secret, kKey);
  EXPECT_EQ(found.endpoint, "https://abc.blob.core.chinacloudapi.cn");
  set("AZURE_STORAGE_CONNECTION_STRING",
      "BlobEndpoint=https://xyz.blob.core.windows.net/;SharedAccessSignature=sig=a=b");
  found = Settings::of_user().value();
  EXPECT_EQ(found.account, "xyz");
  EXPECT_EQ(found.secret, "sig=a=b");
  set("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true");
  found = Settings::of_user().value();
  EXPECT_EQ(found.account, "devstoreaccount1");
  EXPECT_EQ(found.endpoint, "http://127.0.0.1:10000/devstoreaccount1");
  EXPECT_EQ(found.auth, Auth::shared_key);
}

TEST_F(AzureSettingsTest, EndpointOfAConnectionStringWithoutKeysIsUsed) {
  set("AZURE_STORAGE_CONNECTION_STRING", "AccountName=abc;BlobEndpoint=https://store.example/abc");
  set("AZURE_STORAGE_ACCOUNT_KEY", kKey);
  const auto found = Settings::of_user().value();
  EXPECT_EQ(found.endpoint, "https://store.example/abc");
  EXPECT_EQ(found.account, "abc");
  EXPECT_EQ(found.keys_from, "$AZURE_STORAGE_ACCOUNT_KEY");
}

TEST_F(AzureSettingsTest, EndpointIsOfItsAccountOnly) {
  set("AZURE_STORAGE_CONNECTION_STRING", "AccountName=abc;BlobEndpoint=https://abc.blob.core.windows.net");
  set("AZURE_STORAGE_ACCOUNT_NAME", "xyz");
  const auto other = Settings::of_user().value();
  EXPECT_EQ(other.account, "xyz");
  EXPECT_EQ(other.endpoint, "");
  unset("AZURE_STORAGE_CONNECTION_STRING");
  unset("AZURE_STORAGE_ACCOUNT_NAME");
  set("AZURE_STORAGE_ENDPOINT", "https://foo.blob.core.chinacloudapi.cn/");
  const auto found = Settings::of_user().value();
  EXPECT_EQ(found.account, "foo");
  EXPECT_EQ((Place{"foo", "models"}.url(found)), "https://foo.blob.core.chinacloudapi.cn/models");
  EXPECT_EQ((Place{"bar", "models"}.url(found)), "https://bar.blob.core.windows.net/models");
  EXPECT_EQ((Place{"foo", "models", "core.windows.net"}.url(found)), "https://foo.blob.core.windows.net/models");
}

TEST_F(AzureSettingsTest, InvalidSettingsAreRefusedWithoutTheirSecrets) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"AZURE_STORAGE_CONNECTION_STRING", "TOPSECRET"},
      {"AZURE_STORAGE_CONNECTION_STRING", "AccountKey=TOPSECRET"},
      {"AZURE_STORAGE_CONNECTION_STRING", "AccountName=abc;AccountKey=TOPSECRET!"},
      {"AZURE_STORAGE_CONNECTION_STRING", "AccountName=abc;BlobEndpoint=https://h/?TOPSECRET"},
      {"AZURE_STORAGE_ACCOUNT_KEY", "TOPSECRET!"},
      {"AZURE_STORAGE_SAS_TOKEN", "TOPSECRET"},
      {"AZURE_CLIENT_SECRET", "TOPSECRET"},
      {"AZURE_STORAGE_ENDPOINT", "https://user:TOPSECRET@h"}};
  for (const auto& [name, value] : cases) {
    set(name, value);
    EXPECT_THAT(chosen(), testing::StartsWith("error: " + name)) << name;
    EXPECT_THAT(chosen(), Not(HasSubstr("TOPSECRET"))) << name;
    unset(name);
  }
}

TEST_F(AzureSettingsTest, InvalidSettingsAreANoteForAUrl) {
  set("AZURE_CLIENT_SECRET", "TOPSECRET");
  const Settings found = Settings::of_user_if_valid();
  EXPECT_EQ(found.auth, Auth::anonymous);
  EXPECT_EQ(found.note, "AZURE_CLIENT_SECRET: needs AZURE_TENANT_ID and AZURE_CLIENT_ID");
  set("AZURE_STORAGE_ACCOUNT_KEY", kKey);
  EXPECT_EQ(Settings::of_user_if_valid().auth, Auth::shared_key);
}

TEST_F(AzureSettingsTest, NoSecretIsSentOverPlainHttp) {
  set("AZURE_STORAGE_ENDPOINT", "http://10.0.0.1:10000/abc");
  set("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=x");
  const Settings found = Settings::of_user().value();
  EXPECT_EQ(found.auth, Auth::anonymous);
  EXPECT_EQ(found.secret, "");
  EXPECT_EQ(found.note,
            "the signature of $AZURE_STORAGE_SAS_TOKEN is not sent over plain http (AZURE_STORAGE_ENDPOINT)");
  EXPECT_EQ(found.endpoint, "http://10.0.0.1:10000/abc");
  set("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:10000/abc");
  EXPECT_EQ(chosen(), "$AZURE_STORAGE_SAS_TOKEN");
  set("AZURE_STORAGE_ENDPOINT", "http://10.0.0.1:10000/abc");
  set("AZURE_STORAGE_ACCOUNT_KEY", kKey);
  EXPECT_EQ(chosen(), "$AZURE_STORAGE_ACCOUNT_KEY") << "only a signature of the request is sent";
  unset("AZURE_STORAGE_SAS_TOKEN");
  unset("AZURE_STORAGE_ACCOUNT_KEY");
  set("AZURE_TENANT_ID", "tenant");
  set("AZURE_CLIENT_ID", "client");
  set("AZURE_CLIENT_SECRET", "secret");
  const Settings other = Settings::of_user().value();
  EXPECT_EQ(other.auth, Auth::anonymous);
  EXPECT_EQ(other.key_source, nullptr);
}

TEST_F(AzureSettingsTest, TokensAreRequestedFromSafeServersOnly) {
  set("AZURE_TENANT_ID", "tenant");
  set("AZURE_CLIENT_ID", "client");
  set("AZURE_CLIENT_SECRET", "secret");
  set("AZURE_AUTHORITY_HOST", "http://login.example");
  EXPECT_THAT(chosen(), HasSubstr("AZURE_AUTHORITY_HOST: must be a URL of https"));
  unset("AZURE_CLIENT_SECRET");
  set("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://10.0.0.1");
  EXPECT_THAT(chosen(), HasSubstr("AZURE_POD_IDENTITY_AUTHORITY_HOST: refused"));
}

TEST_F(AzureSettingsTest, KeysAreLeftOutOffline) {
  set("AZURE_STORAGE_ACCOUNT_NAME", "abc");
  set("AZURE_STORAGE_ACCOUNT_KEY", kKey);
  const Settings found = Settings::of_user().value().without_keys();
  EXPECT_EQ(found.account, "abc");
  EXPECT_EQ(found.secret, "");
  EXPECT_EQ(found.auth, Auth::anonymous);
}

}  // namespace
}  // namespace weightfs::azure::settings_test
