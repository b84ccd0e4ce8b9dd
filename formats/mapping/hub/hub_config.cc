#include "formats/mapping/hub/hub_config.h"

#include <fmt/core.h>

#include "base/text.h"
#include "formats/mapping/hub/config_fields.h"

namespace weightfs::mapping {
namespace {

Result<const Architecture*> architecture_of(const Model& gguf) {
  const std::string_view name = text_in(gguf.metadata, "general.architecture");
  const Architecture* const architecture = architecture_named(name);
  if (architecture != nullptr) return architecture;
  return failure(Code::unsupported,
                 fmt::format("transformers has no class that is known here for {}", printable(name)));
}

void add_all(HubConfig& config) {
  add_class(config);
  add_common_fields(config);
  add_fields_of_class(config);
  add_rope_fields(config);
}

}  // namespace

Result<void> check_hub_config(const Model& gguf) {
  HubConfig config(gguf, *TRY(architecture_of(gguf)));
  add_all(config);
  return config.outcome();
}

Result<std::string> hub_config(const Model& gguf, Budget& budget) {
  HubConfig config(gguf, *TRY(architecture_of(gguf)));
  add_all(config);
  TRY_VOID(config.outcome());
  Map fields = config.fields();
  TRY_VOID(add_rope_factors(config, fields));
  return to_json(Value(std::move(fields)), budget);
}

}  // namespace weightfs::mapping
