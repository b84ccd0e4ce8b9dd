#include "sources/served/tree.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cache/url.h"
#include "protocols/served.h"
#include "sources/file_list.h"

namespace weightfs {
namespace {

constexpr size_t kMaxServedDirectories = 2'000;  // of one model

served::Access access_of(const RegistryOptions& registries) { return {registries.http, registries.store}; }

// The files of a model, with those in directories.
class ServedFiles {
 public:
  ServedFiles(std::string url, served::Access server) : url_(std::move(url)), server_(std::move(server)) {}

  Result<ListedSource> list() && {
    std::vector<std::string> directories = {""};
    for (size_t i = 0; i < directories.size(); ++i) {
      if (i == kMaxServedDirectories)
        return failure(Code::unsupported, fmt::format("more than {} directories", kMaxServedDirectories));
      TRY_VOID(add(directories[i], directories));
    }
    const std::string source = http::printable_url(served::url_below(url_, served::kFiles, false));
    ListedSource listed{std::move(builder_).finish(), "", source, time_now()};
    const FileList& files = *listed.list.files;
    if (files.size() == 1 && files.begin()->first.find('/') == std::string::npos) listed.file = files.begin()->first;
    return listed;
  }

 private:
  // `directory` is empty, or ends with `/`; those in it are appended.
  Result<void> add(const std::string directory, std::vector<std::string>& directories) {
    const std::string path = fmt::format("{}/{}", served::kFiles, directory);
    const std::string url = served::url_below(url_, path.substr(0, path.size() - 1), true);
    const auto entries = TRY(served::list(url, server_));
    if (!entries) return failure(Code::network, fmt::format("{}: not a listing", http::printable_url(url)));
    for (const served::Entry& entry : *entries) {
      const std::string name = directory + entry.name;
      if (entry.is_directory && directories.size() <= kMaxServedDirectories) directories.push_back(name + "/");
      if (entry.is_directory || !entry.size) continue;
      const Later<SourcePtr> bytes(
          [store = server_.store, url = served::url_below(url_, fmt::format("{}/{}", served::kFiles, name), false)] {
            return store->open_url(url);
          });
      TRY_VOID(builder_.add(name, {.bytes = lazy(*entry.size, bytes)}));
    }
    return {};
  }

  const std::string url_;
  const served::Access server_;
  FileListBuilder builder_;
};

Result<Opened> open_served(const std::string& url, const OpenOptions& options);

Listing listing_of(const std::string& url, const std::vector<served::Entry>& entries, const OpenOptions& options) {
  Listing listing{{}, time_now(), 0};
  for (const served::Entry& entry : entries)
    if (entry.is_directory)
      listing.entries.push_back(
          {entry.name, listing.modified, 0,
           [=, below = served::url_below(url, entry.name, true)] { return open_served(below, options); }});
  return listing;
}

Result<Opened> open_model_at(const std::string& url, const OpenOptions& options) {
  ListedSource files = TRY(ServedFiles(url, access_of(options.registries)).list().map_error([&](const Error& error) {
    return with_message(error, fmt::format("{}: {}", http::printable_url(url), error.message));
  }));
  const SourceEntry entry = listed_source(std::move(files), options);
  return std::get<std::function<Result<Opened>()>>(entry.content)();
}

Result<Opened> open_entries(const std::string& url, const std::vector<served::Entry>& entries,
                            const OpenOptions& options) {
  if (served::is_model(entries)) return open_model_at(url, options);
  return listing_of(url, entries, options);
}

Result<Opened> open_served(const std::string& url, const OpenOptions& options) {
  const auto entries = TRY(served::list(url, access_of(options.registries)));
  if (entries) return open_entries(url, *entries, options);
  return failure(Code::not_found, fmt::format("{}: not a listing of weightfs serve", http::printable_url(url)));
}

// A directory in a model, such as `tensors/`, is not a directory of models.
Result<void> check_not_in_a_model(const std::string& url, const served::Access& server) {
  constexpr int kMaxDepth = 64;
  std::string below = url;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    std::string above = http::resolve_url(below, "../");
    if (above.empty() || above == below) break;
    const auto entries = TRY(served::list(above, server));
    if (entries && served::is_model(*entries))
      return failure(Code::unsupported, fmt::format("{}: is a directory of the model {}; name the model",
                                                    http::printable_url(url), http::printable_url(above)));
    below = std::move(above);
  }
  return {};
}

}  // namespace

Result<std::optional<SourceEntry>> find_served_tree(const std::string& url, const OpenOptions& options) {
  const served::Access server = access_of(options.registries);
  if (server.http == nullptr) return std::nullopt;
  const auto entries = TRY(served::list(url, server));
  if (!entries || (!served::is_model(*entries) && !TRY(served::has_api(url, server)))) return std::nullopt;
  if (!served::is_model(*entries)) TRY_VOID(check_not_in_a_model(url, server));
  std::string path = http::printable_url(url);
  path.pop_back();
  std::string name = http::url_decoded(path.substr(path.rfind('/') + 1));
  const bool is_root = std::ranges::count(path, '/') < 3;
  if (is_root || !is_file_name(name) || name.find('\0') != name.npos) name = "model";
  return SourceEntry{std::move(name), time_now(), 0,
                     [=, entries = *entries] { return open_entries(url, entries, options); }};
}

}  // namespace weightfs
