#include "formats/mapping/hub/hub_files.h"

#include <fmt/core.h>

#include "base/text.h"
#include "base/values/rendering.h"
#include "formats/mapping/hub/hub_config.h"
#include "formats/mapping/hub/hub_tokenizer.h"
#include "formats/mapping/hub/tokenizer_settings.h"

namespace weightfs::mapping {
namespace {

using HubText = Result<std::string> (*)(const Model& gguf, Budget& budget);

void add_text(HubFiles& out, const ModelPtr& gguf, std::string_view name, HubText text) {
  out.files.push_back({name, Later<SourcePtr>([gguf, text]() -> Result<SourcePtr> {
                         const BudgetPtr budget = gguf->budget != nullptr ? gguf->budget : std::make_shared<Budget>(0);
                         return charged_text(TRY(text(*gguf, *budget)), budget);
                       })});
}

void add_reason(HubFiles& out, std::string_view name, const Error& error) {
  out.not_made.push_back(fmt::format("{}: not made: {}", name, printable(error.message)));
}

}  // namespace

HubFiles hub_files(const ModelPtr& gguf) {
  HubFiles out;
  if (const auto checked = check_hub_config(*gguf))
    add_text(out, gguf, "config.json", hub_config);
  else
    add_reason(out, "config.json", checked.error());
  if (const auto settings = tokenizer_settings(*gguf)) {
    add_text(out, gguf, "tokenizer.json", hub_tokenizer);
    add_text(out, gguf, "tokenizer_config.json", hub_tokenizer_config);
  } else {
    add_reason(out, "tokenizer.json", settings.error());
  }
  return out;
}

}  // namespace weightfs::mapping
