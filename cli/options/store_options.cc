#include "cli/options/store_options.h"

#include <cctype>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/text.h"
#include "cache/cache_directory.h"
#include "cli/options/number.h"

namespace weightfs {
namespace {

constexpr unsigned kLongestTimeout = 24 * 60 * 60;

HttpClientPtr http_for(const Storing& storing) {
  if (storing.offline) return nullptr;
  HttpOptions options;
  options.stall_timeout = std::chrono::seconds(storing.timeout);
  options.connect_timeout = std::min<std::chrono::milliseconds>(options.connect_timeout, options.stall_timeout);
  options.allow_private_urls = storing.allow_private_urls;
  options.insecure = storing.insecure;
  options.user_agent = "weightfs/" WEIGHTFS_VERSION;
  return std::make_shared<HttpClient>(options);
}

// A mount leaves the directory that it was started in.
Result<std::string> blob_directory(const std::string& given) {
  std::error_code error;
  const std::string path = std::filesystem::canonical(given, error);
  if (error || !std::filesystem::is_directory(path, error))
    return failure(Code::not_found, str("--blob-dir ", given, ": ", error ? error.message() : "not a directory"));
  return path;
}

std::optional<unsigned> seconds_of(const std::string& text) {
  const auto seconds = number_of<unsigned>(text);
  return seconds && *seconds > 0 && *seconds <= kLongestTimeout ? seconds : std::nullopt;
}

}  // namespace

std::optional<uint64_t> size_of(const std::string& text) {
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

Options store_options(Storing& storing) {
  const auto wrong = [](const std::string& value, const char* what) {
    return failure(Code::unsupported, str(quoted(value), " ", what));
  };
  const auto take_size = [&storing, wrong](const std::string& value) -> Result<void> {
    storing.size = size_of(value);
    if (!storing.size) return wrong(value, "is no size (try 20G)");
    return {};
  };
  const auto take_directory = [&storing](const std::string& value) -> Result<void> {
    storing.blob_directories.push_back(value);
    return {};
  };
  const auto take_timeout = [&storing, wrong](const std::string& value) -> Result<void> {
    const auto seconds = seconds_of(value);
    if (!seconds) return wrong(value, "is no number of seconds");
    storing.timeout = *seconds;
    return {};
  };
  const auto take_recheck = [&storing, wrong](const std::string& value) -> Result<void> {
    if (value != "read" && value != "full" && value != "off") return wrong(value, "is not read, full or off");
    storing.recheck = value == "read" ? Recheck::read : value == "full" ? Recheck::full : Recheck::off;
    return {};
  };
  const auto take_sandbox = [&storing, wrong](const std::string& value) -> Result<void> {
    if (value != "on" && value != "off") return wrong(value, "is neither on nor off");
    storing.sandbox = value == "on";
    return {};
  };
  return {
      flag("no-cache", "keep what has to be unpacked or fetched in a temporary file, for this command only",
           storing.no_cache),
      {"cache-size", "SIZE",
       "the most that the cache may take on disk (20G, 500M); a quarter of the file system if not given", take_size},
      {"recheck", "POLICY",
       "how cached blobs are checked for damage: read (each block when it is first read), full (all of a blob before "
       "its first byte is read), off (default: read)",
       take_recheck},
      {"blob-dir", "DIR", "where blobs lie already, by their digests; read in place, before anything is fetched",
       take_directory},
      flag("offline", "fetch nothing: what is not at hand fails at once", storing.offline),
      flag("stream",
           "serve bytes as they arrive, before their digest has proved right; wrong ones fail only at the end",
           storing.stream),
      {"timeout", "SECONDS", "give up when nothing arrives for so long (30)", take_timeout},
      flag("insecure", "speak http, not https, with registries", storing.insecure),
      flag("allow-private-urls", "let a container name loopback, link-local and private addresses",
           storing.allow_private_urls),
      {"sandbox", "on|off", "confine the process that reads containers; off is for debugging (default: on)",
       take_sandbox},
  };
}

void add_store_options(CLI::App& verb, Storing& storing) { add_options(verb, store_options(storing), "Blobs"); }

Result<BlobStorePtr> use_store(OpenOptions& opening, const Storing& storing,
                               std::function<void(const std::string&)> log) {
  StoreOptions options;
  for (const std::string& directory : storing.blob_directories)
    options.blob_directories.push_back(TRY(blob_directory(directory)));
  if (const auto directory = cache_directory(); directory && !storing.no_cache) options.directory = *directory;
  const HttpClientPtr http = http_for(storing);
  options.quota = storing.size;
  opening.log = log;
  options.log = std::move(log);
  options.recheck = storing.recheck;
  options.fetching.http = http;
  options.fetching.stream = storing.stream;
  const BlobStorePtr store = blob_store(std::move(options));
  opening.blobs = store;
  opening.registries = {store, http, storing.insecure};
  return store;
}

}  // namespace weightfs
