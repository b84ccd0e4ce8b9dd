// The files of a repository that a GGUF has besides its tensors (docs/formats/gguf.md, "Hub repositories").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/later.h"
#include "formats/model.h"

namespace weightfs::mapping {

/// A file of a repository besides its tensors.
struct HubFile {
  std::string_view name;  ///< "config.json"
  Later<SourcePtr> text;
};

struct HubFiles {
  std::vector<HubFile> files;
  std::vector<std::string> not_made;  ///< a line each: the name of a file, and the reason
};

/// config.json, tokenizer.json and tokenizer_config.json of a GGUF with has_hub_names(). Reads nothing. A text is made
/// when it is used; it is charged to the model's budget while it exists.
HubFiles hub_files(const ModelPtr& gguf);

}  // namespace weightfs::mapping
