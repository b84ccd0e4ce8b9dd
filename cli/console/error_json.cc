#include "cli/console/error_json.h"

#include "formats/other_files.h"

namespace weightfs {

Map error_fields(const Error& error) {
  Map fields;
  fields.append("code", error_name(error));
  fields.append("message", error.message);
  return fields;
}

Map failed_source(std::string_view source, const Error& error) {
  Map out;
  out.append("source", source);
  out.append("error", error_fields(error));
  return out;
}

}  // namespace weightfs
