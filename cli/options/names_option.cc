#include "cli/options/names_option.h"

#include <fmt/core.h>

namespace weightfs {

Option names_option(compare::NameMatching& field) {
  return {"names",
          "NAMES",
          "mapped: compare a repository of the Hub with a GGUF by the names and values that the GGUF has; as-stored "
          "(default: mapped)",
          [&field](const std::string& name) -> Result<void> {
            if (name != "mapped" && name != "as-stored")
              return failure(Code::unsupported, fmt::format("unknown names {}; use mapped or as-stored", quoted(name)));
            field = name == "mapped" ? compare::NameMatching::mapped : compare::NameMatching::as_stored;
            return {};
          },
          0,
          {"mapped", "as-stored"}};
}

}  // namespace weightfs
