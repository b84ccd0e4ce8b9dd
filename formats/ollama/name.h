// An Ollama model name, `hf.co/someone/model:Q4_K_M`, with the defaults for missing parts. As in types/model/name.go of
// Ollama.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/result.h"

namespace weightfs::ollama {

struct Name {
  std::string scheme = "https";  ///< or http
  std::string host = "registry.ollama.ai";
  std::string name_space = "library";
  std::string model;
  std::string tag = "latest";
  std::optional<Digest> digest = {};  ///< of the manifest, if the name includes it

  /// The shortest form, always with the tag: "llama3.2:latest", "someone/model:7b".
  std::string shortest() const;

  friend bool operator==(const Name&, const Name&) = default;
};

/// Parses `[http[s]://][host/][namespace/]model[:tag][@sha256:digest]`. Fails with unsupported, naming the invalid
/// part: parts are 1 to 80 letters, digits, `_`, `-` and `.` that begin with a letter, digit or `_`; a namespace has no
/// `.`; a host may have `:` and 350 characters.
Result<Name> parse_name(std::string_view text);

/// The name of a manifest by its path below manifests/, `host/namespace/model/tag`; nothing if the path does not have
/// four valid parts, as with files of other programs.
std::optional<Name> name_of_path(std::string_view path);

}  // namespace weightfs::ollama
