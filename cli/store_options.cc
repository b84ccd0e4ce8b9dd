#include "cli/store_options.h"

#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/text.h"
#include "cli/remote.h"

namespace weightfs {
namespace {

constexpr unsigned kLongestTimeout = 24 * 60 * 60;

HttpPtr http_for(const Storing& storing) {
  if (storing.offline) return nullptr;
  HttpOptions options;
  options.stall_timeout = std::chrono::seconds(storing.timeout);
  options.connect_timeout = std::min<std::chrono::milliseconds>(options.connect_timeout, options.stall_timeout);
  options.allow_private_urls = storing.allow_private_urls;
  options.insecure = storing.insecure;
  options.user_agent = "weightfs/" WEIGHTFS_VERSION;
  return std::make_shared<Http>(options);
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
  unsigned seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || seconds == 0 || seconds > kLongestTimeout) return {};
  return seconds;
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

void add_store_options(CLI::App& verb, Storing& storing) {
  constexpr const char* kGroup = "Blobs";
  verb.add_flag("--no-cache", storing.no_cache,
                "keep what has to be unpacked or fetched in a temporary file, for this command only")
      ->group(kGroup);
  verb.add_option_function<std::string>(
          "--cache-size",
          [&storing](const std::string& text) {
            storing.size = size_of(text);
            if (!storing.size) throw CLI::ValidationError("--cache-size", str(quoted(text), " is no size (try 20G)"));
          },
          "the most that the cache may take on disk (20G, 500M); a quarter of the file system if not given")
      ->type_name("SIZE")
      ->group(kGroup);
  verb.add_option("--blob-dir", storing.blob_directories,
                  "where blobs lie already, by their digests; read in place, before anything is fetched")
      ->type_name("DIR")
      ->allow_extra_args(false)
      ->group(kGroup);
  verb.add_flag("--offline", storing.offline, "fetch nothing: what is not at hand fails at once")->group(kGroup);
  verb.add_flag("--stream", storing.stream,
                "serve bytes as they arrive, before their digest has proved right; wrong ones fail only at the end")
      ->group(kGroup);
  verb.add_option_function<std::string>(
          "--timeout",
          [&storing](const std::string& text) {
            const auto seconds = seconds_of(text);
            if (!seconds) throw CLI::ValidationError("--timeout", str(quoted(text), " is no number of seconds"));
            storing.timeout = *seconds;
          },
          "give up when nothing arrives for so long (30)")
      ->type_name("SECONDS")
      ->group(kGroup);
  verb.add_flag("--insecure", storing.insecure, "speak http, not https, with registries")->group(kGroup);
  verb.add_flag("--allow-private-urls", storing.allow_private_urls,
                "let a container name loopback, link-local and private addresses")
      ->group(kGroup);
}

Result<bool> take_store_option(Storing& storing, const std::string& option) {
  const size_t equals = std::min(option.find('='), option.size());
  const std::string name = option.substr(0, equals);
  const std::string value = option.substr(std::min(equals + 1, option.size()));
  const auto wrong = [&](const char* what) {
    return failure(Code::unsupported, str("-o ", quoted(option), ": ", what));
  };
  if (name == "cache_size") {
    storing.size = size_of(value);
    if (!storing.size) return wrong("no size (try 20G)");
    return true;
  }
  if (name == "timeout") {
    const auto seconds = seconds_of(value);
    if (!seconds) return wrong("no number of seconds");
    storing.timeout = *seconds;
    return true;
  }
  if (name == "blob_dir") {
    if (value.empty()) return wrong("a directory is missing");
    storing.blob_directories.push_back(value);
    return true;
  }
  const std::array flags = {std::pair{"no_cache", &storing.no_cache}, std::pair{"offline", &storing.offline},
                            std::pair{"stream", &storing.stream}, std::pair{"insecure", &storing.insecure},
                            std::pair{"allow_private_urls", &storing.allow_private_urls}};
  for (const auto& [flag, set] : flags)
    if (option == flag) return *set = true;
  return false;
}

std::string store_option_names() {
  return "no_cache, cache_size=SIZE, blob_dir=DIR, offline, stream, timeout=SECONDS, insecure, allow_private_urls";
}

Result<BlobStorePtr> use_store(Opening& opening, const Storing& storing, std::function<void(const std::string&)> log) {
  StoreOptions options;
  for (const std::string& directory : storing.blob_directories)
    options.blob_directories.push_back(TRY(blob_directory(directory)));
  if (const auto directory = cache_directory(); directory && !storing.no_cache) options.directory = *directory;
  const HttpPtr http = http_for(storing);
  const Scheme scheme = storing.insecure ? Scheme::http : Scheme::https;
  options.quota = storing.size;
  options.log = std::move(log);
  options.fetching.http = http;
  options.fetching.stream = storing.stream;
  const BlobStorePtr store = blob_store(std::move(options));
  opening.blobs = store;
  opening.find = [=](std::string& source) { return find_remote(source, store, http, scheme); };
  return store;
}

}  // namespace weightfs
