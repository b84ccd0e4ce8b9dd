#include "cli/console/source_error.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/text.h"
#include "report/text/errors.h"
#include "sources/source.h"

namespace weightfs {
namespace {

// Whether the message has the source at its begin already, and not only as the begin of a longer name.
bool begins_with(std::string_view message, std::string_view source) {
  if (!message.starts_with(source)) return false;
  const std::string_view rest = message.substr(source.size());
  constexpr std::string_view kAfter = " /;@";  // a revision that the source leaves out names it more exactly
  return rest.empty() || kAfter.find(rest.front()) != kAfter.npos || rest.starts_with(": ");
}

// "hf://org/repo/path" for "hf://org/repo@main/path".
std::string without_revision(std::string_view name) {
  const size_t at = name.find('@');
  if (at == name.npos) return std::string(name);
  const std::string_view rest = name.substr(at);
  return fmt::format("{}{}", name.substr(0, at), rest.substr(std::min(rest.find('/'), rest.size())));
}

// A path from the root, without `.`, `..` and doubled slashes; also of a file that does not exist.
std::filesystem::path normal_path(std::string_view path) {
  std::error_code error;
  auto out = std::filesystem::absolute(path, error).lexically_normal();
  return out.has_filename() ? out : out.parent_path();
}

// Whether `first`, with which a message begins, is the source in other words: its path from the root, a quoted name,
// another revision, a scheme in other letters.
bool is_other_name(std::string_view first, const std::string& shown) {
  if (first.starts_with('/')) return normal_path(printable(first)) == normal_path(shown);
  if (first.size() > 2 && first.front() == '"' && first.back() == '"') {
    const std::string_view name = first.substr(1, first.size() - 2);
    const size_t before = shown.size() - std::min(shown.size(), name.size());
    return shown.ends_with(name) && (before == 0 || shown[before - 1] == '/' || shown[before - 1] == ':');
  }
  return first.find(':') != first.npos && lower_case(without_revision(first)) == lower_case(without_revision(shown));
}

}  // namespace

Error error_of_source(const std::string& source, const Error& error) {
  std::string shown = printable(printable_source(source));
  while (shown.size() > 1 && shown.ends_with('/')) shown.pop_back();
  const std::string_view message = error.message;
  if (shown.empty() || begins_with(message, shown)) return error;
  if (const std::string absolute = is_path(source) ? printable(absolute_path(source).value_or("")) : "";
      absolute.size() > 1 && begins_with(message, absolute))
    return with_message(error, shown + std::string(message.substr(absolute.size())));
  const std::string_view first = message.substr(0, message.find(": "));
  if (first.size() < message.size() && is_other_name(first, shown))
    return with_message(error, shown + std::string(message.substr(first.size())));
  if (is_path(source)) return error_at(shown, error);
  return message.find(shown) != message.npos ? error : error_at(shown, error);
}

}  // namespace weightfs
