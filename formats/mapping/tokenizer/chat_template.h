// tokenizer.chat_template: the Jinja text that formats a conversation.
#pragma once

#include "base/result.h"
#include "base/values/value.h"
#include "formats/mapping/keys.h"
#include "formats/mapping/repository.h"

namespace weightfs::mapping {

/// Adds the template of tokenizer_config.json, else chat_template.jinja and additional_chat_templates/, else the one in
/// chat_template.json; of a list, named templates come before the default. Fails with unsupported if a template has
/// more than 4 MiB, with corrupt if a file is damaged, and as reading does.
Result<void> add_chat_template(Repository& repository, const Map& tokenizer_config, Keys& keys);

}  // namespace weightfs::mapping
