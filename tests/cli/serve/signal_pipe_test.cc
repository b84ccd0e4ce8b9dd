// What ends the wait of a server: a signal, or the end of its standard input (--until-eof).
#include "cli/serve/signal_pipe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "base/os/descriptor.h"

namespace weightfs::signal_pipe_test {
namespace {

using namespace std::chrono_literals;

constexpr auto kNever = 1h;  // a test that waits for so long has failed

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    read = Descriptor(ends[0]);
    write = Descriptor(ends[1]);
  }
  Descriptor read, write;
};

// Restores what the process of the tests did with the signals.
class SignalPipeTest : public testing::Test {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], nullptr, &before_[i]);
  }
  void TearDown() override {
    for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  }

  Pipe input;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
  std::array<struct sigaction, kSignals.size()> before_{};
};

TEST_F(SignalPipeTest, ClosedInputEndsTheWait) {
  auto signals = SignalPipe::open();
  ASSERT_TRUE(signals);
  signals->start();
  EXPECT_EQ(signals->wait(1ms, input.read.number()), std::nullopt) << "an open input does not";
  input.write = Descriptor();
  EXPECT_EQ(signals->wait(kNever, input.read.number()), std::nullopt);
}

TEST_F(SignalPipeTest, InputEndsTheWait) {
  auto signals = SignalPipe::open();
  ASSERT_TRUE(signals);
  ASSERT_EQ(::write(input.write.number(), "x", 1), 1);
  EXPECT_EQ(signals->wait(kNever, input.read.number()), std::nullopt);
}

TEST_F(SignalPipeTest, SignalIsReceivedBesideTheInput) {
  auto signals = SignalPipe::open();
  ASSERT_TRUE(signals);
  signals->start();
  ASSERT_EQ(::raise(SIGHUP), 0);
  EXPECT_EQ(signals->wait(kNever, input.read.number()), SIGHUP);
  ASSERT_EQ(::raise(SIGTERM), 0);
  EXPECT_EQ(signals->wait(kNever), SIGTERM);
}

}  // namespace
}  // namespace weightfs::signal_pipe_test
