#include "cli/dropped/dropped_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <exception>

#include "base/text.h"
#include "base/values/json.h"
#include "cli/dropped/dropped_file.h"
#include "fs/http/protocol/websocket.h"
#include "fs/layout/source_tree.h"
#include "fs/names.h"
#include "report/text/map_of.h"
#include "serve/api/handlers.h"
#include "sources/file_list.h"

namespace weightfs {
namespace {

constexpr const char* kOther = "not a list of files with paths and sizes";
constexpr size_t kMaxFiles = 10'000;      // of a list, as in the page
constexpr size_t kMaxAllFiles = 100'000;  // of all lists

struct Offered {
  std::string path;
  uint64_t size;
  Time modified;
};

// {"files": [{"path": "m.gguf", "size": 4096, "modified": MILLISECONDS}]}
Result<std::vector<Offered>> parse_list(std::string_view text) {
  const Value parsed = TRY(parse_json(*in_memory(std::string(text)), 0, text.size()));
  const auto* const map = std::get_if<Map>(&parsed);
  const auto* const files = map == nullptr ? nullptr : map->find_as<List>("files");
  if (files == nullptr || files->empty()) return failure(Code::unsupported, kOther);
  if (files->size() > kMaxFiles) return failure(Code::unsupported, fmt::format("more than {} files", kMaxFiles));
  std::vector<Offered> found;
  for (const Value& each : *files) {
    const auto* const file = std::get_if<Map>(&each);
    const auto* const size = file == nullptr ? nullptr : file->find_as<int64_t>("size");
    const std::string path(file == nullptr ? "" : text_in(*file, "path"));
    if (size == nullptr || *size < 0 || path.empty()) return failure(Code::unsupported, kOther);
    constexpr int64_t kNanoseconds = 1'000'000;  // of a millisecond
    const auto* const modified = file->find_as<int64_t>("modified");
    const bool is_time = modified != nullptr && *modified >= 0 && *modified < INT64_MAX / kNanoseconds;
    found.push_back({path, static_cast<uint64_t>(*size), is_time ? *modified * kNanoseconds : 0});
  }
  return found;
}

// Removes the directory that all files are in from their paths, and returns its name, or that of the only file.
std::string take_name(std::vector<Offered>& files) {
  const std::string& first = files.front().path;
  if (files.size() == 1) return first.substr(first.rfind('/') + 1);
  const std::string directory = first.substr(0, first.find('/') + 1);
  const auto is_inside = [&](const Offered& file) { return file.path.starts_with(directory); };
  if (directory.empty() || !std::ranges::all_of(files, is_inside)) return fmt::format("{} files", files.size());
  for (Offered& file : files) file.path.erase(0, directory.size());
  return directory.substr(0, directory.size() - 1);
}

}  // namespace

DroppedFiles::DroppedFiles(OpenOptions options, ModelFileOptions files, std::string secret)
    : options_([&] {
        options.file.clear();  // of the SOURCE
        return std::move(options);
      }()),
      files_(std::move(files)),
      secret_(std::move(secret)) {}

DroppedFiles::~DroppedFiles() { stop(); }

void DroppedFiles::add_to(TreeBuilder& builder) {
  for (size_t number = 1; number <= kMaxDrops; ++number) {
    const Later<TreePtr> tree([this, number] { return tree_of(number); });
    builder.add_tree(builder.keep(fmt::format("dropped/{}", number)), 0, tree);
  }
}

// A directory with the model, or directory of models, under its name.
Result<TreePtr> DroppedFiles::tree_of(size_t number) const {
  const std::scoped_lock lock(mutex_);
  if (number > entries_.size())
    return failure(Code::not_found, fmt::format("{}{}: nothing was dropped", api::kDroppedFiles, number));
  const SourceEntry& entry = entries_[number - 1];
  TreeBuilder builder(nullptr);
  const Later<TreePtr> tree([entry, files = files_] { return open_entry(entry, files); });
  builder.add_tree(builder.keep(component(entry.path)), entry.modified, tree);
  return std::move(builder).freeze();
}

bool DroppedFiles::is_for(const httpd::Target& target) {
  const auto& path = target.segments;
  return path.size() == 2 && fmt::format("{}/{}", path[0], path[1]) == api::kDropPath;
}

httpd::Accepted<httpd::Response> DroppedFiles::accept(const httpd::Request& request) {
  remove_ended();
  auto response = httpd::accept_websocket(request);
  if (!response) return response;
  const std::scoped_lock lock(mutex_);
  if (is_stopping_ || seats_.use_count() > kMaxConnections || entries_.size() >= kMaxDrops)
    return httpd::refused(503, "too many files were dropped; close a page, or start weightfs open again");
  // The seat is taken before the response is sent, and free when the connection ends, or never begins.
  response->take_over = [this, seat = seats_](Descriptor socket, std::string received) mutable {
    take_over(std::move(socket), std::move(received), std::move(seat));
  };
  return response;
}

void DroppedFiles::take_over(Descriptor socket, std::string received, std::shared_ptr<void> seat) {
  const auto connection = std::make_shared<PageConnection>(std::move(socket), std::move(received));
  const std::scoped_lock lock(mutex_);
  if (is_stopping_) return;
  pages_.push_back({connection, {}});
  try {
    pages_.back().thread = std::thread([this, connection, seat = std::move(seat)] {
      connection->run([&](std::string_view list) { return open(connection, list); });
    });
  } catch (const std::exception&) {  // no thread, or no memory for one
    pages_.pop_back();               // the socket is closed
  }
}

// The answer to a list of files: the path of what they are, or why they cannot be opened.
std::string DroppedFiles::open(const std::shared_ptr<PageConnection>& connection, std::string_view list) {
  const auto path = add(connection, list);
  return to_json_line(path ? map_of({{"path", *path}}) : map_of({{"error", path.error().message}}));
}

Result<std::string> DroppedFiles::add(const std::shared_ptr<PageConnection>& connection, std::string_view list) {
  std::vector<Offered> files = TRY(parse_list(list));
  const std::string name = take_name(files);
  const std::scoped_lock lock(mutex_);
  if (entries_.size() >= kMaxDrops || files.size() > kMaxAllFiles - all_files_)
    return failure(Code::resource, "too many files were dropped; start weightfs again");
  const size_t number = entries_.size() + 1;
  FileListBuilder builder;
  for (size_t i = 0; i < files.size(); ++i) {
    auto bytes = std::make_shared<DroppedFile>(connection, i, files[i].path, files[i].size,
                                               fmt::format("{}:{}:{}", secret_, number, i));
    TRY_VOID(builder.add(files[i].path, {.bytes = std::move(bytes), .modified = files[i].modified}));
  }
  auto found = std::move(builder).finish();
  if (found.files->empty()) return failure(Code::unsupported, kOther);
  const std::string alone = files.size() == 1 ? found.files->begin()->first : "";
  const std::string source = alone.empty() ? name : "dropped";
  entries_.push_back(listed_source(
      {.list = std::move(found), .name = name, .source = source, .modified = 0, .file = alone}, options_));
  all_files_ += files.size();
  return fmt::format("{}{}/{}", api::kDroppedFiles, number, component(name));
}

// Threads that have ended are joined without the lock.
void DroppedFiles::remove_ended() {
  std::list<Page> ended;
  {
    const std::scoped_lock lock(mutex_);
    for (auto page = pages_.begin(); page != pages_.end();) {
      const auto next = std::next(page);
      if (page->connection->has_ended()) ended.splice(ended.end(), pages_, page);
      page = next;
    }
  }
  for (Page& page : ended) page.thread.join();
}

void DroppedFiles::stop() {
  std::list<Page> all;
  {
    const std::scoped_lock lock(mutex_);
    is_stopping_ = true;
    all.swap(pages_);
  }
  for (Page& page : all) page.connection->stop();
  for (Page& page : all) page.thread.join();
}

}  // namespace weightfs
