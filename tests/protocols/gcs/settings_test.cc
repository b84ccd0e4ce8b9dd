// Which tokens are used, by the environment and the files of the user.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>

#include "protocols/gcs.h"
#include "protocols/gcs/machine.h"
#include "protocols/s3/key_source.h"
#include "protocols/s3/user_keys.h"
#include "tests/support/scripted_client.h"
#include "tests/support/temporary.h"

namespace weightfs::gcs::settings_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class GcsSettings : public testing::Test {
 protected:
  GcsSettings() {
    for (const char* const name :
         {"GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_QUOTA_PROJECT", "CLOUDSDK_CONFIG",
          "GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP", "GCE_METADATA_TIMEOUT", "NO_GCE_CHECK",
          "STORAGE_EMULATOR_HOST", "K_SERVICE", "CLOUD_RUN_JOB", "HOME"}) {
      if (const char* const value = std::getenv(name)) before_[name] = value;
      unset(name);
      set_.emplace_back(name);
    }
    set("HOME", temporary_.path("home"));
    set("NO_GCE_CHECK", "true");
  }
  ~GcsSettings() override {
    for (const std::string& name : set_) unset(name);
    for (const auto& [name, value] : before_) set(name, value);
  }

  static void set(const std::string& name, const std::string& value) { ::setenv(name.c_str(), value.c_str(), 1); }
  static void unset(const std::string& name) { ::unsetenv(name.c_str()); }
  std::string write_login(const std::string& name, const std::string& project = "") {
    return temporary_.write(name, R"({"type": "authorized_user", "client_id": "c", "client_secret": "s",
                                      "refresh_token": "r", "quota_project_id": ")" +
                                      project + R"("})");
  }

  // The name of the source, a note, or an error.
  std::string chosen(const s3::BucketFlags& flags = {}) {
    const auto found = settings_of_user(flags);
    if (!found) return "error: " + found.error().message;
    settings_ = *found;
    if (settings_.key_source != nullptr) return settings_.key_source->name();
    return settings_.note.empty() ? "none" : settings_.note;
  }

  TemporaryDirectory temporary_;
  std::map<std::string, std::string> before_;
  std::vector<std::string> set_;
  s3::Settings settings_;
};

TEST_F(GcsSettings, FirstOfTheOrderIsUsed) {
  EXPECT_EQ(chosen(), "none");
  EXPECT_EQ(settings_.endpoint, "https://storage.googleapis.com");
  set("GCE_METADATA_HOST", "metadata.google.internal");
  EXPECT_EQ(chosen(), "instance metadata");
  EXPECT_TRUE(settings_.key_source->is_optional());
  const std::string usual = write_login("home/.config/gcloud/application_default_credentials.json");
  EXPECT_EQ(chosen(), usual);
  EXPECT_THAT(settings_.files, Contains(usual));
  set("CLOUDSDK_CONFIG", temporary_.path("sdk"));
  EXPECT_EQ(chosen(), "instance metadata");
  const std::string moved = write_login("sdk/application_default_credentials.json");
  EXPECT_EQ(chosen(), moved);
  const std::string named = write_login("named.json");
  set("GOOGLE_APPLICATION_CREDENTIALS", named);
  EXPECT_EQ(chosen(), named);
  EXPECT_THAT(settings_.files, ElementsAre(named));
}

TEST_F(GcsSettings, FileOfAVariableMustBeValid) {
  set("GOOGLE_APPLICATION_CREDENTIALS", temporary_.path("absent.json"));
  EXPECT_THAT(chosen(), StartsWith("error: GOOGLE_APPLICATION_CREDENTIALS: " + temporary_.path("absent.json")));
  set("GOOGLE_APPLICATION_CREDENTIALS", temporary_.write("other.json", R"({"type": "gdch_service_account"})"));
  EXPECT_THAT(chosen(), HasSubstr(R"(credentials of type "gdch_service_account" are not supported)"));
  unset("GOOGLE_APPLICATION_CREDENTIALS");
  temporary_.write("home/.config/gcloud/application_default_credentials.json", R"({"type": "other"})");
  EXPECT_THAT(chosen(), HasSubstr(R"(credentials of type "other" are not supported)"));
  EXPECT_EQ(settings_.key_source, nullptr);
}

TEST_F(GcsSettings, FileThatIsBeingWrittenIsNoAnswerToARenewal) {
  write_login("home/.config/gcloud/application_default_credentials.json");
  EXPECT_NE(settings_for_renewal({}).value().key_source, nullptr);
  temporary_.write("home/.config/gcloud/application_default_credentials.json", R"({"type": "auth)");
  EXPECT_FALSE(settings_for_renewal({}));
  temporary_.write("home/.config/gcloud/application_default_credentials.json", "");
  EXPECT_FALSE(settings_for_renewal({}));
  ::unlink(temporary_.path("home/.config/gcloud/application_default_credentials.json").c_str());
  EXPECT_EQ(settings_for_renewal({}).value().key_source, nullptr) << "a logout";
}

TEST_F(GcsSettings, MachineIsAConstantAddressOrLoopback) {
  for (const char* host : {"10.0.0.1", "evil.example", "127.0.0.1/x", "127.0.0.1@evil.example"}) {
    set("GCE_METADATA_HOST", host);
    EXPECT_THAT(chosen(), StartsWith("error: GCE_METADATA_HOST=")) << host;
  }
  set("GCE_METADATA_HOST", "127.0.0.1:8080");
  EXPECT_EQ(chosen(), "instance metadata");
  unset("GCE_METADATA_HOST");
  unset("NO_GCE_CHECK");
  EXPECT_EQ(chosen(), is_machine_of_google() ? "instance metadata" : "none");
  set("K_SERVICE", "a service of Cloud Run");
  EXPECT_EQ(chosen(), "instance metadata");
  set("NO_GCE_CHECK", "true");
  EXPECT_EQ(chosen(), "none");
  unset("NO_GCE_CHECK");
  unset("K_SERVICE");
  EXPECT_TRUE(is_product_of_google(temporary_.write("product", "Google Compute Engine\n")));
  EXPECT_FALSE(is_product_of_google(temporary_.write("product", "Standard PC\n")));
  EXPECT_FALSE(is_product_of_google(temporary_.path("absent")));
}

TEST_F(GcsSettings, EmulatorGetsOnlyTokensThatAVariableNames) {
  write_login("home/.config/gcloud/application_default_credentials.json");
  set("STORAGE_EMULATOR_HOST", "localhost:4443");
  EXPECT_EQ(chosen(), "none");
  EXPECT_EQ(settings_.endpoint, "http://localhost:4443");
  const std::string named = write_login("named.json");
  set("GOOGLE_APPLICATION_CREDENTIALS", named);
  EXPECT_EQ(chosen(), named);
  set("STORAGE_EMULATOR_HOST", "http://192.0.2.1:4443/");
  EXPECT_EQ(chosen(), "tokens are sent to https and loopback only");
  EXPECT_EQ(settings_.endpoint, "http://192.0.2.1:4443");
}

TEST_F(GcsSettings, ProjectPaysIfTheUserDoes) {
  const s3::BucketFlags pays{.requester_pays = true};
  EXPECT_THAT(chosen(pays), HasSubstr("set GOOGLE_CLOUD_QUOTA_PROJECT"));
  set("GOOGLE_CLOUD_PROJECT", "third");
  EXPECT_EQ(chosen(pays), "none");
  EXPECT_EQ(settings_.project, "third");
  set("GOOGLE_APPLICATION_CREDENTIALS", write_login("named.json", "second"));
  chosen(pays);
  EXPECT_EQ(settings_.project, "second");
  set("GOOGLE_CLOUD_QUOTA_PROJECT", "first");
  chosen(pays);
  EXPECT_EQ(settings_.project, "first");
  for (const bool is_asked : {false, true}) {
    s3::Settings settings;
    settings.flags.requester_pays = is_asked;
    const auto credentials = credentials_for(std::make_shared<s3::UserKeys>(settings), "first", nullptr);
    if (is_asked)
      EXPECT_THAT(credentials->headers("GET", "u"), ElementsAre("x-goog-user-project: first"));
    else
      EXPECT_THAT(credentials->headers("GET", "u"), IsEmpty());
    EXPECT_EQ(credentials->authorization(), "");
  }
}

// A server refuses a token with 401 and a challenge.
TEST_F(GcsSettings, RefusedTokenIsReplaced) {
  set("GOOGLE_APPLICATION_CREDENTIALS", write_login("named.json"));
  chosen();
  int count = 0;
  const auto client = std::make_shared<test::ScriptedClient>([&](const http::Request& /*request*/) {
    return test::page(200, R"({"access_token": "t)" + std::to_string(++count) + R"(", "expires_in": 3600})");
  });
  const auto tokens = std::make_shared<s3::UserKeys>(settings_, [this]() -> Result<s3::Settings> { return settings_; });
  const auto credentials = credentials_for(tokens, "", client);
  ASSERT_TRUE(credentials->prepare({}));
  EXPECT_EQ(credentials->authorization(), "Bearer t1");
  EXPECT_EQ(credentials->on_unauthorized({}, {0, "Bearer t1"}, {}), true);
  EXPECT_EQ(credentials->authorization(), "Bearer t2");
  EXPECT_EQ(credentials->on_unauthorized({}, {0, "Bearer t1"}, {}), true);
  EXPECT_EQ(credentials->on_unauthorized({}, {0, "Bearer t2"}, {}), false);
  EXPECT_EQ(count, 2);
  EXPECT_THAT(credentials->description(), StartsWith("tried with a token of " + temporary_.path("named.json")));
}

}  // namespace
}  // namespace weightfs::gcs::settings_test
