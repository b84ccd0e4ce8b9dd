// Exceptions of a thread that makes a blob, as failures: one that got out of it would end the process.
#pragma once

#include <exception>
#include <new>

#include "base/result.h"

namespace weightfs {

/// What whoever waits gets when a making is ended.
inline Error cancelled() { return Error{Code::resource, "cancelled while it was being made"}; }

inline Error out_of_memory() noexcept { return Error{Code::resource, "out of memory"}; }  // too short to be allocated

inline Error told(const std::exception& error) noexcept {
  try {
    return Error{Code::resource, error.what()};
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

/// What `work` returns, or the failure that its exception stands for.
template <class Work>
Result<void> caught(Work work) noexcept {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return tl::unexpected(out_of_memory());
  } catch (const std::exception& error) {
    return tl::unexpected(told(error));
  }
}

}  // namespace weightfs
