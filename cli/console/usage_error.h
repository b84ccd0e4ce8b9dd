// What is wrong with a command line, said so that it can be put right.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace weightfs {

/// In one line: a command or an option that there is not, and those that may have been meant; else what the parser
/// says.
std::string mistake_in(const CLI::App& app, int argc, char** argv, const std::string& problem);

}  // namespace weightfs
