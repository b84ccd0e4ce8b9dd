// A SOURCE that is a URL: a model file on a web server, read by ranges; the files beside it are those at URLs in the
// same directory.
#include "cache/url.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.h"
#include "sources/block_list.h"
#include "sources/kinds.h"
#include "sources/remote_model.h"
#include "sources/served/tree.h"
#include "sources/unlisted_folder.h"

namespace weightfs {
namespace {

// A directory on a server has no listing. These name the other files of a model, in the order of preference.
constexpr auto kEntryFiles = std::to_array<std::string_view>({"model.safetensors.index.json", "model.safetensors",
                                                              "pytorch_model.bin.index.json", "carton.toml",
                                                              "tensor-cache.json", "ndarray-cache.json"});

// The small files of a directory that state what its model is. A mount does not change, so they are requested when it
// is opened: config.json, and if the server has that, the others.
class StatingFiles final : public Folder {
 public:
  explicit StatingFiles(const Folder& directory) {
    for (const std::string_view name : kStatingFiles) {
      if (!files_.empty() && !files_.front()) return;
      files_.push_back(directory.open(name));
    }
  }

  Result<std::vector<std::string>> names() const override {
    std::vector<std::string> names;
    for (size_t i = 0; i < files_.size(); ++i)
      if (files_[i]) names.emplace_back(kStatingFiles.at(i));
    std::ranges::sort(names);
    return names;
  }
  Result<SourcePtr> open(std::string_view name) const override {
    for (size_t i = 0; i < files_.size(); ++i)
      if (kStatingFiles.at(i) == name) return files_[i];
    return failure(Code::not_found, fmt::format("{}: was not requested", quoted(name)));
  }
  Result<std::vector<Part>> parts() const override { return std::vector<Part>{}; }
  bool is_storage() const override { return true; }

 private:
  static constexpr auto kStatingFiles = std::to_array<std::string_view>(
      {"config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json", "README.md"});

  std::vector<Result<SourcePtr>> files_;
};

// The decoded last component of the path: "model.gguf"; "model" if there is none.
std::string file_name_of(const std::string& url) {
  const std::string path = http::printable_url(url);
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  std::string text = http::url_decoded(name);
  if (text.find('\0') != text.npos) text = name;
  return is_file_name(text) ? text : "model";
}

// The query of a URL that the files beside it need, too, such as a token; empty if it is of that file only, as a
// signature or a version is.
std::string query_beside(const std::string& url) {
  const std::string plain = url.substr(0, url.find('#'));
  const std::string query = plain.substr(std::min(plain.find('?'), plain.size()));
  const std::string names = lower_case(query);
  const auto has = [&](std::string_view name) { return names.find(name) != names.npos; };
  const bool is_of_one = has("versionid=") || has("x-amz-signature=") || has("x-goog-signature=") || has("sr=b") ||
                         (has("expires=") && !has("policy="));
  return is_of_one ? "" : query;
}

// The directory of a URL.
std::shared_ptr<const Folder> folder_of(const std::string& url, const OpenOptions& options) {
  const auto open = [url, query = query_beside(url), store = options.registries.store](std::string_view path) {
    return store->open_url(http::resolve_url(url, "./" + http::url_encoded(path, "/")) + query);
  };
  return std::make_shared<UnlistedFolder>(open, options.on_opened);
}

// The file that a URL names. That of a directory is the first of kEntryFiles that the server has.
Result<Container> find_file(const std::string& url, const OpenOptions& options) {
  const BlobStorePtr& store = options.registries.store;
  const std::shared_ptr<const Folder> folder = folder_of(url, options);
  // Only opening a shard shows whether the server has it, so a list of the files needs all.
  const bool lists_files = options.needed_tensors != nullptr && options.needed_tensors->empty();
  const NeededTensors needed = lists_files ? nullptr : options.needed_tensors;
  const auto container = [&](std::string name, SourcePtr bytes) {
    return Container{.name = std::move(name),
                     .bytes = std::move(bytes),
                     .folder = folder,
                     .blobs = options.blobs,
                     .file = options.file,
                     .lists_tried = options.lists_tried,
                     .needed_tensors = needed};
  };
  if (!http::printable_url(url).ends_with('/')) {
    const BlockListPtr list = TRY(block_list_of_url(url, options.registries));
    return container(file_name_of(url), TRY(store->open_url(url, list)));
  }
  if (options.registries.has_block_list())
    return failure(Code::unsupported, fmt::format("{}: --tree needs the URL of a file", http::printable_url(url)));
  for (const std::string_view name : kEntryFiles) {
    auto bytes = folder->open(name);
    if (bytes) return container(std::string(name), std::move(*bytes));
    if (bytes.error().code != Code::not_found) return tl::unexpected(bytes.error());
  }
  return failure(Code::not_found, fmt::format("{}: has no {} or other index; name a model file",
                                              http::printable_url(url), kEntryFiles[0]));
}

Result<Model> read_at(const std::string& url, const Container& container, const Format* forced) {
  Model model = TRY(read_remote_model(container, forced));
  const bool is_directory = http::printable_url(url).ends_with('/');
  const bool has_config =
      container.name.starts_with("model.safetensors") || container.name.starts_with("pytorch_model");
  if (is_directory && has_config && model.beside == nullptr && container.needed_tensors == nullptr)
    model.beside = std::make_shared<StatingFiles>(*container.folder);
  return model;
}

Result<SourceEntry> find_url(const std::string& url, const OpenOptions& options, Check check) {
  if (options.registries.store == nullptr)
    return failure(Code::unsupported, fmt::format("{}: URLs are not available here", http::printable_url(url)));
  const auto found = find_file(url, options);
  if (!found && found.error().code == Code::not_found && http::printable_url(url).ends_with('/'))
    if (auto served = TRY(find_served_tree(url, options))) return *std::move(served);
  const Container container = TRY(found);
  if (check == Check::model && options.forced == nullptr && !TRY(is_model(container))) TRY(read_model(container));
  const Time time = time_now();
  return SourceEntry{container.name, time, 0,
                     [=, forced = options.forced]() -> Result<Opened> {
                       return OpenedModel{std::make_shared<Model>(TRY(read_at(url, container, forced))),
                                          http::printable_url(url), time};
                     },
                     version_on_server(*container.bytes)};
}

Result<SourcePtr> open_file_at(const std::string& url, const OpenOptions& options) {
  const std::string shown = http::printable_url(url);
  if (options.registries.store == nullptr)
    return failure(Code::unsupported, fmt::format("{}: URLs are not available here", shown));
  if (shown.ends_with('/')) return failure(Code::unsupported, fmt::format("{}: names a directory", shown));
  return options.registries.store->open_url(url);
}

}  // namespace

Result<SourceEntry> find_https_url(const std::string& rest, const OpenOptions& options, Check check) {
  return find_url(http::with_lower_case_host("https:" + rest), options, check);
}

Result<SourceEntry> find_http_url(const std::string& rest, const OpenOptions& options, Check check) {
  return find_url(http::with_lower_case_host("http:" + rest), options, check);
}

Result<SourcePtr> open_https_file(const std::string& rest, const OpenOptions& options) {
  return open_file_at(http::with_lower_case_host("https:" + rest), options);
}

Result<SourcePtr> open_http_file(const std::string& rest, const OpenOptions& options) {
  return open_file_at(http::with_lower_case_host("http:" + rest), options);
}

namespace {

// The URL as it is written, and its directory.
std::vector<Scope> scope_of_url(const std::string& url, const OpenOptions& options) {
  const std::string normalized = http::normalized_url(url);
  const std::string path = normalized.substr(0, normalized.find('?'));
  const http::ClientPtr& http = options.registries.http;
  const http::CredentialsName keys = http == nullptr ? http::CredentialsName() : http->keys_of_source(normalized);
  std::vector<Scope> scopes = {{.below = path.substr(0, path.rfind('/') + 1), .credentials = keys},
                               {.below = normalized, .paths = Scope::Paths::one, .credentials = keys}};
  // A directory may be one of `weightfs serve`: whether it has its API, and whether one above it is a model.
  if (!path.ends_with('/')) return scopes;
  const auto add = [&](const std::string& one) {
    scopes.push_back({.below = one, .paths = Scope::Paths::one, .credentials = keys});
  };
  add(http::resolve_url(path, "/.weightfs/api/v1/models"));
  constexpr int kMaxDepth = 64;
  std::string below = path;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    std::string above = http::resolve_url(below, "../");
    if (above.empty() || above == below) break;
    add(above);
    below = std::move(above);
  }
  return scopes;
}

}  // namespace

Result<std::vector<Scope>> scopes_of_https_url(const std::string& rest, const OpenOptions& options) {
  return scope_of_url("https:" + rest, options);
}

Result<std::vector<Scope>> scopes_of_http_url(const std::string& rest, const OpenOptions& options) {
  return scope_of_url("http:" + rest, options);
}

}  // namespace weightfs
