#include "fs/fuse/interrupts.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace weightfs::interrupts_test {
namespace {

using namespace fuse;

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
  KilledReader killed(child);
  EXPECT_FALSE(killed());
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  while (!killed()) ::usleep(1000);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(killed());
  KilledReader gone(child);
  while (!gone()) ::usleep(1000);
}

TEST(KilledReader, InvisibleAndLiveThreadsAreNotKilled) {
  KilledReader hidden(0);
  KilledReader self(::getpid());
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(hidden());
    EXPECT_FALSE(self());
    ::usleep(1000);
  }
}

}  // namespace
}  // namespace weightfs::interrupts_test
