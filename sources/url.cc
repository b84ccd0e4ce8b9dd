// A SOURCE that is a URL: a model file on a web server, read by ranges; the files beside it are those at URLs in the
// same directory.
#include "cache/url.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <iterator>
#include <mutex>
#include <string_view>

#include "base/text.h"
#include "sources/file_list.h"
#include "sources/kinds.h"

namespace weightfs {
namespace {

// A directory on a server has no listing. These name the other files of a model, in the order of preference.
constexpr auto kEntryFiles = std::to_array<std::string_view>({"model.safetensors.index.json", "model.safetensors",
                                                              "pytorch_model.bin.index.json", "carton.toml",
                                                              "tensor-cache.json", "ndarray-cache.json"});

// A path component as in a URL (RFC 3986, section 3.3); `/` separates components.
std::string encoded(std::string_view path) {
  std::string text;
  for (const char c : path) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          std::string_view("-._~/").find(c) != std::string_view::npos;
    text += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return text;
}

// The decoded last component of the path: "model.gguf"; "model" if there is none.
std::string file_name_of(const std::string& url) {
  const std::string path = http::printable_url(url);
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  std::string text;
  for (size_t i = 0; i < name.size(); ++i) {
    unsigned value = 0;
    const bool is_escape = name[i] == '%' && i + 2 < name.size() &&
                           std::from_chars(&name[i + 1], &name[i + 1] + 2, value, 16).ptr == &name[i + 1] + 2 &&
                           value != 0;
    text += is_escape ? static_cast<char>(value) : name[i];
    if (is_escape) i += 2;
  }
  return text.empty() || text.find('/') != text.npos || text == "." || text == ".." ? "model" : text;
}

// The directory of a URL. Files are found by their names alone.
class UrlFolder final : public Folder {
 public:
  UrlFolder(std::string url, BlobStorePtr store, std::function<void(uint64_t, uint64_t)> on_opened)
      : url_(std::move(url)), store_(std::move(store)), on_opened_(std::move(on_opened)) {}

  Result<std::vector<std::string>> names() const override { return std::vector<std::string>{}; }
  Result<std::vector<Part>> parts() const override { return std::vector<Part>{}; }
  Result<SourcePtr> open(std::string_view name) const override {
    if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos)
      return failure(Code::unsupported, fmt::format("{}: not a file name", quoted(name)));
    return open_at(name);
  }
  Result<SourcePtr> open_below(std::string_view path, std::string_view /*referrer*/) const override {
    for (std::string_view rest = path; !rest.empty();) {
      const std::string_view component = rest.substr(0, rest.find('/'));
      if (component.empty() || component == "." || component == "..")
        return failure(Code::unsupported, fmt::format("{}: not a path below the model", quoted(path)));
      rest.remove_prefix(std::min(rest.size(), component.size() + 1));
    }
    return open_at(path);
  }
  bool is_storage() const override { return true; }

  void prepare(const std::vector<std::string>& names, uint64_t (*header_size)(std::string_view head)) const override {
    auto files = request_headers(
        names, [&](const std::string& name) { return open(name); }, header_size, on_opened_);
    const std::scoped_lock lock(mutex_);
    std::move(files.begin(), files.end(), std::back_inserter(prepared_));
  }

 private:
  Result<SourcePtr> open_at(std::string_view path) const {
    const std::string url = http::resolve_url(url_, "./" + encoded(path));
    return store_->open_url(url);
  }

  std::string url_;
  BlobStorePtr store_;
  std::function<void(uint64_t opened, uint64_t total)> on_opened_;
  mutable std::mutex mutex_;                 // guards prepared_
  mutable std::vector<SourcePtr> prepared_;  // the store shares a source as long as it is in use
};

// Null if none is required. That of a digest is the file beside the model with the suffix .fsverity.
Result<BlockListPtr> block_list_for(const std::string& url, const RegistryOptions& registries) {
  if (!registries.block_list_digest) return registries.block_list;
  const size_t query = std::min(url.find_first_of("?#"), url.size());
  const std::string beside = url.substr(0, query) + ".fsverity" + url.substr(query);
  const SourcePtr file = TRY(registries.store->open_url(beside));
  BlockListPtr list = TRY(BlockList::open(file));
  if (list->digest() == *registries.block_list_digest) return list;
  return failure(Code::mismatch, fmt::format("{}: is the block list of another file: {}", http::printable_url(beside),
                                             list->digest().hex()));
}

// The file that a URL names. That of a directory is the first of kEntryFiles that the server has.
Result<Container> find_file(const std::string& url, const OpenOptions& options) {
  const BlobStorePtr& store = options.registries.store;
  const auto folder = std::make_shared<UrlFolder>(url, store, options.on_opened);
  const auto container = [&](std::string name, SourcePtr bytes) {
    return Container{std::move(name), std::move(bytes), folder, options.blobs};
  };
  if (!http::printable_url(url).ends_with('/')) {
    const BlockListPtr list = TRY(block_list_for(url, options.registries));
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

Result<SourceEntry> find_url(const std::string& url, const OpenOptions& options, Check check) {
  if (options.registries.store == nullptr)
    return failure(Code::unsupported, fmt::format("{}: URLs are not available here", http::printable_url(url)));
  const Container container = TRY(find_file(url, options));
  if (check == Check::model && options.forced == nullptr && !TRY(is_model(container))) TRY(read_model(container));
  const Time time = time_now();
  return SourceEntry{
      container.name, time, 0, [=, forced = options.forced]() -> Result<Opened> {
        return OpenedModel{std::make_shared<Model>(TRY(read_model(container, forced))), http::printable_url(url), time};
      }};
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
  return find_url("https:" + rest, options, check);
}

Result<SourceEntry> find_http_url(const std::string& rest, const OpenOptions& options, Check check) {
  return find_url("http:" + rest, options, check);
}

Result<SourcePtr> open_https_file(const std::string& rest, const OpenOptions& options) {
  return open_file_at("https:" + rest, options);
}

Result<SourcePtr> open_http_file(const std::string& rest, const OpenOptions& options) {
  return open_file_at("http:" + rest, options);
}

}  // namespace weightfs
