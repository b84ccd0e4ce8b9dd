#include "report/text/errors.h"

#include <fmt/core.h>

#include "base/text.h"
#include "formats/other_files.h"
#include "report/text/map_of.h"

namespace weightfs {

Map error_fields(const Error& error) { return map_of({{"code", error_name(error)}, {"message", error.message}}); }

Map failed_source(std::string_view source, const Error& error) {
  return map_of({{"source", source}, {"error", error_fields(error)}});
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
