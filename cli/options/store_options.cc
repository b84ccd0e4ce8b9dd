#include "cli/options/store_options.h"

#include <fmt/core.h>

#include <cctype>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/files/file_source.h"
#include "base/text.h"
#include "cache/cache_directory.h"
#include "cli/console/retries.h"
#include "sources/location.h"

namespace weightfs {
namespace {

constexpr std::chrono::hours kForever{100 * 365 * 24};
constexpr unsigned kMaxRetries = 100;
constexpr unsigned kMaxTimeout = 24 * 60 * 60;

http::ClientPtr http_for(const StoreFlags& store_flags, const std::function<void(const std::string&)>& log) {
  if (store_flags.offline) return nullptr;
  http::Options options;
  options.stall_timeout = std::chrono::seconds(store_flags.timeout);
  options.connect_timeout = std::min<std::chrono::milliseconds>(options.connect_timeout, options.stall_timeout);
  options.allow_private_urls = store_flags.allow_private_urls;
  options.insecure = store_flags.insecure;
  options.max_retries = static_cast<int>(store_flags.retries);
  options.user_agent = "weightfs/" WEIGHTFS_VERSION;
  report_retries(options, log);
  const auto client = std::make_shared<http::Client>(options);
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

std::optional<unsigned> parse_seconds(const std::string& text) {
  const auto seconds = parse_number<unsigned>(text);
  return seconds && *seconds > 0 && *seconds <= kMaxTimeout ? seconds : std::nullopt;
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

Result<void> wrong(const std::string& value, const char* what) {
  return failure(Code::unsupported, fmt::format("{} {}", quoted(value), what));
}

Result<void> take_size(StoreFlags& store_flags, const std::string& value) {
  store_flags.size = parse_size(value);
  if (!store_flags.size) return wrong(value, "is not a size; use a number such as 20G");
  return {};
}

Result<void> take_directory(StoreFlags& store_flags, const std::string& value) {
  store_flags.blob_directories.push_back(value);
  return {};
}

Result<void> take_tree(StoreFlags& store_flags, const std::string& value) {
  store_flags.tree = value;
  return {};
}

Result<void> take_mirror(StoreFlags& store_flags, const std::string& value) {
  store_flags.mirrors.push_back(TRY(parse_mirror(value)));
  return {};
}

Result<void> take_timeout(StoreFlags& store_flags, const std::string& value) {
  const auto seconds = parse_seconds(value);
  if (!seconds) return wrong(value, "is not a number of seconds from 1 to 86400");
  store_flags.timeout = *seconds;
  return {};
}

Result<void> take_wait(StoreFlags& store_flags, const std::string& value) {
  const auto seconds = parse_seconds(value);
  if (!seconds) return wrong(value, "is not a number of seconds from 1 to 86400");
  store_flags.wait_for_ranges = *seconds;
  return {};
}

Result<void> take_retries(StoreFlags& store_flags, const std::string& value) {
  const auto count = parse_number<unsigned>(value);
  if (!count || *count > kMaxRetries) return wrong(value, "is not a number from 0 to 100");
  store_flags.retries = *count;
  return {};
}

Result<void> take_wait_for_network(StoreFlags& store_flags, const std::string& value) {
  const auto seconds = value == "0" ? std::optional(0U) : parse_seconds(value);
  if (!seconds && value != "forever") return wrong(value, "is not forever or a number of seconds up to 86400");
  store_flags.wait_for_network = seconds ? std::chrono::seconds(*seconds) : kForever;
  return {};
}

Result<void> take_recheck(StoreFlags& store_flags, const std::string& value) {
  if (value != "read" && value != "full" && value != "off")
    return wrong(value, "is not a policy; use read, full or off");
  store_flags.recheck = value == "read" ? Recheck::read : value == "full" ? Recheck::full : Recheck::off;
  return {};
}

Result<void> take_verify(StoreFlags& store_flags, const std::string& value) {
  if (value != "ranges" && value != "whole") return wrong(value, "is not a policy; use ranges or whole");
  store_flags.verify_whole = value == "whole";
  return {};
}

Result<void> take_sandbox(StoreFlags& store_flags, const std::string& value) {
  if (value != "on" && value != "off") return wrong(value, "is not a switch; use on or off");
  store_flags.sandbox = value == "on";
  return {};
}

auto with(StoreFlags& store_flags, Result<void> (*take)(StoreFlags&, const std::string&)) {
  return [&store_flags, take](const std::string& value) { return take(store_flags, value); };
}

}  // namespace

std::optional<uint64_t> parse_size(const std::string& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (unit.empty() || unit == "B") return number;
  const std::string_view behind = unit.substr(1);
  const size_t power =
      std::string_view("KMGT").find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
  if (power == std::string_view::npos || !(behind.empty() || behind == "B" || behind == "iB")) return std::nullopt;
  uint64_t size = 0;
  return __builtin_mul_overflow(number, uint64_t{1024} << (10 * power), &size) ? std::nullopt : std::optional(size);
}

Options cache_options(StoreFlags& store_flags) {
  return {
      flag("no-cache", "keep unpacked and downloaded data in temporary files, for this command only",
           store_flags.no_cache),
      {"cache-size", "SIZE",
       "maximum disk space of the cache, such as 20G or 500M (default: a quarter of the file system)",
       with(store_flags, take_size)},
      {"recheck", "POLICY",
       "when to check cached blobs for damage: read (each block on its first read), full (the whole blob before its "
       "first read), off (default: read)",
       with(store_flags, take_recheck)},
      {"blob-dir", "DIR",
       "directory of files named by digest, read in place; searched before the network; may be repeated",
       with(store_flags, take_directory)},
  };
}

Options network_options(StoreFlags& store_flags) {
  return {
      flag("offline", "do not use the network; reads of data that is not cached fail", store_flags.offline),
      flag("stream", "serve downloaded bytes before verification; a corrupt download is detected only at its end",
           store_flags.stream),
      {"verify", "POLICY",
       "when to verify blobs of registries above 8 MiB: ranges (when all of their ranges have been read), whole "
       "(before the first read) (default: ranges)",
       with(store_flags, take_verify)},
      {"tree", "FILE",
       "verify each range of a model at a URL or in a registry before it is read, with the block list in FILE, or with "
       "the one that has the digest sha256:HEX: at the URL with the suffix .fsverity, or attached to the model in the "
       "registry (default: no block list)",
       with(store_flags, take_tree)},
      {"timeout", "SECONDS", "give up after this long without data (default: 30)", with(store_flags, take_timeout)},
      {"wait-for-ranges", "SECONDS",
       "wait up to this long while a registry sends whole blobs above 8 MiB instead of ranges, as docker-registry does "
       "until it has cached a blob (default: do not wait)",
       with(store_flags, take_wait)},
      {"retries", "NUMBER",
       "how often a request is repeated that failed for a reason that may pass, without progress in between "
       "(default: 5)",
       with(store_flags, take_retries)},
      {"wait-for-network", "SECONDS|forever",
       "how long a read waits for a network or a server that is down, and goes on when it is back (default: 120 in a "
       "mount, 0 in other commands)",
       with(store_flags, take_wait_for_network)},
      {"mirror", "[HOST=]URL",
       "server that may have the blobs of registries (of all, or of HOST), or the directory v1/blobs of another cache; "
       "asked before the registry; its bytes are verified before they are read; may be repeated",
       with(store_flags, take_mirror)},
      flag("insecure", "use http instead of https for registries, and permit http:// URLs of other machines",
           store_flags.insecure),
      flag("allow-private-urls", "permit URLs in containers with loopback, link-local and private addresses",
           store_flags.allow_private_urls),
  };
}

Option sandbox_option(StoreFlags& store_flags) {
  return {"sandbox", "on|off", "sandbox of the process that reads containers; off is for debugging (default: on)",
          with(store_flags, take_sandbox)};
}

std::string absolute_source(const std::string& source) {
  return is_path(source) ? absolute_path(source).value_or(source) : printable_source(source);
}

Result<BlobStorePtr> use_store(const std::vector<std::string>& sources, OpenOptions& open_options,
                               const StoreFlags& store_flags, std::function<void(const std::string&)> log) {
  StoreOptions options;
  for (const std::string& directory : store_flags.blob_directories)
    options.blob_directories.push_back(TRY(blob_directory(directory)));
  if (const auto directory = cache_directory(); directory && !store_flags.no_cache) options.directory = *directory;
  const http::ClientPtr http = http_for(store_flags, log);
  options.quota = store_flags.size;
  open_options.log = log;
  options.log = std::move(log);
  options.recheck = store_flags.recheck;
  if (sources.size() == 1) options.model = absolute_source(sources.front());
  options.fetching.http = http;
  options.fetching.options.retries = static_cast<int>(store_flags.retries);
  options.fetching.stream = store_flags.stream;
  options.fetching.verify_whole = store_flags.verify_whole;
  options.fetching.wait_for_ranges = std::chrono::seconds(store_flags.wait_for_ranges);
  std::vector<Mirror> mirrors;
  for (const Mirror& mirror : store_flags.mirrors) {
    if (mirror.is_cache)
      options.fetching.cache_mirrors.push_back(mirror.url);
    else
      mirrors.push_back(mirror);
  }
  const BlobStorePtr store = blob_store(std::move(options));
  open_options.blobs = store;
  open_options.registries = {
      .store = store, .http = http, .mirrors = std::move(mirrors), .plain_http = store_flags.insecure};
  TRY_VOID(use_block_list(open_options.registries, store_flags.tree));
  return store;
}

}  // namespace weightfs
