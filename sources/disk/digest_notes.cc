#include "sources/disk/digest_notes.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "base/files/confined_directory.h"
#include "base/text.h"
#include "base/values/json.h"
#include "sources/disk/hub_cache.h"

namespace weightfs {
namespace {

constexpr uint64_t kMaxNote = 4096;
constexpr size_t kMaxFiles = 1'000;       // of a version
constexpr uint64_t kMaxValues = 100'000;  // in a note

std::optional<FileDigest> sha256_of_hex(std::string_view hex) {
  const auto digest = digest_of_hex(hex);
  return digest ? std::optional(FileDigest{*digest}) : std::nullopt;
}

bool has_snapshots(std::string_view blobs) {
  std::error_code error;
  return std::filesystem::is_directory(fmt::format("{}/snapshots", parent_of(blobs)), error);
}

// How a path was found: a link may lead to any directory that is called blobs.
enum class Reached { by_name, by_link };

std::optional<FileDigest> digest_in_path(std::string_view path, Reached reached) {
  const std::string_view name = last_component(path), directory = parent_of(path);
  const std::string_view above = last_component(directory);
  for (const std::string_view prefix : {"sha256-", "sha256:"}) {
    if (!name.starts_with(prefix)) continue;
    // In a store of RamaLama, blobs of files at URLs have the digests of their names.
    if (above == "blobs" && has_snapshots(directory)) return std::nullopt;
    return sha256_of_hex(name.substr(prefix.size()));
  }
  if (above == "blobs" && reached == Reached::by_link && !has_snapshots(directory)) return std::nullopt;
  if (above == "blobs")
    if (const auto git_id = sha1_of_hex(name)) return FileDigest{GitId{*git_id}};
  if (above == "blobs" || above == "sha256") return sha256_of_hex(name);
  const bool is_lfs =
      name.size() > 4 && above == name.substr(2, 2) && last_component(parent_of(directory)) == name.substr(0, 2);
  return is_lfs ? sha256_of_hex(name) : std::nullopt;
}

// As huggingface_hub normalizes an ETag.
std::string_view without_quotes(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return etag;
}

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = trimmed(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// Above the directory of a SOURCE only notes of the user or of root count.
std::optional<Location> notes_at(const std::string& path) {
  auto found = find_named_file(path);
  if (!found || !S_ISDIR(found->status.st_mode)) return std::nullopt;
  if (found->status.st_uid != 0 && found->status.st_uid != ::geteuid()) return std::nullopt;
  return Location{std::make_shared<ConfinedDirectory>(std::move(found->descriptor), path, Confinement{})};
}

const Value* find_hash(const Map& entry) {
  for (const char* const name : {"hashes", "Hashes"})
    if (const auto* const hashes = entry.find_as<Map>(name))
      for (const char* const kind : {"SHA256", "sha256"})
        if (const Value* const hash = hashes->find(kind)) return hash;
  return entry.find("sha256");
}

std::optional<Digest> hash_of(const Map& entry) {
  const Value* const hash = find_hash(entry);
  const auto* const text = hash == nullptr ? nullptr : std::get_if<std::string>(hash);
  return text == nullptr ? std::nullopt : digest_of_hex(trimmed(*text));
}

// civitai.com states sizes in KiB, with the bytes behind the point.
bool has_size(const Map& entry, uint64_t size) {
  const Value* const kib = entry.find("sizeKB");
  double number = 0;
  if (kib == nullptr) return false;
  if (const auto* const exact = std::get_if<double>(kib)) number = *exact;
  if (const auto* const whole = std::get_if<uint64_t>(kib)) number = static_cast<double>(*whole);
  if (const auto* const whole = std::get_if<int64_t>(kib)) number = static_cast<double>(*whole);
  return std::abs(number * 1024 - static_cast<double>(size)) < 1;
}

// A version may have files of other formats, from which this one was converted, and several files of one name. A person
// may have given this file another name.
std::optional<Digest> hash_of_version(const Map& version, std::string_view name, uint64_t size) {
  const auto* const files = version.find_as<List>("files");
  if (files == nullptr || files->size() > kMaxFiles) return std::nullopt;
  std::vector<const Map*> named, sized;
  for (const Value& each : *files) {
    const auto* const entry = std::get_if<Map>(&each);
    if (entry == nullptr) continue;
    const bool is_named = lower_case(text_in(*entry, "name")) == lower_case(name);
    if (is_named) named.push_back(entry);
    if (has_size(*entry, size)) sized.push_back(entry);
  }
  if (named.size() == 1) return hash_of(*named.front());
  if (!named.empty()) std::erase_if(sized, [&](const Map* entry) { return std::ranges::count(named, entry) == 0; });
  return sized.size() == 1 ? hash_of(*sized.front()) : std::nullopt;
}

// The hash of the only file that the note is about, unless that is of another format.
std::optional<Digest> hash_of_file(const Map& note, std::string_view name) {
  const std::string path = lower_case(text_in(note, "file_path"));
  const size_t dot = name.rfind('.');
  if (!path.empty() && dot != name.npos && !path.ends_with(lower_case(name.substr(dot)))) return std::nullopt;
  return hash_of(note);
}

}  // namespace

std::optional<FileDigest> digest_in_name(const Location& file) {
  if (auto found = digest_in_path(file.path(), Reached::by_name)) return found;
  if (!link_text(file)) return std::nullopt;
  if (const auto blob = blob_of_link(file)) {
    if (const auto git_id = sha1_of_hex(*blob)) return FileDigest{GitId{*git_id}};
    return sha256_of_hex(*blob);
  }
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(file.path(), error);
  return error ? std::nullopt : digest_in_path(target.native(), Reached::by_link);
}

std::vector<Downloads> find_downloads(const Location& directory) {
  std::vector<Downloads> found;
  Location above = directory;
  std::string prefix, outside;  // the latter once it is above the root
  for (int up = 0; up <= kMaxAboveDownload; ++up) {
    for (const char* const name : kDownloadNotes) {
      if (outside.empty() && is_directory(above / name)) found.push_back({above / name, prefix});
      if (outside.empty()) continue;
      if (auto notes = notes_at(fmt::format("{}/{}", outside, name))) found.push_back({std::move(*notes), prefix});
    }
    const std::string path = outside.empty() ? above.path() : outside;
    if (parent_of(path).empty()) break;
    prefix = fmt::format("{}/{}", last_component(path), prefix);
    if (outside.empty() && !above.name.empty())
      above = above.parent();
    else
      outside = parent_of(path);
  }
  return found;
}

std::optional<StatedDigest> downloaded_digest(const Downloads& downloads, const std::string& path,
                                              const Location& file) {
  const Location note = downloads.notes / fmt::format("{}{}.metadata", downloads.prefix, path);
  const auto bytes = note.open();
  if (!bytes || (*bytes)->size() > kMaxNote) return std::nullopt;
  const auto text = read_text(**bytes, 0, (*bytes)->size());
  if (!text) return std::nullopt;
  std::string_view rest = *text;
  take_line(rest);  // the commit
  const std::string_view etag = without_quotes(take_line(rest));
  const auto time = parse_number<double>(take_line(rest));
  StatedDigest stated{.digest = {}, .stated_in = printable(downloads.prefix.empty() ? note.name : note.path())};
  if (const auto sha256 = digest_of_hex(etag))
    stated.digest.sum = *sha256;
  else if (const auto git_id = sha1_of_hex(etag))
    stated.digest.sum = GitId{*git_id};
  else
    return std::nullopt;
  const auto status = file.examine();
  stated.is_modified = time && status && static_cast<double>(modified(*status)) / 1e9 - 1 > *time;
  return stated;
}

Result<std::optional<Digest>> digest_noted_by_manager(const Source& note, std::string_view name, uint64_t size) {
  Budget budget(note.size());
  const Value value = TRY(parse_json(note, 0, note.size(), budget, kMaxValues));
  const auto* const object = std::get_if<Map>(&value);
  if (object == nullptr) return std::nullopt;
  if (auto own = hash_of_file(*object, name)) return own;
  if (auto listed = hash_of_version(*object, name, size)) return listed;
  const auto* const version = object->find_as<Map>("civitai");
  return version == nullptr ? std::nullopt : hash_of_version(*version, name, size);
}

}  // namespace weightfs
