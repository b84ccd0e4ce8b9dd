#include "cli/console/report_error.h"

#include <cstdio>

#include "base/text.h"

namespace weightfs {

void log_to_stderr(const std::string& line) { std::fprintf(stderr, "weightfs: %s\n", printable(line).c_str()); }

Exit report_error(const Error& error) { return report_error(error, exit_of(error.code)); }

Exit report_error(const Error& error, Exit status) {
  log_to_stderr(error.message);
  return status;
}

}  // namespace weightfs
