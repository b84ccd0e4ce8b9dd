#include "cli/console/source_error.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "report/text/errors.h"
#include "sources/source.h"

namespace weightfs {
namespace {

// Whether the message has the source at its begin already, and not only as the begin of a longer name.
bool begins_with(std::string_view message, std::string_view source) {
  if (!message.starts_with(source)) return false;
  const std::string_view rest = message.substr(source.size());
  return rest.empty() || rest.front() == ' ' || rest.front() == '/' || rest.starts_with(": ") || rest.front() == ';';
}

// "hf://org/repo/path" for "hf://org/repo@main/path".
std::string without_revision(std::string_view name) {
  const size_t at = name.find('@');
  if (at == name.npos) return std::string(name);
  const std::string_view rest = name.substr(at);
  return fmt::format("{}{}", name.substr(0, at), rest.substr(std::min(rest.find('/'), rest.size())));
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
  if (is_path(source)) return error_at(shown, error);
  const std::string_view first = message.substr(0, message.find(": "));
  if (first.size() < message.size() && without_revision(first) == without_revision(shown) &&
      !message.starts_with(shown))
    return with_message(error, shown + std::string(message.substr(first.size())));
  return message.find(shown) != message.npos ? error : error_at(shown, error);
}

}  // namespace weightfs
