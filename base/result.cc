#include "base/result.h"

namespace weightfs {

Error::Error() noexcept = default;
Error::Error(Code the_code, std::string the_message) noexcept : code(the_code), message(std::move(the_message)) {}
Error::Error(const Error&) = default;
Error::Error(Error&&) noexcept = default;
Error& Error::operator=(const Error&) = default;
Error& Error::operator=(Error&&) noexcept = default;
Error::~Error() = default;

}  // namespace weightfs
