#include "cli/systemd/inherited.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/process/child_process.h"
#include "cli/systemd/notify.h"

namespace weightfs::service {
namespace {

std::optional<int> number_at_begin(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

std::vector<int> kept_descriptors(int argc, const char* const* argv) {
  std::vector<int> kept = passed_descriptors();
  for (int i = 1; i < argc; ++i)
    for (const std::string_view directory : {"/dev/fd/", "/proc/self/fd/"}) {
      const std::string_view argument = argv[i];
      const size_t at = argument.find(directory);
      if (at == argument.npos) continue;
      if (const auto number = number_at_begin(argument.substr(at + directory.size()))) kept.push_back(*number);
    }
  return kept;
}

}  // namespace

void close_inherited_descriptors(int argc, const char* const* argv) { close_all_but(kept_descriptors(argc, argv)); }

}  // namespace weightfs::service
