// tokenizer.chat_template: the Jinja text that formats a conversation.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/values/value.h"
#include "formats/mapping/keys.h"
#include "formats/mapping/repository.h"

namespace weightfs::mapping {

struct ChatTemplate {
  std::string name;  ///< "default", "tool_use"
  std::string text;
  std::string file;  ///< that has it
};

/// The templates of the first of these that has one: tokenizer_config.json, chat_template.jinja (together with
/// additional_chat_templates/), chat_template.json; at most 101. Fails with unsupported if a template has more than
/// 4 MiB, with corrupt if a file is damaged, and as reading does. `tokenizer_config` may be null.
Result<std::vector<ChatTemplate>> read_chat_templates(const Model& model, summary::SmallFiles& files,
                                                      const Map* tokenizer_config);

/// Adds these templates. A list has a key for each name, and the default comes last. Fails as read_chat_templates()
/// does.
Result<void> add_chat_template(Repository& repository, const Map& tokenizer_config, Keys& keys);

}  // namespace weightfs::mapping
