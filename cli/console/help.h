// Formats --help: wrapped at the width of the terminal.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace weightfs {

class Help : public CLI::Formatter {
 public:
  Help();

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode mode) const override;
  std::string make_subcommand(const CLI::App* verb) const override;

 private:
  std::string entry(const std::string& name, const std::string& text) const;
};

}  // namespace weightfs
