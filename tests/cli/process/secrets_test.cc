#include "cli/process/secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace weightfs::secrets_test {
namespace {

using testing::ElementsAre;

// What take_arguments() leaves of an argument; checks that its copy is complete.
std::string shown(const std::string& argument) {
  std::string program = "weightfs";
  std::string left = argument;
  std::vector<char*> argv = {program.data(), left.data(), nullptr};
  EXPECT_THAT(take_arguments(2, argv.data()), ElementsAre(argument));
  EXPECT_EQ(program, "weightfs");
  return left;
}

TEST(Secrets, UserPasswordAndQueryOfUrlsAreOverwritten) {
  EXPECT_EQ(shown("https://host/m.gguf?X-Sig=a/b&c@d:e"), "https://host/m.gguf?***************");
  EXPECT_EQ(shown("https://me:p@ss@host:1/m?x"), "https://*******@host:1/m?*");
  EXPECT_EQ(shown("--mirror=host=http://me:pw@mirror"), "--mirror=host=http://*****@mirror");
  EXPECT_EQ(shown("https://host?x"), "https://host?*");
  EXPECT_EQ(shown("https://host/m#a?b"), "https://host/m#a?*");
}

TEST(Secrets, OtherArgumentsAreKept) {
  for (const char* const argument : {"", "mount", "-o", "a@b?c", "/models/a?b", "hf://org/repo@main", "://", "https://",
                                     "oci://host/name@sha256:00", "https://host/a@b"})
    EXPECT_EQ(shown(argument), argument);
}

TEST(Secrets, ProgramWithoutArgumentsHasNone) {
  char* none = nullptr;
  EXPECT_THAT(take_arguments(0, &none), ElementsAre());
}

TEST(Secrets, KeysOfTheEnvironmentAreOverwritten) {
  for (const std::string name : {"AZURE_CLIENT_SECRET", "IDENTITY_HEADER", "MSI_SECRET", "http_proxy", "HTTP_PROXY"}) {
    static std::string entry;  // a part of the environment
    entry = name + "=TOPSECRET";
    ::putenv(entry.data());
    forget_logins();
    EXPECT_EQ(std::getenv(name.c_str()), nullptr) << name;
    EXPECT_EQ(entry.find("SECRET", name.size()), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace weightfs::secrets_test
