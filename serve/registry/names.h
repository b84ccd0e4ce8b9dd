// Names of repositories and tags (OCI distribution-spec, "Pulling manifests"), as models have them.
#pragma once

#include <string>
#include <string_view>

namespace weightfs::distribution {

/// The name of a file or directory as a component of a repository's name: in lower case, and what the specification
/// does not permit is a hyphen. "model" if nothing is left.
std::string component_of(std::string_view name);

/// Whether a text of a request, in any case of letters (Ollama keeps it), is a component of a repository's name.
bool is_component(std::string_view text);

/// Whether it is a tag: up to 128 letters, digits, `_`, `.` and `-`, not beginning with the last two.
bool is_tag(std::string_view text);

/// Whether it is a digest of an algorithm other than SHA-256 (image-spec, descriptor.md, "Registered algorithms"). It
/// is valid, but no content has it here.
bool is_other_digest(std::string_view text);

/// The name of a file of weights without its ending: "llama" of "llama.gguf"; any other name unchanged.
std::string_view without_ending(std::string_view name);

/// What the last component of a SOURCE says: the name of the model in it, and its tag, which may be empty.
struct SourceName {
  std::string name;
  std::string tag;
};
SourceName name_of_source(std::string_view source);

}  // namespace weightfs::distribution
