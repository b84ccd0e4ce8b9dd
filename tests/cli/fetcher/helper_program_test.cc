#include "cli/fetcher/helper_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "tests/support/temporary.h"

namespace weightfs::test::helper_program_test {
namespace {

using End = HelperRun::End;
using testing::Contains;
using testing::Not;

class HelperProgramTest : public testing::Test {
 protected:
  HelperRun run(const std::string& script, std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
    const std::string path = temporary.write("helper", "#!/bin/sh\n" + script + "\n");
    ::chmod(path.c_str(), 0755);
    return run_helper(path, "h.example\n", timeout);
  }
  const TemporaryDirectory temporary;
};

TEST_F(HelperProgramTest, GetsItsInputAndPrintsItsOutput) {
  const HelperRun done = run("read server; echo \"$1 $server $(pwd)\"; echo noise >&2; exit 3");
  EXPECT_EQ(done.end, End::exited);
  EXPECT_EQ(done.status, 3);
  EXPECT_EQ(done.text, "get h.example /\n");
}

TEST_F(HelperProgramTest, HangingProgramIsKilled) {
  EXPECT_EQ(run("sleep 1000", std::chrono::milliseconds(200)).end, End::timed_out);
  EXPECT_EQ(run("exec >&-; sleep 1000", std::chrono::milliseconds(200)).end, End::timed_out);
}

TEST_F(HelperProgramTest, LongOutputIsRefused) {
  EXPECT_EQ(run("head -c 1000000 /dev/zero").end, End::too_long);
  EXPECT_EQ(run("cat /dev/zero").end, End::too_long);
  EXPECT_EQ(run("head -c 32768 /dev/zero").text.size(), kMaxHelperOutput);
}

// It holds the pipe open.
TEST_F(HelperProgramTest, ProcessThatIsLeftBehindIsNotWaitedFor) {
  const HelperRun done = run("sleep 20 & echo done", std::chrono::seconds(10));
  EXPECT_EQ(done.end, End::exited);
  EXPECT_EQ(done.text, "done\n");
}

TEST_F(HelperProgramTest, KilledOrMissingProgramHasNoAnswer) {
  EXPECT_EQ(run("echo text; kill -9 $$").end, End::not_run);
  EXPECT_EQ(run_helper(temporary.path("none"), "", std::chrono::seconds(30)).status, 127);
}

TEST_F(HelperProgramTest, CannotGainPrivileges) {
  EXPECT_EQ(run("grep NoNewPrivs /proc/self/status").text, "NoNewPrivs:\t1\n");
}

TEST_F(HelperProgramTest, EnvironmentHasNoSecrets) {
  ::setenv("HF_TOKEN", "secret", 1);
  ::setenv("AWS_PROFILE", "work", 1);
  ::setenv("https_proxy", "http://me:secret@proxy.example", 1);
  ::setenv("http_proxy", "http://proxy.example", 1);
  EXPECT_THAT(helper_environment(), Contains("AWS_PROFILE=work"));
  EXPECT_THAT(helper_environment(), Contains("http_proxy=http://proxy.example"));
  EXPECT_THAT(run("env").text, Not(testing::HasSubstr("secret")));
  for (const char* const name : {"HF_TOKEN", "AWS_PROFILE", "https_proxy", "http_proxy"}) ::unsetenv(name);
}

}  // namespace
}  // namespace weightfs::test::helper_program_test
