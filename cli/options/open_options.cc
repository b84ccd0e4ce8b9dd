#include "cli/options/open_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "report/text/words.h"

namespace weightfs {

Options opening_options(OpenOptions& open_options) {
  std::vector<std::string> choices;
  for (const Format& format : formats()) choices.emplace_back(format.name);
  const std::string names = enumerated(choices);
  const auto take_format = [&open_options, names](const std::string& name) -> Result<void> {
    open_options.forced = format_named(name);
    if (open_options.forced == nullptr)
      return failure(Code::unsupported, fmt::format("unknown format {}; known formats: {}", quoted(name), names));
    return {};
  };
  return {{"format", "NAME", "format of every source: " + names + " (default: detected)", take_format, 0, choices},
          flag('v', "verbose", "print the formats that were tried, and why each refused it, if a file is not a model",
               open_options.lists_tried),
          flag("all", "in a directory, also show files that are not models", open_options.all_files),
          {"file", "PATH", "path of the file in a directory, repository or archive that is opened (default: its model)",
           [&open_options](const std::string& path) -> Result<void> {
             if (!is_plain_path(path))
               return failure(Code::unsupported, fmt::format("--file: {} is not a path below SOURCE", quoted(path)));
             open_options.file = path;
             return {};
           }},
          flag("follow-links",
               "follow symbolic links of any owner out of SOURCE (default: only if the mounting user owns the "
               "link and its target)",
               open_options.access.follow_links)};
}

namespace {

Option require_digest_option(OpenOptions& open_options) {
  return flag("require-digest", "refuse a SOURCE on a server that does not name its bytes by a digest or a commit",
              open_options.require_digest);
}

}  // namespace

Option layout_option(LayoutParts& layout) {
  std::string names;
  for (const std::string_view name : kLayoutParts) names += fmt::format("{}{}", names.empty() ? "" : ",", name);
  return {"layout",
          "LIST",
          "entries in the directory of a model, of " + names + " (default: all)",
          [&layout, names](const std::string& value) -> Result<void> {
            layout.clear();
            for (std::string_view rest = value;;) {
              const std::string_view name = rest.substr(0, rest.find(','));
              const auto* const found = std::ranges::find(kLayoutParts, name);
              if (found == kLayoutParts.end())
                return failure(Code::unsupported,
                               fmt::format("unknown entry {}; known entries: {}", quoted(name), names));
              layout.add(static_cast<LayoutPart>(found - kLayoutParts.begin()));
              if (name.size() == rest.size()) return {};
              rest.remove_prefix(name.size() + 1);
            }
          },
          0,
          {kLayoutParts.begin(), kLayoutParts.end()}};
}

Argument source_argument(SourceInput& input) {
  return argument("SOURCE",
                  "a model file, a directory of models, an Ollama store, a URL, or a name such as ollama:llama3.2 or "
                  "hf://org/repo",
                  input.source);
}

std::vector<OptionGroup> source_options(SourceInput& input, Options own) {
  return source_options(input.open_options, input.store_flags, std::move(own));
}

std::vector<OptionGroup> source_options(OpenOptions& open_options, StoreFlags& store_flags, Options own) {
  Options reading = opening_options(open_options);
  reading.push_back(sandbox_option(store_flags));
  Options network = network_options(store_flags);
  network.push_back(require_digest_option(open_options));
  std::vector<OptionGroup> groups = {
      {"Reading", std::move(reading)}, {"Cache", cache_options(store_flags)}, {"Network", std::move(network)}};
  for (OptionGroup& group : groups)  // `verify --tree` writes a block list, and `mount --verbose` also logs more
    std::erase_if(group.options, [&](const Option& option) {
      return std::any_of(own.begin(), own.end(), [&](const Option& mine) { return mine.name == option.name; });
    });
  groups.insert(groups.begin(), {"Options", std::move(own)});
  return groups;
}

Options all_source_options(OpenOptions& open_options, StoreFlags& store_flags) {
  Options all;
  for (OptionGroup& group : source_options(open_options, store_flags, {}))
    std::move(group.options.begin(), group.options.end(), std::back_inserter(all));
  return all;
}

}  // namespace weightfs
