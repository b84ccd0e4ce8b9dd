// What a model says about itself in texts: the model card, the chat template, the tokenizer, the settings for
// generation.
#pragma once

#include <string>
#include <string_view>

#include "formats/summary/small_files.h"
#include "formats/summary/summary.h"

namespace weightfs::summary {

/// The maximum number of names of chat templates.
inline constexpr size_t kMaxTemplateNames = 100;

/// Notes whether a chat template (Jinja, or Go for Ollama) has tools and thinking. It is not run.
void describe_template(std::string_view text, Summary& out);

/// `ORG/NAME` at the end of a URL of a repository; empty if it has none.
std::string repository_in(std::string_view url);

/// Whether a text is ORG/NAME, not a path.
bool is_repository_name(std::string_view text);

/// Licence, base model, tags and languages of the front matter of README.md: the keys with a scalar, a list in brackets
/// or a list of items. Sets only fields that are still empty.
void describe_card(std::string_view readme, Summary& out);

/// `instance_prompt` of the card: the words that make an adapter of pictures show what it was trained with.
std::string instance_prompt(SmallFiles& files);

/// The card, the tokenizer, chat templates and the settings for generation in the files beside the model.
void describe_texts(SmallFiles& files, Summary& out);

}  // namespace weightfs::summary
