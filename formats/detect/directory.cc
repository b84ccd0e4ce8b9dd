// Directories that are one model of a format: which file names them (Format::directory).
#include <fmt/core.h>

#include <algorithm>

#include "formats/archive/archive_formats.h"
#include "formats/detect/probe.h"
#include "formats/flat_formats.h"

namespace weightfs {
namespace detect {
namespace {

using Entry = std::optional<std::string>;
using Rows = std::vector<const Format*>;

// What identifies an entry besides its name and the other files.
enum class Told { nothing, first_bytes, content };

Told told_by(const DirectoryForm& form) {
  return form.is_matched ? Told::first_bytes : form.identifies != nullptr ? Told::content : Told::nothing;
}

// Calls `visit` with each of the names until it returns true; returns whether it did.
bool any_name(std::string_view names, const std::function<bool(std::string_view name)>& visit) {
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(' '));
    if (visit(name)) return true;
    names.remove_prefix(std::min(name.size() + 1, names.size()));
  }
  return false;
}

// Whether the file in the folder surely is of this format.
bool is_of(const Format& format, const Folder& folder, const std::string& name) {
  const auto bytes = folder.open(name);
  const auto probe = bytes ? ContainerProbe::at_both_ends({name, *bytes}) : tl::unexpected(bytes.error());
  return probe && probe->match(format) == Match::yes;
}

class Directory {
 public:
  Directory(const std::vector<std::string>& names, const Folder& folder) : names_(names), folder_(folder) {}

  /// The entry of the first of these formats that the directory is a model of, of those that are told by `told`.
  Result<Entry> find(const Rows& rows, Told told) const {
    for (const Format* const format : rows) {
      if (format->directory.entry.empty() || told_by(format->directory) != told) continue;
      if (Entry entry = named_entry(format->directory); entry && TRY(is_identified(*format, *entry))) return entry;
    }
    return std::nullopt;
  }

  /// The entry of such a directory that is the only one in this directory.
  Result<Entry> find_below(const Format& format) const {
    const DirectoryForm& form = format.directory;
    const std::string* only = nullptr;
    for (const std::string& name : names_) {
      if (name.starts_with('.') || name == "__MACOSX") continue;
      if (only != nullptr) return std::nullopt;
      only = &name;
    }
    if (only == nullptr) return std::nullopt;
    const auto open = [&](std::string_view path) { return folder_.open_below(fmt::format("{}/{}", *only, path), ""); };
    const auto entry = open(form.entry);
    const bool is_one = entry && form.has_companion([&](std::string_view path) { return open(path).has_value(); }) &&
                        TRY(form.identifies(*entry));
    return is_one ? Entry(fmt::format("{}/{}", *only, form.entry)) : std::nullopt;
  }

 private:
  bool exists(std::string_view name) const { return std::ranges::binary_search(names_, name); }

  // The entry by its name and the other files.
  Entry named_entry(const DirectoryForm& form) const {
    Entry found;
    any_name(form.entry, [&](std::string_view name) {
      found = name.starts_with('*') ? only_with(name.substr(1)) : exists(name) ? Entry(name) : std::nullopt;
      return found.has_value();
    });
    const auto is_there = [&](std::string_view path) {
      return exists(path) || (path.find('/') != path.npos && folder_.open_below(path, "").has_value());
    };
    if (!found || !form.has_companion(is_there) || (form.fits != nullptr && !form.fits(*found, names_)))
      return std::nullopt;
    return found;
  }

  Entry only_with(std::string_view suffix) const {
    const auto has_suffix = [&](std::string_view name) { return name.ends_with(suffix); };
    if (std::ranges::count_if(names_, has_suffix) != 1) return std::nullopt;
    return *std::ranges::find_if(names_, has_suffix);
  }

  Result<bool> is_identified(const Format& format, const std::string& entry) const {
    if (format.directory.is_matched) return is_of(format, folder_, entry);
    if (format.directory.identifies == nullptr) return true;
    const auto bytes = folder_.open(entry);
    return bytes && TRY(format.directory.identifies(*bytes));
  }

  const std::vector<std::string>& names_;
  const Folder& folder_;
};

}  // namespace
}  // namespace detect

bool DirectoryForm::has_companion(const std::function<bool(std::string_view path)>& exists) const {
  return companions.empty() || detect::any_name(companions, exists);
}

Result<std::optional<std::string>> model_entry_file(const std::vector<std::string>& names, const Folder& folder) {
  using detect::Told;
  const detect::Directory directory(names, folder);
  detect::Rows archives, others;
  for (const Format& format : formats().subspan(kFirstFormats.size(), archive::kArchiveFormats.size()))
    archives.push_back(&format);
  // From the last row on: that decides if a directory has the entries of several.
  for (const auto rows : {formats().last(kLastFormats.size()), formats().first(kFirstFormats.size())})
    for (auto row = rows.rbegin(); row != rows.rend(); ++row) others.push_back(&*row);
  if (auto entry = TRY(directory.find(archives, Told::nothing))) return entry;
  for (const Told told : {Told::nothing, Told::first_bytes, Told::content})
    if (auto entry = TRY(directory.find(others, told))) return entry;
  // Last the entry files with a common name (metadata.json), which have to be read.
  if (auto entry = TRY(directory.find(archives, Told::content))) return entry;
  for (const Format* const format : archives)
    if (format->directory.is_below_others)
      if (auto entry = TRY(directory.find_below(*format))) return entry;
  return std::nullopt;
}

}  // namespace weightfs
