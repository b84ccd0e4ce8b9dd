#include "cli/options/store_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/files/file_source.h"
#include "base/text.h"
#include "cache/cache_directory.h"
#include "cli/console/report_error.h"
#include "cli/console/retries.h"
#include "sources/location.h"

namespace weightfs {
namespace {

constexpr std::chrono::hours kForever{100 * 365 * 24};

// Null: offline.
http::ClientPtr client_of(const StoreFlags& store_flags, const std::function<void(const std::string&)>& log) {
  if (store_flags.offline) return nullptr;
  http::Options options = store_flags.requests;
  options.connect_timeout = std::min(options.connect_timeout, options.stall_timeout);
  options.user_agent = "weightfs/" WEIGHTFS_VERSION;
  report_retries(options, log);
  const auto client = std::make_shared<http::Client>(std::move(options));
  if (store_flags.wait_for_network) client->wait_for_network(*store_flags.wait_for_network);
  return client;
}

// An absolute path, because a server changes its working directory.
Result<std::string> blob_directory(const std::string& given) {
  std::error_code error;
  const std::string path = std::filesystem::canonical(given, error);
  if (error || !std::filesystem::is_directory(path, error))
    return failure(Code::not_found,
                   fmt::format("--blob-dir {}: {}", given, error ? error.message() : "not a directory"));
  return path;
}

// A path, or the digest of a block list beside the model.
Result<void> use_block_list(RegistryOptions& registries, const std::string& tree) {
  constexpr std::string_view kDigest = "sha256:";
  if (tree.empty()) return {};
  if (tree.starts_with(kDigest)) {
    registries.block_list_digest = digest_of_hex(std::string_view(tree).substr(kDigest.size()));
    if (!registries.block_list_digest) return failure(Code::unsupported, fmt::format("--tree {}: not a digest", tree));
    return {};
  }
  std::error_code error;
  const std::string path = std::filesystem::canonical(tree, error);  // a server changes its working directory
  if (error) return failure(Code::not_found, fmt::format("--tree {}: {}", tree, error.message()));
  auto list = open_file(path).and_then(BlockList::open);
  if (!list) return failure(list.error().code, fmt::format("--tree {}: {}", tree, list.error().message));
  registries.block_list = std::move(*list);
  return {};
}

std::optional<int> parse_retries(const std::string& text) {
  const auto count = parse_number<unsigned>(text);
  return count && *count <= 100 ? std::optional(static_cast<int>(*count)) : std::nullopt;
}

std::optional<std::chrono::seconds> parse_wait_for_network(const std::string& text) {
  if (text == "forever") return kForever;
  const auto number = parse_number<unsigned>(text);
  return number && *number <= kUpToADay.most ? std::optional(std::chrono::seconds(*number)) : std::nullopt;
}

Option mirror_option(StoreFlags& store_flags) {
  return {"mirror", "[HOST=]URL",
          "server that may have the blobs of registries (of all, or of HOST), or the directory v1/blobs of another "
          "cache; asked before the registry; its bytes are verified before they are read; may be repeated",
          [&store_flags](const std::string& value) -> Result<void> {
            Mirror mirror = TRY(parse_mirror(value));
            if (mirror.is_cache)
              store_flags.store.fetching.cache_mirrors.push_back(std::move(mirror.url));
            else
              store_flags.mirrors.push_back(std::move(mirror));
            return {};
          }};
}

}  // namespace

Options cache_options(StoreFlags& store_flags) {
  StoreOptions& store = store_flags.store;
  return {
      flag("no-cache", "keep unpacked and downloaded data in temporary files, for this command only",
           store_flags.no_cache),
      size("cache-size", "maximum disk space of the cache, such as 20G or 500M (default: a quarter of the file system)",
           store.quota),
      list("blob-dir", "DIR",
           "directory of files named by digest, read in place; searched before the network; may be repeated",
           store.blob_directories),
  };
}

Options network_options(StoreFlags& store_flags) {
  FetchSettings& fetching = store_flags.store.fetching;
  http::Options& requests = store_flags.requests;
  return {
      flag("offline", "do not use the network; reads of data that is not cached fail", store_flags.offline),
      choice("verify", "POLICY",
             "when to verify blobs of registries above 8 MiB: ranges (when all of their ranges have been read), whole "
             "(before the first read) (default: ranges)",
             "a policy", {{"ranges", false}, {"whole", true}}, fetching.verify_whole),
      text("tree", "FILE",
           "verify each range of a model at a URL or in a registry before it is read, with the block list in FILE, or "
           "with the one that has the digest sha256:HEX: at the URL with the suffix .fsverity, or attached to the "
           "model in the registry (default: no block list)",
           store_flags.tree),
      seconds("timeout", "give up after this long without data (default: 30)", kUpToADay, requests.stall_timeout),
      seconds("wait-for-ranges",
              "wait up to this long while a registry sends whole blobs above 8 MiB instead of ranges, as "
              "docker-registry does until it has cached a blob (default: do not wait)",
              kUpToADay, fetching.wait_for_ranges),
      parsed("retries", "NUMBER", "retries of a temporary failure without new data (default: 5)",
             "is not a number from 0 to 100", requests.max_retries, parse_retries),
      parsed("wait-for-network", "SECONDS|forever",
             "how long reads wait for an unreachable network or server (default: 120 in a mount, 0 in other commands)",
             "is not forever or a number of seconds up to 86400", store_flags.wait_for_network, parse_wait_for_network),
      mirror_option(store_flags),
      flag("insecure", "use http instead of https for registries, and permit http:// URLs of other machines",
           requests.insecure),
      flag("allow-private-urls", "permit URLs in containers with loopback, link-local and private addresses",
           requests.allow_private_urls),
  };
}

Option sandbox_option(StoreFlags& store_flags) {
  return choice("sandbox", "on|off", "sandbox of the process that reads containers; off is for debugging (default: on)",
                "a switch", {{"on", true}, {"off", false}}, store_flags.sandbox);
}

std::string absolute_source(const std::string& source) {
  return is_path(source) ? absolute_path(source).value_or(source) : printable_source(source);
}

Result<BlobStorePtr> use_store(const std::vector<std::string>& sources, OpenOptions& open_options,
                               const StoreFlags& store_flags, std::function<void(const std::string&)> log) {
  StoreOptions options = store_flags.store;
  for (std::string& directory : options.blob_directories) directory = TRY(blob_directory(directory));
  if (const auto directory = cache_directory(); directory && !store_flags.no_cache) options.directory = *directory;
  const http::ClientPtr http = client_of(store_flags, log);
  open_options.log = log;
  options.log = std::move(log);
  if (sources.size() == 1) options.model = absolute_source(sources.front());
  options.fetching.http = http;
  options.fetching.options.retries = store_flags.requests.max_retries;
  const BlobStorePtr store = blob_store(std::move(options));
  open_options.blobs = store;
  open_options.registries = {
      .store = store, .http = http, .mirrors = store_flags.mirrors, .plain_http = store_flags.requests.insecure};
  TRY_VOID(use_block_list(open_options.registries, store_flags.tree));
  return store;
}

}  // namespace weightfs
