#include "sources/location.h"

#include <fmt/core.h>

#include <filesystem>
#include <optional>
#include <system_error>

#include "base/text.h"

namespace weightfs {
namespace {

namespace stdfs = std::filesystem;

constexpr std::string_view kManifests = "manifests";
constexpr long kManifestDepth = 4;  // manifests/HOST/NAMESPACE/MODEL/TAG

// A path below the manifests/ of a store.
struct StorePath {
  std::string store;
  std::string name;  ///< "manifests/registry.ollama.ai/library/llama3.2/latest"
};

// Parsed from the text of the path: links in a store must not be followed before its rules are known.
std::optional<StorePath> store_path(const stdfs::path& path) {
  stdfs::path store;
  for (auto part = path.begin(); part != path.end(); ++part) {
    const long below = std::distance(part, path.end()) - 1;
    if (*part == kManifests && below >= 1 && below <= kManifestDepth) {
      stdfs::path name;
      for (auto each = part; each != path.end(); ++each) name /= *each;
      std::error_code error;
      if (is_plain_path(name.native()) && stdfs::is_directory(store / "blobs", error)) return StorePath{store, name};
    }
    store /= *part;
  }
  return std::nullopt;
}

// The absolute path as written, without a trailing `/`.
std::string with_working_directory(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (path.starts_with('/')) return path;
  std::error_code error;
  return stdfs::current_path(error) / path;
}

// If root shows a file to other users, the owner's permissions apply.
Confinement confinement_for(const Access& access, uid_t owner) {
  Confinement rules;
  rules.user = access.user;
  rules.follow_links = access.follow_links;
  if (access.is_for_others && ::geteuid() == 0 && owner != 0) rules.rights = UserRights::of(owner);
  return rules;
}

// The user whose permissions apply when root shows a SOURCE to other users: the owner of a link on its path, else its
// owner, else the owner of a directory on its path, who could replace it. 0 if root owns all of them.
uid_t owner_of(const NamedFile& source) {
  if (source.link_owner) return *source.link_owner;
  if (source.status.st_uid != 0) return source.status.st_uid;
  return source.directory_owner.value_or(0);
}

Location root_at(NamedFile directory, const std::string& shown, uid_t owner, const Access& access) {
  const Confinement rules = confinement_for(access, owner);
  return Location{std::make_shared<ConfinedDirectory>(std::move(directory.descriptor), shown, rules)};
}

Result<std::string> canonical(const std::string& path) {
  std::error_code error;
  const stdfs::path found = stdfs::canonical(path, error);
  if (error) return failure(Code::not_found, fmt::format("{}: {}", path, error.message()));
  return found.string();
}

// The store whose manifests/ contain the path, if any.
Result<std::optional<Location>> locate_in_store(const std::string& path, const Access& access) {
  const auto in_store = store_path(path);
  if (!in_store) return std::nullopt;
  NamedFile found = TRY(find_named_file(in_store->store));
  const uid_t owner = owner_of(found);
  Location store = root_at(std::move(found), TRY(canonical(in_store->store)), owner, access);
  if (!is_store(store)) return std::nullopt;
  store.name = in_store->name;
  return store;
}

}  // namespace

Result<Location> locate_source(const std::string& path, const Access& access) {
  const std::string shown = TRY(absolute_path(path));
  const std::string named = with_working_directory(path);
  for (const std::string& each : {named, shown})
    if (auto in_store = TRY(locate_in_store(each, access))) return *in_store;

  NamedFile found = TRY(find_named_file(named));
  const uid_t owner = owner_of(found);
  if (S_ISDIR(found.status.st_mode)) return root_at(std::move(found), shown, owner, access);
  const stdfs::path file(named);
  NamedFile directory = TRY(find_named_file(file.parent_path()));
  // The file may have been replaced since; the opened directory counts.
  const uid_t final_owner = directory.link_owner.value_or(owner != 0 ? owner : owner_of(directory));
  Location source = root_at(std::move(directory), stdfs::path(shown).parent_path(), final_owner, access);
  return Location{source.root, file.filename(), ConfinedDirectory::Links::named};
}

Result<std::string> absolute_path(const std::string& path) {
  stdfs::path given(path);
  while (given.has_relative_path() && !given.has_filename()) given = given.parent_path();
  const stdfs::path name = given.filename();
  const bool is_name = is_file_name(name.native());
  std::error_code error;
  stdfs::path directory = is_name ? given.parent_path() : given;
  if (directory.empty() && is_name) directory = ".";
  directory = stdfs::canonical(directory, error);
  if (error) return failure(Code::not_found, fmt::format("{}: {}", path.empty() ? "\"\"" : path, error.message()));
  return is_name ? (directory / name).string() : directory.string();
}

}  // namespace weightfs
