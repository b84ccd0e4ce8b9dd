// The texts that come with a language model: chat templates, the system prompt, parameters of generation, the licence.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/model.h"

namespace weightfs::tokenizer {

enum class TextKind { chat_template, system, parameters, licence };

struct ModelText {
  std::string name;       ///< of a chat template: "default", "tool_use"; else that of its kind
  std::string stated_in;  ///< the key or the file that has it
  std::string text;       ///< any bytes
  bool is_go = false;     ///< a chat template of Go, not of Jinja
};

/// The texts of a kind, as the model has them. Of chat templates, the default is first:
/// - the layers `template` of an Ollama model, then the keys tokenizer.chat_template of its GGUF,
/// - else those keys, else those of tokenizer_config.json, chat_template.jinja or chat_template.json beside the model.
/// Parameters are lines of a name and a value, as of `ollama show --parameters`. Fails with unsupported if a text has
/// more than 4 MiB, with corrupt if a file is damaged, and as reading does.
Result<std::vector<ModelText>> texts_of(const Model& model, TextKind kind);

/// A document below metadata/ for each chat template in the keys of a GGUF: "metadata/tokenizer.chat_template.jinja".
/// Reads nothing.
std::vector<Document> template_documents(const ModelPtr& model);

/// Whether the model has none of these, and files that may have chat templates.
bool may_have_template_files(const Model& model);

/// The documents of the chat templates in these files, which are read. A damaged file has none.
Result<std::vector<Document>> documents_of_template_files(const Model& model);

}  // namespace weightfs::tokenizer
