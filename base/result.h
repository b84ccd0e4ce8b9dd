// What every fallible call in weightfs returns: a value, or one of seven kinds of failure with a sentence.
// Malformed input is a normal case here: it is a value, never an exception.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace weightfs {

/// The seven kinds of failure. Which errno and which exit status each becomes is decided in fs/fuse/operations.cc and
/// cli/exit.h.
enum class Code {
  not_found,    ///< the thing that was named does not exist
  corrupt,      ///< the bytes break a rule of their format
  unsupported,  ///< the bytes may be right, but this reader does not know them
  mismatch,     ///< the bytes are not those of the digest they are known by
  unavailable,  ///< cannot be had now; trying again may help
  unreachable,  ///< the network does not give it now, or must not be asked; trying again may help
  io,           ///< the system refused, or the file changed under us
};

/// A failure: what was found and what was expected, in lower case, naming the thing.
struct Error {
  Code code;
  std::string message;
};

/// Whether it was what the bytes hold that failed: then it fails again. A disk or a network that fails says nothing
/// about the bytes.
inline bool is_about_the_bytes(const Error& error) {
  return error.code == Code::corrupt || error.code == Code::mismatch || error.code == Code::unsupported;
}

template <class T>
using Result = tl::expected<T, Error>;

/// Makes a failure that converts to any Result.
inline tl::unexpected<Error> failure(Code code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace weightfs

/// Evaluates to the value of a Result, or returns its error from the enclosing function.
/// The parentheses around a statement are a GNU extension, which both compilers that we build with have.
/// Not in a braced list: when it returns from there, g++ 12 and clang 14 leak what stands before it.
#define TRY(expression)                                                                         \
  __extension__({                                                                               \
    auto try_result_ = (expression);                                                            \
    if (!try_result_) return tl::unexpected<::weightfs::Error>(std::move(try_result_).error()); \
    std::move(try_result_).value();                                                             \
  })

/// The same for a Result<void>.
#define TRY_VOID(expression)                                                    \
  do {                                                                          \
    if (auto try_result_ = (expression); !try_result_)                          \
      return tl::unexpected<::weightfs::Error>(std::move(try_result_).error()); \
  } while (false)
