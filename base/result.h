// The return type of every call that can fail: a value, or an Error of one of ten codes. Malformed input is an
// ordinary result here, never an exception.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace weightfs {

/// The kinds of failure. fs/adapters/error_numbers.h maps them to an errno and to a status of HTTP, cli/exit.h to
/// an exit status.
enum class Code {
  not_found,    ///< the named thing does not exist
  corrupt,      ///< the bytes break a rule of their format
  unsupported,  ///< the bytes may be valid, but this reader does not support them
  forbidden,    ///< a rule, a permission or a server refuses access
  mismatch,     ///< the bytes do not match their digest
  resource,     ///< a local resource is short (memory, a descriptor), or the work was cancelled; a retry may succeed
  network,      ///< the network or a server failed, or --offline forbids it; a retry may succeed
  unreachable,  ///< no server has answered: its name does not resolve, it refuses connections, or is not trusted
  io,           ///< a system call failed, or the file changed while it was open
  stale,        ///< the file or directory was removed or replaced since it was looked up; look it up again
  absent,       ///< a name is listed, and what it stands for does not exist
};
inline constexpr size_t kCodes = 11;

/// A failure. The message is in lower case: the name of the thing, the found and the expected value.
/// Its special members are not inline: nearly every function makes, moves or destroys one.
struct Error {
  Error() noexcept;
  Error(Code the_code, std::string the_message) noexcept;
  Error(const Error&);
  Error(Error&&) noexcept;
  Error& operator=(const Error&);
  Error& operator=(Error&&) noexcept;
  ~Error();

  Code code{};
  std::string message;
  const char* name = nullptr;  ///< for programs, if it says more than the code: "git-lfs-pointer"; a literal
};

/// A copy of the failure with another message.
Error with_message(const Error& error, std::string message);

/// Whether the content of the bytes caused the failure, so that a retry fails again. An error of a disk or a network is
/// not about the bytes.
inline bool is_about_the_bytes(const Error& error) {
  return error.code == Code::corrupt || error.code == Code::mismatch || error.code == Code::unsupported;
}

/// Whether a retry fails again: the bytes, a missing thing, or a refusal caused the failure.
inline bool is_permanent(const Error& error) {
  return is_about_the_bytes(error) || error.code == Code::not_found || error.code == Code::forbidden;
}

/// Whether the network or a server is the cause. Reads may wait until this passes; a request is not repeated for
/// unreachable, which is most often a wrong name or a setting.
inline bool is_about_the_network(const Error& error) {
  return error.code == Code::network || error.code == Code::unreachable;
}

/// Whether a later attempt may succeed: a server did not respond, or this machine lacked memory, space or time.
inline bool may_pass(const Error& error) { return is_about_the_network(error) || error.code == Code::resource; }

template <class T>
using Result = tl::expected<T, Error>;

/// Makes a failure that converts to any Result.
inline tl::unexpected<Error> failure(Error error) { return tl::unexpected<Error>(std::move(error)); }
inline tl::unexpected<Error> failure(Code code, std::string message) {
  return failure(Error{code, std::move(message)});
}

/// The failure that a file was changed or replaced since it was opened; it can be opened again.
inline constexpr std::string_view kChangedFile = "changed";
inline tl::unexpected<Error> changed_file(std::string message) {
  Error error(Code::io, std::move(message));
  error.name = kChangedFile.data();
  return failure(std::move(error));
}
inline bool is_changed_file(const Error& error) { return error.name != nullptr && error.name == kChangedFile; }

/// The failure that another server did not respond in time, with code network, or accept a connection, with
/// unreachable.
inline constexpr std::string_view kTimeout = "timeout";
inline Error timeout(std::string message, Code code = Code::network) {
  Error error(code, std::move(message));
  error.name = kTimeout.data();
  return error;
}
inline bool is_timeout(const Error& error) { return error.name != nullptr && error.name == kTimeout; }

/// The failure of a request that was repeated as often as the user permits, with code network: a request that needed it
/// is not repeated.
inline constexpr std::string_view kGivenUp = "given-up";
inline Error given_up(const Error& failed) {
  Error error(failed);
  error.name = kGivenUp.data();
  return error;
}
inline bool is_given_up(const Error& error) { return error.name != nullptr && error.name == kGivenUp; }

/// The result of `work`, or the failure for its exception: with resource for a lack of memory, else with `otherwise`.
/// An uncaught exception would end the process, or leave other threads waiting.
template <class Work>
auto exceptions_to_errors(Work&& work, Code otherwise = Code::resource) noexcept -> decltype(work()) {
  try {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      return failure(otherwise, error.what());
    }
  } catch (const std::bad_alloc&) {
    return failure(Code::resource, "out of memory");  // short enough for the small string optimization
  }
}

}  // namespace weightfs

/// Evaluates to the value of a Result, or returns its error from the enclosing function.
/// The parentheses around a statement are a GNU extension, which both compilers that we build with have.
/// Do not use it in a braced list: if it returns there, g++ 12 and clang 14 leak the preceding elements.
#define TRY(expression)                                                                         \
  __extension__({                                                                               \
    auto try_result_ = (expression);                                                            \
    if (!try_result_) return tl::unexpected<::weightfs::Error>(std::move(try_result_).error()); \
    *std::move(try_result_);                                                                    \
  })

/// TRY for a Result<void>.
#define TRY_VOID(expression)                                                    \
  do {                                                                          \
    if (auto try_result_ = (expression); !try_result_)                          \
      return tl::unexpected<::weightfs::Error>(std::move(try_result_).error()); \
  } while (false)
