// The names of the repositories of a server: those that clients of the Hub accept.
#pragma once

#include <string>
#include <string_view>

namespace weightfs::hub {

inline constexpr std::string_view kLocal = "local";  ///< the organization of all models
inline constexpr std::string_view kViews = "views";  ///< of their views, too; also their directory in the tree

/// A name of the tree as the NAME of a repository. Letters, digits and `_` are kept, also single `.` and `-` between
/// them; each run of others is one `-`. At most 96 characters, and not with `.git` at its end. May be empty.
std::string repository_name(std::string_view name);

/// The name of the model that is the only one of a server, from its SOURCE: "demo.gguf" of a path, "repo" of
/// "hf://org/repo@COMMIT"; never empty.
std::string name_of_source(std::string_view source);

/// Whether it is "ORG/NAME" of such characters.
bool is_repository_id(std::string_view id);

/// Whether it is 40 hex digits in lower case.
bool is_commit(std::string_view text);

}  // namespace weightfs::hub
