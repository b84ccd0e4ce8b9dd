// The files of a model: those of its container, with their checksums, and those that weightfs makes of it.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <unordered_set>

#include "base/cancel.h"
#include "base/parallel.h"
#include "base/text.h"
#include "formats/directory/weight_files.h"
#include "formats/one_model.h"
#include "fs/tree/listing.h"
#include "report/text/map_of.h"
#include "serve/api/handlers.h"

namespace weightfs::api {
namespace {

constexpr size_t kMaxListed = 1000;

// A file that is listed. The lower ones come first.
enum class Rank { card, configuration, text, weights, other };

struct ListedFile {
  std::string path;  // below the model
  std::string name;  // as it is shown
  Rank rank;
  bool is_own;
  std::string digest = {};
  std::optional<uint64_t> bytes = {};
  std::string href = {};
};

Rank rank_of(const std::string& path, bool is_weights) {
  const std::string lower = lower_case(path);
  if (lower == "readme.md" || lower == "readme") return Rank::card;
  if (lower == "config.json" || lower == "model_index.json") return Rank::configuration;
  if (is_weights) return Rank::weights;
  return is_named_as_text(path) && path.find('/') == path.npos ? Rank::text : Rank::other;
}

// "sha256:9f86…"; the strongest of a file comes first.
std::string digest_text(const FileChecksums& sums) {
  constexpr std::array<std::string_view, 5> kNames = {"sha256", "sha1", "git", "md5", "crc32"};
  const std::vector<Checksum> all = sums.all();
  return all.empty() ? "" : fmt::format("{}:{}", kNames[all.front().index()], hex_of(all.front()));
}

// What is stated of files outside of them: in another file or in their names.
std::map<std::string_view, const FileChecksums*> stated_outside(const Model& model) {
  std::map<std::string_view, const FileChecksums*> out;
  for (const FileCheck& check : *model.checks)
    if (check.is_stated_outside()) out.emplace(check.subject, &std::get<FileChecksums>(check.expected));
  return out;
}

std::vector<ListedFile> files_of_container(const Model& model) {
  StringArena texts;
  const auto paths = in_order_of_parts(part_paths(model, texts));
  const auto weights = weight_files_of(model);
  const std::unordered_set<std::string> are_weights(weights.begin(), weights.end());
  const auto outside = stated_outside(model);
  std::vector<ListedFile> out;
  for (size_t i = 0; i < paths.size() && !is_cancelled(); ++i) {
    const Part& part = model.parts[i];
    const std::string path(paths[i]);
    const auto stated = outside.find(part.path);
    const FileChecksums& sums = part.checksums.empty() && stated != outside.end() ? *stated->second : part.checksums;
    const bool is_weights = are_weights.contains(part.path) || is_named_as_weights(path.substr(path.rfind('/') + 1));
    out.push_back({"files/" + path, path, rank_of(path, is_weights), true, digest_text(sums)});
  }
  return out;
}

// The texts about a model, or the files of views/.
void add_made_files(Forest& forest, Ino directory, const std::string& path, std::vector<ListedFile>& out) {
  const auto all = forest.list(directory);
  for (uint32_t i = 0; all && i < all->count && out.size() < kMaxListed; ++i) {
    const Node node = all->tree->node(all->first + i);
    const std::string name = path + node.name();
    const bool is_directory = node.kind == NodeKind::directory || node.kind == NodeKind::tree;
    if (is_directory && (name == "metadata" || path.starts_with("views/")))
      add_made_files(forest, all->ino_of(i), name + "/", out);
    if (!is_directory) out.push_back({name, name, Rank::other, false});
  }
}

bool is_listed_before(const ListedFile& a, const ListedFile& b) {
  if (a.is_own != b.is_own) return a.is_own;
  if (a.rank != b.rank) return a.rank < b.rank;
  return is_before(a.name, b.name);
}

// Sizes and links. The size of a file that is not open yet costs opening it: a few at a time, as far as that takes no
// longer than a person waits. A text that weightfs makes has its size when it has been read.
void complete(const Call& call, const std::string& begin, std::vector<ListedFile>& files) {
  constexpr size_t kThreads = 4;
  constexpr std::chrono::seconds kPatience{2};
  const auto end = std::chrono::steady_clock::now() + kPatience;
  const CancelScope scope([end] { return std::chrono::steady_clock::now() > end; });
  const auto open = [&](uint64_t at) -> Result<void> {
    ListedFile& file = files[static_cast<size_t>(at)];
    const auto ino = call.forest.resolve(begin + file.path, Forest::FinalLink::followed);
    if (!ino) return {};
    file.href = call.href(begin + file.path);
    if (const auto known = call.forest.known_attributes(*ino))
      file.bytes = known->size;
    else if (const auto opened = file.is_own && !is_cancelled() ? call.forest.attributes(*ino)
                                                                : Result<Attributes>(failure(Code::io, "")))
      file.bytes = opened->size;
    return {};
  };
  // A file whose size is not found has none in the list.
  static_cast<void>(in_parallel(files.size(), kThreads, open).has_value());
}

Map value_of(const ListedFile& file) {
  const char* const role = is_named_as_text(file.name) ? "text" : file.rank == Rank::weights ? "weights" : "other";
  return map_of({{"path", file.path},
                 {"name", file.name},
                 {"own", file.is_own},
                 {"role", role},
                 {"bytes", file.bytes ? Value(*file.bytes) : Value(nullptr)},
                 {"digest", file.digest.empty() ? Value(nullptr) : Value(file.digest)},
                 {"href", file.href.empty() ? Value(nullptr) : Value(file.href)}});
}

}  // namespace

Accepted<Content> list_files(const Call& call) {
  const OpenModelPtr of = ACCEPT(call.model());
  const auto words = ACCEPT(call.query.words("q"));
  const std::string begin = of->path().empty() ? "" : of->path() + "/";
  std::vector<ListedFile> files;
  if (call.query.flag("views")) {
    if (const auto views = call.forest.resolve(begin + "views", Forest::FinalLink::followed))
      add_made_files(call.forest, *views, "views/", files);
  } else {
    files = files_of_container(of->model());
    std::vector<ListedFile> made;
    add_made_files(call.forest, ACCEPT(accepted(call.forest.resolve(of->path(), Forest::FinalLink::followed))), "",
                   made);
    std::move(made.begin(), made.end(), std::back_inserter(files));
  }
  std::erase_if(files, [&](const ListedFile& file) { return !has_words(file.name, words); });
  std::ranges::sort(files, is_listed_before);
  const size_t total = files.size();
  if (total > kMaxListed) files.erase(files.begin() + kMaxListed, files.end());
  complete(call, begin, files);
  if (is_cancelled()) return httpd::refused(503, "cancelled");
  List out;
  for (const ListedFile& file : files) out.emplace_back(value_of(file));
  return json_content(map_of({{"total", total}, {"files", std::move(out)}}));
}

}  // namespace weightfs::api
