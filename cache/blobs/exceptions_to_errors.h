// Converts exceptions in producer threads to errors: an uncaught exception would terminate the process.
#pragma once

#include <exception>
#include <new>

#include "base/result.h"

namespace weightfs::blobs {

/// The error that waiting readers get when a producer is cancelled.
inline Error cancelled_error() { return Error{Code::resource, "cancelled before it was complete"}; }

inline Error out_of_memory() noexcept {
  return Error{Code::resource, "out of memory"};
}  // short enough for the small string optimization

inline Error to_error(const std::exception& error) noexcept {
  try {
    return Error{Code::resource, error.what()};
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

/// Returns the result of `work`, or the error for its exception.
template <class Work>
Result<void> exceptions_to_errors(Work work) noexcept {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return tl::unexpected(out_of_memory());
  } catch (const std::exception& error) {
    return tl::unexpected(to_error(error));
  }
}

}  // namespace weightfs::blobs
