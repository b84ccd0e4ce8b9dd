#include "cli/options/open_options.h"

#include "base/text.h"

namespace weightfs {

Options opening_options(OpenOptions& opening) {
  std::string names;
  for (const Format& format : formats()) names += str(names.empty() ? "" : ", ", format.name);
  const auto take_format = [&opening, names](const std::string& name) -> Result<void> {
    opening.forced = format_named(name);
    if (opening.forced == nullptr)
      return failure(Code::unsupported, str("no format ", quoted(name), "; there are ", names));
    return {};
  };
  return {
      {"format", "NAME", "read every source as this format: " + names, take_format},
      flag("all", "in a directory, show files that are no model too, as they are", opening.all_files),
      flag("follow-links",
           "follow symbolic links that lead out of SOURCE, whichever user owns them (default: only where the mounting "
           "user owns the link and its target)",
           opening.access.follow_links)};
}

void add_opening_options(CLI::App& verb, OpenOptions& opening) {
  add_options(verb, opening_options(opening), "Reading");
}

}  // namespace weightfs
