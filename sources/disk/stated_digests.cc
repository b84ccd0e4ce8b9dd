#include "sources/disk/stated_digests.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "formats/common/warnings.h"
#include "sources/disk/hub_cache.h"

namespace weightfs {
namespace {

// Bytes.
constexpr uint64_t kMaxOwnList = 64 << 10;
constexpr uint64_t kMaxList = 1 << 20;
constexpr uint64_t kMaxAllLists = 4 << 20;
constexpr uint64_t kMaxManagerNote = 4 << 20;
constexpr uint64_t kChargedForNote = 20;  // for each: parsing takes longer than reading

constexpr size_t kMaxLists = 32;      // for several files, below one directory
constexpr size_t kMaxBelow = 20'000;  // lines about files in directories that are not listed

constexpr std::array<std::string_view, 13> kListSuffixes = {
    ".sha256", ".sha256sum", ".sha256sums", ".sha256.txt", ".sha1",       ".sha1sum", ".md5",
    ".md5sum", ".md5.txt",   ".sha512",     ".sha512sum",  ".sha512sums", ".sha384"};
constexpr std::array<std::string_view, 3> kNoteSuffixes = {".civitai.info", ".metadata.json", ".cm-info.json"};

std::string_view name_in(std::string_view path) { return path.substr(path.rfind('/') + 1); }
std::string_view directory_of(std::string_view path) { return path.substr(0, path.rfind('/') + 1); }
std::string_view stem_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == path.npos || dot <= directory_of(path).size() ? path : path.substr(0, dot);
}

std::string_view without_suffix(std::string_view path, std::span<const std::string_view> suffixes) {
  for (const std::string_view suffix : suffixes)
    if (path.size() > suffix.size() && lower_case(path.substr(path.size() - suffix.size())) == suffix)
      return path.substr(0, path.size() - suffix.size());
  return path;
}

// Lists of several files. The names of the first say the kind of their digests.
constexpr std::array<std::string_view, 14> kKindLists = {
    "sha256sums",   "sha256sum",   "sha256sums.txt", "sha256sum.txt", "sha256.txt", "sha1sums",       "md5sums",
    "sha1sums.txt", "md5sums.txt", "checklist.chk",  "sha512sums",    "sha512sum",  "sha512sums.txt", "b2sums"};
constexpr std::array<std::string_view, 5> kOtherLists = {"checksums.txt", "checksums", "checksum.txt", "checksum",
                                                         "md5.txt"};

bool is_one_of(std::string_view path, std::span<const std::string_view> names) {
  return std::ranges::find(names, lower_case(name_in(path))) != names.end();
}

bool has_list_suffix(std::string_view path) { return without_suffix(path, kListSuffixes) != path; }
bool is_named_list(std::string_view path) { return is_one_of(path, kKindLists) || is_one_of(path, kOtherLists); }
bool is_note(std::string_view path) { return without_suffix(path, kNoteSuffixes) != path; }

}  // namespace

// What matters of the names of the files.
struct StatedDigests::Files {
  std::set<std::string, std::less<>> stating;  // that may state digests
  std::vector<std::string> lists;              // of them, those that may be of several files, the likely ones first
  std::vector<std::string> paths;              // of all files, if there are such lists
  std::map<std::string, size_t, std::less<>> by_stem;  // the number of files that are named as models
  std::set<std::string, std::less<>> sole_stems;       // of lists, with one file besides lists and notes: `model.*`

  // `all` are sorted.
  explicit Files(const std::vector<std::string>& all) {
    std::vector<std::string> others;
    for (const std::string& path : all) {
      const bool is_list = is_named_list(path), has_suffix = has_list_suffix(path);
      if (is_list || has_suffix || is_note(path)) stating.insert(path);
      if (is_list) lists.push_back(path);
      const std::string base(without_suffix(path, kListSuffixes));
      if (!is_list && has_suffix && !std::ranges::binary_search(all, base)) {
        others.push_back(path);
        if (count_of_stem(all, base) == 1) sole_stems.insert(base);
      }
      if (is_named_as_model(name_in(path))) ++by_stem[std::string(stem_of(path))];
    }
    lists.insert(lists.end(), others.begin(), others.end());
    lists.resize(std::min(lists.size(), kMaxLists));
    if (!lists.empty()) paths = all;
  }

  // Whether a note without the suffix of a model is about this one: `model.civitai.info` about `model.safetensors`.
  bool is_only_model(std::string_view path) const {
    const auto found = by_stem.find(stem_of(path));
    return is_named_as_model(name_in(path)) && found != by_stem.end() && found->second == 1;
  }

  // Whether a digest without a name, in `model.sha256`, is the digest of this file, `model.gguf`. Else it may belong to
  // another file with this stem, such as an archive.
  bool is_only_file(std::string_view path) const { return is_only_model(path) && sole_stems.contains(stem_of(path)); }

 private:
  // At most 2.
  static size_t count_of_stem(const std::vector<std::string>& paths, const std::string& stem) {
    const std::string start = stem + ".";
    size_t count = 0;
    for (auto path = std::ranges::lower_bound(paths, start); path != paths.end() && path->starts_with(start); ++path)
      if (!has_list_suffix(*path) && !is_note(*path) && ++count == 2) break;
    return count;
  }
};

// The lists of several files. Of their lines, only those about files of the model are kept.
struct StatedDigests::Lists {
  std::map<std::string, StatedDigest> by_path;
  std::vector<std::string> warnings;

  // `paths`: of the files, sorted; a directory stands for the files below it.
  void add(const std::string& list, std::vector<ListedDigest> lines, const std::vector<std::string>& paths) {
    for (ListedDigest& line : lines) {
      const auto path = normalize(std::string(directory_of(list)) + line.path, Dots::refused);
      if (line.path.empty() || line.path.starts_with('/') || !path) continue;
      const bool is_listed = std::ranges::binary_search(paths, *path);
      const bool is_below =
          path->find('/') != path->npos && std::ranges::binary_search(paths, path->substr(0, path->find('/')));
      if (!is_listed && (!is_below || by_path.size() >= kMaxBelow)) continue;
      keep(*path, std::move(line.digest), list);
    }
  }

  // A list one directory above, which calls that of the files `directory`.
  void add_from_above(const std::string& list, std::vector<ListedDigest> lines, const std::string& directory) {
    for (ListedDigest& line : lines) {
      const auto path = normalize(line.path, Dots::refused);
      if (line.path.starts_with('/') || !path || !path->starts_with(directory + "/")) continue;
      if (by_path.size() < kMaxBelow) keep(path->substr(directory.size() + 1), std::move(line.digest), list);
    }
  }

 private:
  void keep(const std::string& path, FileDigest digest, const std::string& list) {
    StatedDigest& known = by_path[path];
    if (!known.digest.is_supported() || (digest.is_sha256() && !known.digest.is_sha256()))
      known = {std::move(digest), printable(list)};
  }
};

namespace {

// Each line once; a model with thousands of bad files has a hundred of them.
void warn(std::vector<std::string>& warnings, std::string line) {
  if (warnings.size() < kMaxWarnings && std::ranges::find(warnings, line) == warnings.end())
    warnings.push_back(std::move(line));
}

// Takes so many bytes from what may be read, of this file and of all together.
using Take = std::function<Result<void>(uint64_t size)>;

Result<std::string> read_whole(const Location& file, const Take& take) {
  const SourcePtr bytes = TRY(file.open());
  TRY_VOID(take(bytes->size()));
  return read_text(*bytes, 0, bytes->size());
}

Result<void> check_size(uint64_t size, uint64_t most) {
  if (size > most) return failure(Code::unsupported, fmt::format("{} bytes, at most {}", size, most));
  return {};
}

Result<void> take_from(Budget* budget, uint64_t size) {
  return budget == nullptr ? Result<void>() : budget->charge(Cost::input, size);
}

// The lines of a list; none and a warning if it is not valid.
std::vector<ListedDigest> read_list(const Location& top, const std::string& path, const Take& take,
                                    std::vector<std::string>& warnings) {
  const auto text = read_whole(top / path, take);
  std::vector<ListedDigest> lines = text ? parse_checksum_list(*text) : std::vector<ListedDigest>();
  if (!text)
    warn(warnings, fmt::format("{}: {}; not compared with it", quoted(path), text.error().message));
  else if (lines.empty() && !is_one_of(path, kOtherLists))
    warn(warnings, fmt::format("{}: not a list of checksums; not compared with it", quoted(path)));
  return lines;
}

std::optional<Location> directory_above(const Location& directory) {
  if (!directory.name.empty()) return directory.parent();
  const std::string path(parent_of(directory.path()));
  if (path.empty()) return std::nullopt;
  auto found = find_named_file(path);
  if (!found || !S_ISDIR(found->status.st_mode)) return std::nullopt;
  return Location{std::make_shared<ConfinedDirectory>(std::move(found->descriptor), path, Confinement{})};
}

// Calls `add` with the name and the lines of each list one directory above. Above the directory of a SOURCE only lists
// of the user or of root count.
void read_lists_above(const Location& top, const Take& take,
                      const std::function<void(const std::string&, std::vector<ListedDigest>)>& add) {
  const auto above = directory_above(top);
  if (!above) return;
  std::vector<std::string> ignored;  // the list may be of anything else
  for (const std::string& name : names_of_lists_above(last_component(top.path()))) {
    const auto status = (*above / name).examine();
    if (!status || !S_ISREG(status->st_mode)) continue;
    if (top.name.empty() && status->st_uid != 0 && status->st_uid != ::geteuid()) continue;
    add("../" + name, read_list(*above, name, take, ignored));
  }
}

// `model.gguf.sha256`, `model.sha256`: the line with the name of the file, else the only one if that has none.
std::optional<FileDigest> digest_in_own_list(const std::vector<ListedDigest>& lines, std::string_view path) {
  for (const ListedDigest& line : lines)
    if (line.path == name_in(path)) return line.digest;
  return lines.size() == 1 && lines.front().path.empty() ? std::optional(lines.front().digest) : std::nullopt;
}

std::optional<StatedDigest> find_own_list(const Location& top, const std::string& path, const std::string& base,
                                          const std::set<std::string, std::less<>>& lists, Budget* budget,
                                          std::vector<std::string>& warnings) {
  const Take take = [budget](uint64_t size) -> Result<void> {
    TRY_VOID(check_size(size, kMaxOwnList));
    return take_from(budget, size);
  };
  for (const std::string_view suffix : kListSuffixes) {
    const std::string list = base + std::string(suffix);
    if (!lists.contains(list)) continue;
    if (auto digest = digest_in_own_list(read_list(top, list, take, warnings), path))
      return StatedDigest{std::move(*digest), printable(list)};
  }
  return std::nullopt;
}

std::optional<StatedDigest> find_note(const Location& top, const std::string& path,
                                      const std::set<std::string, std::less<>>& notes, Budget* budget,
                                      std::vector<std::string>& warnings) {
  const auto status = (top / path).examine();
  for (const std::string_view suffix : kNoteSuffixes) {
    const std::string note = std::string(stem_of(path)) + std::string(suffix);
    if (!status || !notes.contains(note)) continue;
    const auto bytes = (top / note).open();
    if (!bytes || (*bytes)->size() > kMaxManagerNote) continue;
    if (const auto taken = take_from(budget, kChargedForNote * (*bytes)->size()); !taken) {
      warn(warnings, fmt::format("{}: {}; not compared with it", quoted(note), taken.error().message));
      continue;
    }
    const auto digest = digest_noted_by_manager(**bytes, name_in(path), static_cast<uint64_t>(status->st_size));
    if (!digest) warn(warnings, fmt::format("{}: {}; not compared with it", quoted(note), digest.error().message));
    if (digest && *digest) return StatedDigest{FileDigest{**digest}, printable(note)};
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> names_of_lists_above(std::string_view directory) {
  std::vector<std::string> names;
  const auto add = [&](std::string_view list) {
    names.emplace_back(list);
    std::string& upper = names.emplace_back(list);  // SHA256SUMS.txt
    std::transform(upper.begin(), std::ranges::find(upper, '.'), upper.begin(), ::toupper);
  };
  std::ranges::for_each(kKindLists, add);
  std::ranges::for_each(kOtherLists, add);
  for (const std::string_view suffix : kListSuffixes) names.push_back(fmt::format("{}{}", directory, suffix));
  return names;
}

StatedDigests::StatedDigests(Location top, const std::vector<std::string>& paths)
    : StatedDigests(std::move(top), Later<std::shared_ptr<const Files>>::of(std::make_shared<const Files>(paths))) {}

StatedDigests::StatedDigests(Location top, Later<std::shared_ptr<const Files>> files)
    : top_(std::move(top)),
      files_(std::move(files)),
      lists_([top = top_, files = files_]() -> Result<std::shared_ptr<const Lists>> {
        auto lists = std::make_shared<Lists>();
        const auto known = TRY(files.get());
        const Take take = [left = kMaxAllLists](uint64_t size) mutable -> Result<void> {
          TRY_VOID(check_size(size, kMaxList));
          if (size > left) return failure(Code::unsupported, "too many bytes together with other lists");
          left -= size;
          return {};
        };
        for (const std::string& path : known->lists)
          lists->add(path, read_list(top, path, take, lists->warnings), known->paths);
        read_lists_above(top, take, [&](const std::string& path, std::vector<ListedDigest> lines) {
          lists->add_from_above(path, std::move(lines), std::string(last_component(top.path())));
        });
        return lists;
      }),
      downloads_([top = top_]() -> Result<std::vector<Downloads>> { return find_downloads(top); }) {}

std::shared_ptr<const StatedDigests> StatedDigests::beside(const Location& directory) {
  const auto list = [directory]() -> Result<std::shared_ptr<const Files>> {
    std::vector<std::string> names;
    for (DirectoryEntry& entry : TRY(directory.root->list(directory.name))) names.push_back(std::move(entry.name));
    return std::make_shared<const Files>(names);
  };
  return std::shared_ptr<const StatedDigests>(new StatedDigests(directory, Later<std::shared_ptr<const Files>>(list)));
}

std::optional<StatedDigest> StatedDigests::find(const std::string& path, Budget* budget,
                                                std::vector<std::string>& warnings) const {
  const Location file = top_ / path;
  if (auto digest = digest_in_name(file)) return StatedDigest{std::move(*digest), "its name"};
  if (const auto downloads = downloads_.get())
    for (const Downloads& each : *downloads)
      if (auto stated = downloaded_digest(each, path, file)) return stated;
  const auto got = files_.get();
  if (!got) return std::nullopt;
  const Files& files = **got;
  std::string unsupported;  // the list with a digest of such a kind
  const auto is_usable = [&](const std::optional<StatedDigest>& stated) {
    if (stated && !stated->digest.is_supported()) unsupported = stated->stated_in;
    return stated && stated->digest.is_supported();
  };
  if (auto own = find_own_list(top_, path, path, files.stating, budget, warnings); is_usable(own)) return own;
  if (files.is_only_file(path))
    if (auto own = find_own_list(top_, path, std::string(stem_of(path)), files.stating, budget, warnings);
        is_usable(own))
      return own;
  if (const auto lists = lists_.get()) {
    for (const std::string& line : (*lists)->warnings) warn(warnings, line);
    const auto found = (*lists)->by_path.find(path);
    if (found != (*lists)->by_path.end() && is_usable(found->second)) return found->second;
  }
  if (files.is_only_model(path))
    if (auto noted = find_note(top_, path, files.stating, budget, warnings)) return noted;
  if (!unsupported.empty())
    warn(warnings, fmt::format("{}: only SHA-256, SHA-1 and MD5 are supported; {} is not compared with it", unsupported,
                               quoted(path)));
  return std::nullopt;
}

namespace {

void add_check(Model& model, const StatedDigests& stated, const std::string& path, const Later<SourcePtr>& bytes) {
  auto found = stated.find(path, model.budget.get(), model.warnings);
  if (!found || !found->digest.is_supported()) return;
  model.checks.edit().push_back({.subject = path,
                                 .bytes = bytes,
                                 .expected = FileChecksums(*found->digest.sum),
                                 .is_modified = found->is_modified,
                                 .stated_in = std::move(found->stated_in)});
}

}  // namespace

void add_stated_checks(Model& model, const StatedDigests& stated) {
  for (const Part& part : model.parts)
    if (part.link_target.empty() && part.checksums.get<Digest>() == nullptr)
      add_check(model, stated, part.path, part.source);
}

void add_stated_checks(Model& model, const StatedDigests& stated, const std::string& name, const SourcePtr& bytes) {
  if (model.has_members) return add_check(model, stated, name, Later<SourcePtr>::of(bytes));
  add_stated_checks(model, stated);
}

}  // namespace weightfs
