#include "cli/console/error_json.h"

#include "cli/console/map_of.h"
#include "formats/other_files.h"

namespace weightfs {

Map error_fields(const Error& error) { return map_of({{"code", error_name(error)}, {"message", error.message}}); }

Map failed_source(std::string_view source, const Error& error) {
  return map_of({{"source", source}, {"error", error_fields(error)}});
}

}  // namespace weightfs
