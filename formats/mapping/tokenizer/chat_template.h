// tokenizer.chat_template: the Jinja text that formats a conversation.
#pragma once

#include "base/result.h"
#include "base/values/value.h"
#include "formats/mapping/keys.h"
#include "formats/mapping/repository.h"

namespace weightfs::mapping {

/// Adds the template of the first of these that has one: tokenizer_config.json, chat_template.jinja (together with
/// additional_chat_templates/), chat_template.json. A list has a key for each name, and the default comes last. Fails
/// with unsupported if a template has more than 4 MiB, with corrupt if a file is damaged, and as reading does.
Result<void> add_chat_template(Repository& repository, const Map& tokenizer_config, Keys& keys);

}  // namespace weightfs::mapping
