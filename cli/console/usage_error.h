// Error messages for invalid command lines.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace weightfs {

/// The message in one line: an unknown command or option with suggestions, else the parser's message.
std::string usage_error(const CLI::App& app, int argc, char** argv, const std::string& problem);

}  // namespace weightfs
