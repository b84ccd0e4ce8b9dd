#include "fs/fuse/interrupts.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "tests/support/eventually.h"

namespace weightfs::interrupts_test {
namespace {

using namespace fuse;

constexpr std::chrono::milliseconds kAtOnce{0};

pid_t sleeping_child() {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  return child;
}

// A zombie counts as ended.
TEST(KilledReader, EndedThreadIsDetected) {
  const pid_t child = sleeping_child();
  ASSERT_GT(child, 0);
  KilledReader killed(child, kAtOnce, kAtOnce);
  EXPECT_FALSE(killed());
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_TRUE(test::eventually([&] { return killed(); }));
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(killed());
  KilledReader gone(child, kAtOnce, kAtOnce);
  EXPECT_TRUE(gone());
}

TEST(KilledReader, InvisibleAndLiveThreadsAreNotKilled) {
  KilledReader hidden(0, kAtOnce, kAtOnce);
  KilledReader self(::getpid(), kAtOnce, kAtOnce);
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(hidden());
    EXPECT_FALSE(self());
  }
}

// Most reads end before the first look, and need no file of /proc.
TEST(KilledReader, IsNotLookedAtAtOnce) {
  const pid_t child = sleeping_child();
  ASSERT_GT(child, 0);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  KilledReader killed(child, std::chrono::hours(1), kAtOnce);
  EXPECT_FALSE(killed());
  KilledReader later(child, kAtOnce, std::chrono::hours(1));
  EXPECT_TRUE(later());
}

}  // namespace
}  // namespace weightfs::interrupts_test
