#include "report/text/terminal.h"

#include <sys/ioctl.h>

namespace weightfs {

std::optional<size_t> columns_of(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return std::nullopt;
  return size.ws_col;
}

}  // namespace weightfs
