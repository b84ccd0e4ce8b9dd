#include "serve/hub/listing.h"

#include <algorithm>
#include <ctime>

#include "base/text.h"
#include "base/values/json.h"
#include "fs/http/protocol/target.h"
#include "report/text/map_of.h"
#include "report/text/time.h"

namespace weightfs::hub {
namespace {

// With a fraction, which huggingface_hub requires: "2026-11-20T09:30:00.000Z".
std::string date_of(const Repository& repository) {
  constexpr Time kSecond = 1'000'000'000;
  std::string date = utc_time({.tv_sec = static_cast<std::time_t>(repository.modified / kSecond), .tv_nsec = 0});
  if (date.ends_with('Z')) date.pop_back();
  return date + ".000Z";
}

// The Git object id: of the pointer, if the file is in LFS. Null if it is not known.
Value git_id_of(const RepositoryFile& file) {
  if (file.sha256) return git_blob_id(lfs_pointer(file)).hex();
  return file.git_id ? Value(file.git_id->hex()) : Value(nullptr);
}

// `digest`: its key, which differs between listings and descriptions.
Map lfs_of(const RepositoryFile& file, const char* digest) {
  return map_of({{digest, file.sha256->hex()}, {"size", file.size}, {"pointerSize", lfs_pointer(file).size()}});
}

bool is_true(std::string_view text) { return text == "true" || text == "True" || text == "1"; }

httpd::Accepted<WantedPaths> paths_in_json(const std::string& body) {
  const auto value = parse_json(*in_memory(body), 0, body.size());
  const auto* const map = value ? std::get_if<Map>(&*value) : nullptr;
  const auto* const paths = map == nullptr ? nullptr : map->find_as<List>("paths");
  if (paths == nullptr) return httpd::refused(400, "the body has no list \"paths\"");
  WantedPaths wanted;
  for (const Value& path : *paths) {
    if (!std::holds_alternative<std::string>(path)) return httpd::refused(400, "a path is not a text");
    wanted.paths.push_back(std::get<std::string>(path));
  }
  const auto* const expand = map->find_as<bool>("expand");
  wanted.is_expanded = expand != nullptr && *expand;
  return wanted;
}

WantedPaths paths_in_form(std::string_view body) {
  WantedPaths wanted;
  while (!body.empty()) {
    const std::string_view pair = body.substr(0, body.find('&'));
    body.remove_prefix(std::min(pair.size() + 1, body.size()));
    if (auto path = httpd::parameter(pair, "paths")) wanted.paths.push_back(std::move(*path));
    if (const auto expand = httpd::parameter(pair, "expand")) wanted.is_expanded = is_true(*expand);
  }
  return wanted;
}

}  // namespace

std::vector<Entry> entries_below(const Repository& repository, const std::string& directory, Depth depth) {
  const std::string begin = directory.empty() ? "" : directory + "/";
  std::vector<Entry> out;
  std::string_view before;  // the path of the file before
  auto file = std::ranges::lower_bound(repository.files, begin, {}, &RepositoryFile::path);
  for (; file != repository.files.end() && file->path.starts_with(begin); ++file) {
    const std::string_view path = file->path;
    // The directories that the file before is not in.
    size_t slash = path.find('/', begin.size());
    const bool is_direct = slash == path.npos;
    while (slash != path.npos) {
      if (!before.starts_with(path.substr(0, slash + 1))) out.push_back({std::string(path.substr(0, slash)), nullptr});
      slash = depth == Depth::all ? path.find('/', slash + 1) : path.npos;
    }
    if (is_direct || depth == Depth::all) out.push_back({file->path, &*file});
    before = path;
  }
  return out;
}

Entry entry_at(const Repository& repository, const std::string& path) {
  if (const RepositoryFile* const file = repository.find(path)) return {path, file};
  const auto below = std::ranges::lower_bound(repository.files, path + "/", {}, &RepositoryFile::path);
  const bool is_directory = below != repository.files.end() && below->path.starts_with(path + "/");
  return {is_directory ? path : "", nullptr};
}

Map value_of(const Repository& repository, const Entry& entry, bool is_expanded) {
  const bool is_file = entry.file != nullptr;
  Map out = map_of({{"type", is_file ? "file" : "directory"},
                    {"path", entry.path},
                    {"size", is_file ? entry.file->size : uint64_t{0}},
                    {"oid", is_file ? git_id_of(*entry.file) : Value(nullptr)}});
  if (is_file && entry.file->sha256) out.append("lfs", lfs_of(*entry.file, "oid"));
  if (is_expanded)
    out.append("lastCommit", map_of({{"id", repository.commit}, {"title", ""}, {"date", date_of(repository)}}));
  return out;
}

std::string describe(const Repository& repository, bool with_sizes) {
  constexpr size_t kIdDigits = 24;
  List tags;
  if (!repository.license.empty()) tags.emplace_back("license:" + repository.license);
  std::string text = to_json_line(map_of({{"_id", repository.commit.substr(0, kIdDigits)},
                                          {"id", repository.id},
                                          {"modelId", repository.id},
                                          {"author", repository.id.substr(0, repository.id.find('/'))},
                                          {"sha", repository.commit},
                                          {"lastModified", date_of(repository)},
                                          {"private", false},
                                          {"gated", false},
                                          {"disabled", false},
                                          {"downloads", 0},
                                          {"likes", 0},
                                          {"tags", std::move(tags)}}));
  text.back() = ',';
  text += "\"siblings\":[";
  // File by file: the values of all files at once would need several times the memory of the text.
  for (const RepositoryFile& file : repository.files) {
    Map sibling = map_of({{"rfilename", file.path}});
    if (with_sizes) {
      sibling.append("size", file.size);
      sibling.append("blobId", git_id_of(file));
      if (file.sha256) sibling.append("lfs", lfs_of(file, "sha256"));
    }
    if (text.back() != '[') text += ',';
    text += to_json_line(std::move(sibling));
  }
  return text + "]}";
}

httpd::Accepted<WantedPaths> wanted_paths(const httpd::Request& request) {
  const std::string* const type = request.field("content-type");
  const bool is_json = type != nullptr && lower_case(*type).starts_with("application/json");
  return is_json ? paths_in_json(request.body) : httpd::Accepted<WantedPaths>(paths_in_form(request.body));
}

}  // namespace weightfs::hub
