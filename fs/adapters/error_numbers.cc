#include "fs/adapters/error_numbers.h"

#include <cerrno>

namespace weightfs {

int errno_of(Failed what, Code code) {
  switch (code) {
    case Code::not_found:
      return what == Failed::read ? EIO : ENOENT;
    case Code::forbidden:
      return what == Failed::read ? EACCES : EIO;
    case Code::network:
    case Code::unreachable:
      return EHOSTUNREACH;
    case Code::stale:
      return ESTALE;  // the kernel resolves the path again
    default:
      return EIO;
  }
}

int http_status_of(const Error& error) {
  switch (error.code) {
    case Code::not_found:
      return 404;
    case Code::forbidden:
      return 403;
    case Code::corrupt:
    case Code::mismatch:
    case Code::unsupported:
      return 502;
    case Code::network:
      return is_timeout(error) ? 504 : 503;
    case Code::unreachable:
      return is_timeout(error) ? 504 : 502;
    case Code::resource:
    case Code::stale:
      return 503;
    case Code::io:
    case Code::absent:
      return is_changed_file(error) ? 503 : 500;  // the model is opened again
  }
  return 500;
}

}  // namespace weightfs
