#include "base/result.h"

namespace weightfs {

Error::Error() noexcept = default;
Error::Error(Code the_code, std::string the_message) noexcept : code(the_code), message(std::move(the_message)) {}
Error::Error(const Error&) = default;
Error::Error(Error&&) noexcept = default;
Error& Error::operator=(const Error&) = default;
Error& Error::operator=(Error&&) noexcept = default;
Error::~Error() = default;

Error with_message(const Error& error, std::string message) {
  Error out(error.code, std::move(message));
  out.name = error.name;
  return out;
}

}  // namespace weightfs
