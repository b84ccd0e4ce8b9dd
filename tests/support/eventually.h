// The wait of a test for what another thread or process does.
#pragma once

#include <chrono>
#include <thread>

namespace weightfs::test {

/// Whether the condition holds now or within this time. The time is only used up if it does not. With a short one, a
/// test shows that something does not happen.
template <class Condition>
bool eventually(Condition condition, std::chrono::milliseconds time = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // it polls
  }
  return true;
}

}  // namespace weightfs::test
