#include "cli/serve/browser.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "cli/process/child_process.h"

namespace weightfs {
namespace {

bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool is_on_path(std::string_view program) {
  const char* const path = std::getenv("PATH");
  const std::string_view all = path == nullptr ? "" : path;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find(':', begin), all.size());
    const std::string file = std::string(all.substr(begin, end - begin)) + "/" + std::string(program);
    if (::access(file.c_str(), X_OK) == 0) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

bool has_browser() {
  return is_on_path("xdg-open") && (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") || is_set("BROWSER"));
}

void open_in_browser(const std::string& url) { run_program({"setsid", "--fork", "xdg-open", url}, Stderr::captured); }

}  // namespace weightfs
