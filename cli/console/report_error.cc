#include "cli/console/report_error.h"

#include <fmt/core.h>

#include <cstdio>

#include "base/text.h"

namespace weightfs {

void log_to_stderr(const std::string& line) { std::fprintf(stderr, "weightfs: %s\n", printable(line).c_str()); }

Exit report_error(const Error& error) { return report_error(error, exit_of(error.code)); }

Exit report_error(const Error& error, Exit status) {
  log_to_stderr(error.message);
  return status;
}

std::string without_name(std::string_view path, const std::string& message) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  for (const std::string_view name : {path, path.substr(path.rfind('/') + 1)}) {
    const std::string begin = printable(name) + ": ";
    if (message.starts_with(begin)) return message.substr(begin.size());
  }
  return message;
}

Error error_at(std::string_view path, const Error& error) {
  return with_message(error, fmt::format("{}: {}", printable(path), without_name(path, error.message)));
}

}  // namespace weightfs
