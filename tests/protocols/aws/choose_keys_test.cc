// Which keys are used, by the environment and the files of the user.
#include "protocols/aws/choose_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "protocols/aws/key_sources.h"
#include "tests/support/scripted_client.h"
#include "tests/support/temporary.h"

namespace weightfs::aws::choose_keys_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ChooseKeysTest : public testing::Test {
 protected:
  ChooseKeysTest() {
    for (char** each = environ; *each != nullptr; ++each)
      if (const std::string entry = *each; entry.starts_with("AWS_"))
        before_[entry.substr(0, entry.find('='))] = entry.substr(entry.find('=') + 1);
    for (const auto& [name, value] : before_) ::unsetenv(name.c_str());
    set("HOME", temporary_.path("home"));
    set("AWS_EC2_METADATA_DISABLED", "true");
  }
  ~ChooseKeysTest() override {
    for (const std::string& name : set_) ::unsetenv(name.c_str());
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
    if (!home_.empty()) ::setenv("HOME", home_.c_str(), 1);
  }

  void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
  }
  void credentials(const std::string& text) { temporary_.write("home/.aws/credentials", text); }
  void config(const std::string& text) { temporary_.write("home/.aws/config", text); }

  // "id of FROM", the name of the source, a note, or an error.
  std::string chosen(const s3::BucketFlags& flags = {}) {
    const auto found = s3::Settings::of_user(flags);
    if (!found) return "error: " + found.error().message;
    source_ = found->key_source;
    files_ = found->files;
    if (found->keys) return found->keys->id + " of " + found->keys_from;
    if (source_ != nullptr) return source_->name();
    return found->note.empty() ? "none" : found->note;
  }
  // The requests of the source that was chosen, answered with an error.
  std::vector<http::Request> requests() {
    test::ScriptedClient client([](const http::Request& request) {
      if (request.method == http::Request::Method::put) return test::page(200, "token");
      return test::page(400, "");
    });
    EXPECT_FALSE(source_->obtain(client, {}));
    return client.requests();
  }

  TemporaryDirectory temporary_;
  const std::string home_ = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  std::map<std::string, std::string> before_;
  std::vector<std::string> set_;
  s3::KeySourcePtr source_;
  std::vector<std::string> files_;
};

constexpr const char* kStatic = "aws_access_key_id = id\naws_secret_access_key = secret\n";

// The order of botocore: each line takes away what came first.
TEST_F(ChooseKeysTest, FirstSourceThatIsSetIsUsed) {
  const std::string token = temporary_.write("token", "x");
  const std::string file = temporary_.write("keys.json", "{}");
  set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x");
  set("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1");
  set("AWS_WEB_IDENTITY_TOKEN_FILE", token);
  set("AWS_ROLE_ARN", "arn:of:environment");
  set("AWS_ACCESS_KEY_ID", "environment");
  set("AWS_SECRET_ACCESS_KEY", "secret");
  const std::string sso = "sso_start_url = https://s.example\nsso_region = r\nsso_account_id = 1\nsso_role_name = r\n";
  const std::string role = "role_arn = arn:of:profile\nsource_profile = default\n";
  credentials("[default]\n" + std::string(kStatic));
  config("[default]\n" + role + sso);
  EXPECT_EQ(chosen({.credentials_file = file}), "--credentials-file " + file);
  EXPECT_EQ(chosen(), "environment of $AWS_ACCESS_KEY_ID");
  ::unsetenv("AWS_ACCESS_KEY_ID");
  ::unsetenv("AWS_SECRET_ACCESS_KEY");
  EXPECT_EQ(chosen(), "the role arn:of:profile");
  config("[default]\n" + sso);
  EXPECT_EQ(chosen(), "STS web identity");
  EXPECT_THAT(files_, Contains(token));
  ::unsetenv("AWS_WEB_IDENTITY_TOKEN_FILE");
  EXPECT_EQ(chosen(), "single sign-on");
  config("[default]\nregion = r\n");
  EXPECT_EQ(chosen(), "id of " + temporary_.path("home/.aws/credentials"));
  credentials("");
  EXPECT_EQ(chosen(), "container metadata");
  ::unsetenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  EXPECT_EQ(chosen(), "none") << "instance metadata is disabled";
  ::unsetenv("AWS_EC2_METADATA_DISABLED");
  EXPECT_EQ(chosen(), "instance metadata");
}

TEST_F(ChooseKeysTest, MetadataIsAskedOnAnInstanceOrByName) {
  ::unsetenv("AWS_EC2_METADATA_DISABLED");
  EXPECT_EQ(chosen(), is_instance_of_ec2() ? "instance metadata" : "none");
  EXPECT_TRUE(is_vendor_of_ec2(temporary_.write("vendor", "Amazon EC2\n")));
  EXPECT_FALSE(is_vendor_of_ec2(temporary_.write("vendor", "QEMU\n")));
  EXPECT_FALSE(is_vendor_of_ec2(temporary_.path("absent")));
  set("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv6");
  EXPECT_EQ(chosen(), "instance metadata");
  EXPECT_EQ(requests().front().url, "http://[fd00:ec2::254]/latest/api/token");
  EXPECT_TRUE(source_->is_optional());
}

TEST_F(ChooseKeysTest, ContainerIsAConstantAddressOrOneThatMayGiveKeys) {
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://10.0.0.1/x?secret=1");
  set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "token");
  EXPECT_THAT(chosen(), AllOf(StartsWith("error: AWS_CONTAINER_CREDENTIALS_FULL_URI=http://10.0.0.1/x: refused"),
                              Not(HasSubstr("secret"))));
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials");
  EXPECT_EQ(chosen(), "container metadata");
  EXPECT_EQ(requests().front().url, "http://169.254.170.23/v1/credentials");
  set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x");
  EXPECT_EQ(chosen(), "container metadata");
  EXPECT_EQ(requests().front().url, "http://169.254.170.2/v2/x");
  set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@evil.example/");
  EXPECT_THAT(chosen(), HasSubstr("does not begin with /"));
  set("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://10.0.0.1");
  ::unsetenv("AWS_EC2_METADATA_DISABLED");
  ::unsetenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  ::unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  EXPECT_THAT(chosen(), StartsWith("error: AWS_EC2_METADATA_SERVICE_ENDPOINT=http://10.0.0.1/: refused"));
}

TEST_F(ChooseKeysTest, TokenServiceIsThatOfTheRegion) {
  temporary_.write("token", "x");
  set("AWS_WEB_IDENTITY_TOKEN_FILE", temporary_.path("token"));
  EXPECT_THAT(chosen(), HasSubstr("without AWS_ROLE_ARN"));
  set("AWS_ROLE_ARN", "arn");
  const auto url = [&] {
    EXPECT_EQ(chosen(), "STS web identity");
    return requests().front().url;
  };
  EXPECT_EQ(url(), "https://sts.us-east-1.amazonaws.com/");
  set("AWS_REGION", "cn-north-1");
  EXPECT_EQ(url(), "https://sts.cn-north-1.amazonaws.com.cn/");
  set("AWS_USE_FIPS_ENDPOINT", "true");
  set("AWS_REGION", "us-gov-west-1");
  EXPECT_EQ(url(), "https://sts-fips.us-gov-west-1.amazonaws.com/");
  set("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:8080/");
  EXPECT_EQ(url(), "http://127.0.0.1:8080/");
  set("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true");
  EXPECT_EQ(url(), "https://sts-fips.us-gov-west-1.amazonaws.com/");
  set("AWS_REGION", "evil.example/");
  EXPECT_THAT(chosen(), HasSubstr("not a valid AWS region"));
}

TEST_F(ChooseKeysTest, WebIdentityOfAProfileIsCompletedByTheEnvironment) {
  const std::string token = temporary_.write("token", "x");
  config("[default]\nweb_identity_token_file = " + token + "\nrole_arn = arn:of:profile\nrole_session_name = mine\n");
  EXPECT_EQ(chosen(), "STS web identity");
  EXPECT_THAT(requests().front().body, HasSubstr("RoleArn=arn%3Aof%3Aprofile&RoleSessionName=mine&"));
  set("AWS_ROLE_SESSION_NAME", "other");
  EXPECT_EQ(chosen(), "STS web identity");
  EXPECT_THAT(requests().front().body, HasSubstr("RoleSessionName=other&"));
}

TEST_F(ChooseKeysTest, RoleIsSignedWithTheKeysThatItNames) {
  const std::string role = "[profile work]\nrole_arn = arn\n";
  set("AWS_PROFILE", "work");
  const auto signed_with = [&] {
    EXPECT_EQ(chosen(), "the role arn");
    const auto headers = test::all_headers(requests().back());
    EXPECT_FALSE(headers.empty());
    return headers.empty() ? "" : headers.front();
  };
  credentials("[base]\naws_access_key_id = base\naws_secret_access_key = s\n");
  config(role + "source_profile = base\n");
  EXPECT_THAT(signed_with(), HasSubstr("Credential=base/"));
  config(role + "source_profile = work\naws_access_key_id = own\naws_secret_access_key = s\n");
  EXPECT_THAT(signed_with(), HasSubstr("Credential=own/"));
  config(role + "credential_source = Ec2InstanceMetadata\n");
  EXPECT_EQ(chosen(), "the role arn");
  EXPECT_EQ(requests().front().url, "http://169.254.169.254/latest/api/token");
  set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x");
  config(role + "credential_source = EcsContainer\n");
  EXPECT_EQ(chosen(), "the role arn");
  EXPECT_EQ(requests().front().url, "http://169.254.170.2/v2/x");
}

// The keys of the environment come before every profile, so that Environment only serves roles of other profiles.
TEST_F(ChooseKeysTest, RoleWithoutKeysIsAnError) {
  const std::string role = "[profile work]\nrole_arn = arn\n";
  set("AWS_PROFILE", "work");
  const std::string of_work = "error: the profile \"work\": ";
  const std::map<std::string, std::string> wrong = {
      {"", of_work + "role_arn needs either source_profile or credential_source"},
      {"source_profile = a\ncredential_source = Environment\n",
       of_work + "role_arn needs either source_profile or credential_source"},
      {"source_profile = absent\n", of_work + "its source_profile \"absent\" was not found"},
      {"source_profile = work\n", of_work + "its source_profile leads back to it"},
      {"source_profile = two\n[profile two]\nrole_arn = b\nsource_profile = work\n",
       of_work + "its source_profile leads back to it"},
      {"source_profile = two\n[profile two]\ncredential_process = x\n",
       of_work +
           "no keys for its role; the profile \"two\" uses credential_process, but weightfs runs no programs; write "
           "what it prints to a file for --credentials-file"},
      {"source_profile = a\nmfa_serial = m\n", of_work + "mfa_serial needs a prompt, which is not supported"},
      {"credential_source = Other\n",
       "error: credential_source is \"Other\"; use Environment, Ec2InstanceMetadata or EcsContainer"},
      {"credential_source = Environment\n",
       "error: credential_source is Environment, but AWS_ACCESS_KEY_ID is not set"}};
  for (const auto& [text, message] : wrong) {
    config(role + text);
    EXPECT_EQ(chosen(), message) << text;
  }
}

TEST_F(ChooseKeysTest, SingleSignOnIsOfASessionOrOfTheProfile) {
  set("AWS_PROFILE", "work");
  config(
      "[profile work]\nsso_session = s\nsso_account_id = 1\nsso_role_name = r\n"
      "[sso-session s]\nsso_start_url = https://s.example\nsso_region = eu-west-1\n");
  EXPECT_EQ(chosen(), "single sign-on");
  EXPECT_THAT(files_, Contains(temporary_.path("home/.aws/sso/cache/" + sso_token_file("s"))));
  const std::string own = "sso_start_url = https://s.example\nsso_region = eu-west-1\n";
  config("[profile work]\nsso_account_id = 1\nsso_role_name = r\n" + own);
  EXPECT_EQ(chosen(), "single sign-on");
  EXPECT_THAT(files_, Contains(temporary_.path("home/.aws/sso/cache/" + sso_token_file("https://s.example"))));
  const std::string of_work = "error: the profile \"work\": ";
  const std::map<std::string, std::string> wrong = {
      {"sso_account_id = 1\n" + own, of_work + "single sign-on needs sso_account_id and sso_role_name"},
      {"sso_account_id = 1\nsso_role_name = r\nsso_region = r\n", of_work + "single sign-on without sso_start_url"},
      {"sso_session = absent\nsso_account_id = 1\n", of_work + "its sso_session \"absent\" was not found"},
      {"sso_session = s\nsso_account_id = 1\nsso_role_name = r\n" + own + "[sso-session s]\nsso_region = other\n",
       of_work + "another sso_region than its sso_session"}};
  for (const auto& [text, message] : wrong) {
    config("[profile work]\n" + text);
    EXPECT_EQ(chosen(), message) << text;
  }
}

// Requests are anonymous then, and their refusals have these sentences.
TEST_F(ChooseKeysTest, SettingsThatAreNotSupportedAreNamed) {
  set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x");
  config("[default]\ncredential_process = touch /tmp/x\n");
  EXPECT_EQ(chosen(),
            "the profile \"default\" uses credential_process, but weightfs runs no programs; write what it prints to a "
            "file for --credentials-file");
  config("[default]\nlogin_session = arn\n");
  EXPECT_THAT(chosen(), HasSubstr("login_session (aws login), which is not supported"));
}

TEST_F(ChooseKeysTest, MissingProfileIsAnErrorUnlessKeysComeBeforeIt) {
  set("AWS_PROFILE", "absent");
  set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x");
  EXPECT_EQ(chosen(), "error: AWS profile \"absent\" not found");
  set("AWS_ACCESS_KEY_ID", "id");
  set("AWS_SECRET_ACCESS_KEY", "secret");
  EXPECT_EQ(chosen(), "id of $AWS_ACCESS_KEY_ID");
}

TEST_F(ChooseKeysTest, HostOfAmazonIsForFipsAndIPv6) {
  const auto host = [] {
    const auto found = s3::Settings::of_user();
    return found ? found->host : "error: " + found.error().message;
  };
  EXPECT_EQ(host(), "s3");
  set("AWS_USE_DUALSTACK_ENDPOINT", "true");
  EXPECT_EQ(host(), "s3.dualstack");
  config("[default]\nuse_fips_endpoint = true\n");
  EXPECT_EQ(host(), "s3-fips.dualstack");
  set("AWS_ENDPOINT_URL", "https://store.example");
  EXPECT_EQ(host(), "error: AWS_ENDPOINT_URL contradicts AWS_USE_FIPS_ENDPOINT");
  set("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true");
  EXPECT_EQ(host(), "s3-fips.dualstack");
}

TEST_F(ChooseKeysTest, AuthoritiesAreOfTheVariableThenOfTheProfile) {
  const auto certificates = [] {
    return s3::Settings::of_user().map([](const auto& found) { return found.certificates; });
  };
  EXPECT_TRUE(certificates()->empty());
  config(
      "[default]\nca_bundle = /profile.pem\nsso_account_id = 1\nsso_role_name = r\nsso_start_url = https://x\n"
      "sso_region = eu-west-1\n");
  EXPECT_EQ(certificates()->file, "/profile.pem");
  EXPECT_EQ(certificates()->setting, "ca_bundle of the profile \"default\": /profile.pem");
  set("AWS_CA_BUNDLE", "/variable.pem");
  EXPECT_EQ(certificates()->file, "/variable.pem");
  EXPECT_EQ(certificates()->setting, "AWS_CA_BUNDLE=/variable.pem");
  EXPECT_THAT(s3::Settings::of_user()->files, Contains("/variable.pem"));
}

TEST_F(ChooseKeysTest, AuthoritiesAreThoseOfEachRequestForKeys) {
  set("AWS_CA_BUNDLE", "/variable.pem");
  const auto of_request = [&] {
    chosen();
    return requests().at(0).certificates.file;
  };
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "https://keys.example/x");
  EXPECT_EQ(of_request(), "/variable.pem");
  set("AWS_ROLE_ARN", "arn:x");
  set("AWS_WEB_IDENTITY_TOKEN_FILE", temporary_.write("token", "t"));
  EXPECT_EQ(of_request(), "/variable.pem");
}

TEST_F(ChooseKeysTest, FilesAreThoseThatTheFetcherMustRead) {
  EXPECT_EQ(chosen(), "none");
  EXPECT_THAT(files_, ElementsAre(temporary_.path("home/.aws/credentials"), temporary_.path("home/.aws/config")));
  set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x");
  set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/run/token");
  EXPECT_EQ(chosen(), "container metadata");
  EXPECT_THAT(files_, Contains("/run/token"));
}

}  // namespace
}  // namespace weightfs::aws::choose_keys_test
