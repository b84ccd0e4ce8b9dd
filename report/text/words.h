// Texts for messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weightfs {

/// "1 file", "2 files".
std::string counted(uint64_t count, std::string_view one, std::string_view many);

/// The texts that are not empty, with commas in between; before the last one stands `last`: "a, b or c".
std::string enumerated(const std::vector<std::string>& texts, std::string_view last = ", ");

/// "models/a" for "a" in "models" or "models/"; one of them if the other is empty.
std::string join_path(std::string_view path, std::string_view below);

/// `text` as a word of a command that users copy to a shell. Nothing if it has control characters or bytes that are not
/// UTF-8: then no command is shown, because their printable form is another name.
std::optional<std::string> command_word(std::string_view text);

}  // namespace weightfs
