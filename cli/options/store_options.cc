#include "cli/options/store_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include "base/files/file_source.h"
#include "base/text.h"
#include "cache/cache_directory.h"
#include "cache/direct_client.h"
#include "cache/fetcher.h"
#include "cache/url.h"
#include "cli/console/report_error.h"
#include "cli/console/retries.h"
#include "protocols/client_certificate.h"
#include "protocols/keyring.h"
#include "sources/location.h"

namespace weightfs {
namespace {

constexpr std::chrono::hours kForever{100 * 365 * 24};
constexpr std::chrono::seconds kWaitForNetwork{120};

// Null: offline.
Result<http::ClientPtr> client_of(const StoreFlags& flags, Sender sender,
                                  const std::function<void(const std::string&)>& log) {
  if (flags.offline) return http::ClientPtr();
  http::Options options = request_options(flags);
  report_retries(options, log);
  http::ClientPtr client;
  if (sender.fetcher) {
    client = std::make_shared<fetcher::FetchedClient>(std::move(options), std::move(sender.fetcher),
                                                      std::move(sender.process));
  } else {
    auto certificates = TRY(read_client_certificates(flags.client_certificates));
    client = std::make_shared<http::DirectClient>(
        std::move(options), std::make_shared<UserKeyring>(std::move(sender.logins), sender.clouds, flags.source_keys),
        std::move(certificates));
  }
  if (flags.wait_for_network) client->wait_for_network(*flags.wait_for_network);
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

std::optional<size_t> parse_connections(const std::string& text) {
  const auto count = parse_number<size_t>(text);
  return count && *count >= 1 && *count <= http::kMaxConnections ? count : std::nullopt;
}

std::optional<uint64_t> parse_rate(const std::string& text) {
  const auto rate = parse_size(text);
  return rate && *rate >= http::kMinRate ? rate : std::nullopt;
}

std::optional<std::chrono::seconds> parse_wait_for_network(const std::string& text) {
  if (text == "forever") return kForever;
  const auto number = parse_number<unsigned>(text);
  return number && *number <= kUpToADay.most ? std::optional(std::chrono::seconds(*number)) : std::nullopt;
}

// Absolute, because a server changes its working directory.
std::optional<std::string> parse_path(const std::string& text) {
  const auto path = absolute_path(text);
  return path ? std::optional(*path) : std::nullopt;
}

std::optional<std::string> parse_account(const std::string& text) {
  constexpr size_t kDigits = 12;
  const bool is_one = text.size() == kDigits && text.find_first_not_of("0123456789") == text.npos;
  return is_one ? std::optional(text) : std::nullopt;
}

Option connections_option(http::Options& requests) {
  return parsed(
      "connections", "NUMBER",
      "requests to one server at a time, from 1 to 64; others wait, those of readers before those ahead of them "
      "(default: no limit)",
      "is not a number from 1 to 64", requests.connections, parse_connections);
}

Option limit_rate_option(http::Options& requests) {
  return parsed("limit-rate", "RATE",
                "bytes per second of all downloads of the process together, such as 500K or 10M (default: no limit)",
                "is not a rate of at least 1K; use a number of bytes per second such as 10M", requests.limit_rate,
                parse_rate);
}

constexpr const char* kNoFileOfServer = "a server and its file expected: https://HOST[:PORT]=FILE";

// "https://HOST[:PORT]=FILE". Fails unless the first part is a server; nothing if there is none.
Result<std::optional<std::pair<std::string, std::string>>> parse_file_of_server(const std::string& value) {
  const size_t host =
      value.starts_with("https://") || value.starts_with("http://") ? value.find("://") + 3 : value.npos;
  if (host == value.npos) return std::nullopt;
  const size_t equals = std::min(value.find('='), value.size());
  const std::string server = value.substr(0, equals);
  const std::string origin = http::origin_of(server);
  const std::string file = value.substr(std::min(equals + 1, value.size()));
  const bool has_path = server.find_first_of("/?#@", host) != server.npos;
  if (origin.empty() || has_path || file.empty()) return failure(Code::unsupported, kNoFileOfServer);
  return std::pair(origin, absolute_path(file).value_or(file));  // a server changes its directory
}

Option source_token_option(StoreFlags& store_flags) {
  return {"source-token-file", "[SERVER=]FILE",
          "token for the server of the URLs that are sources, or for https://HOST[:PORT]; sent to no other server, and "
          "read again when the file changes; with SERVER may be repeated (default: no token)",
          [&store_flags](const std::string& value) -> Result<void> {
            SourceKeys& keys = store_flags.source_keys;
            if (auto own = TRY(parse_file_of_server(value)))
              keys.tokens.insert_or_assign(own->first, own->second);
            else
              keys.token = absolute_path(value).value_or(value);  // a server changes its directory
            return {};
          }};
}

Option header_file_option(StoreFlags& store_flags) {
  return {
      "header-file", "SERVER=FILE",
      "headers for the URLs of https://HOST[:PORT] that are sources: lines such as \"X-Api-Key: SECRET\" of a file "
      "that other users cannot read; sent to no other server, and read again when the file changes; may be repeated",
      [&store_flags](const std::string& value) -> Result<void> {
        auto own = TRY(parse_file_of_server(value));
        if (!own) return failure(Code::unsupported, kNoFileOfServer);
        store_flags.source_keys.headers.insert_or_assign(own->first, own->second);
        return {};
      }};
}

Option client_certificate_option(StoreFlags& store_flags) {
  return {
      "client-certificate", "SERVER=FILE",
      "client certificate and its private key (PEM) for https://HOST[:PORT], in a file that other users cannot read; "
      "may be repeated",
      [&store_flags](const std::string& value) -> Result<void> {
        auto own = TRY(parse_file_of_server(value));
        if (!own || !own->first.starts_with("https://")) return failure(Code::unsupported, kNoFileOfServer);
        store_flags.client_certificates.insert_or_assign(own->first, own->second);
        return {};
      }};
}

// A token is for one server. The fetcher has read the files, if there is one.
Result<void> check_keys_of_sources(const std::vector<std::string>& sources, const StoreFlags& flags, bool has_fetcher) {
  if (flags.source_keys.files().empty()) return {};
  std::set<std::string> servers;
  for (const std::string& source : sources) servers.insert(http::origin_of(source));
  servers.erase("");
  for (const auto& [origin, file] : flags.source_keys.tokens) servers.erase(origin);
  if (servers.size() > 1 && !flags.source_keys.token.empty())
    return failure(Code::unsupported,
                   "--source-token-file: the sources are on several servers; name the server of each token: "
                   "--source-token-file https://HOST=FILE");
  if (has_fetcher || flags.offline) return {};
  return check_source_keys(flags.source_keys);
}

}  // namespace

std::vector<std::string> sources_with_credentials(std::vector<std::string> sources, const StoreFlags& flags) {
  if (flags.served_mirror.is_of_objects()) sources.emplace_back("s3:");
  return sources;
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
             "how long reads wait for an unreachable network or server (default: 120 in a mount and for fetch, "
             "otherwise 0)",
             "is not forever or a number of seconds up to 86400", store_flags.wait_for_network, parse_wait_for_network),
      connections_option(requests),
      limit_rate_option(requests),
      mirror_option(store_flags),
      source_token_option(store_flags),
      header_file_option(store_flags),
      client_certificate_option(store_flags),
      flag("credential-helpers",
           "run the credential helpers that config.json of docker or auth.json of podman names for the registries of "
           "the sources (default: logins in these files only)",
           store_flags.credential_helpers),
      parsed("credentials-file", "FILE",
             "keys for s3://, in the JSON that a credential_process prints; read again when they expire (default: the "
             "keys of the environment, of the profile, or of a service)",
             "is not a path", store_flags.buckets.credentials_file, parse_path),
      flag("requester-pays", "pay for the requests to buckets of s3:// and gs:// whose owner does not",
           store_flags.buckets.requester_pays),
      parsed("expected-bucket-owner", "ACCOUNT", "account that must own the buckets of s3:// (default: any)",
             "is not an account of 12 digits", store_flags.buckets.expected_owner, parse_account),
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

http::Options request_options(const StoreFlags& flags) {
  http::Options options = flags.requests;
  options.connect_timeout = std::min(options.connect_timeout, options.stall_timeout);
  options.user_agent = "weightfs/" WEIGHTFS_VERSION;
  options.has_source_token = !flags.source_keys.token.empty();
  for (std::string& origin : flags.source_keys.origins()) options.keyed_origins.insert(std::move(origin));
  options.used_up = flags.store.fetching.options.used_up;
  return options;
}

void wait_for_network(const http::ClientPtr& http, const StoreFlags& flags) {
  if (http != nullptr) http->wait_for_network(flags.wait_for_network.value_or(kWaitForNetwork));
}

std::string absolute_source(const std::string& source) {
  return is_path(source) ? absolute_path(source).value_or(source) : printable_source(source);
}

Result<BlobStorePtr> use_store(const std::vector<std::string>& sources, OpenOptions& open_options,
                               const StoreFlags& store_flags, Sender sender,
                               std::function<void(const std::string&)> log) {
  TRY_VOID(check_keys_of_sources(sources, store_flags, static_cast<bool>(sender.fetcher)));
  StoreOptions options = store_flags.store;
  for (std::string& directory : options.blob_directories) directory = TRY(blob_directory(directory));
  if (const auto directory = cache_directory(); directory && !store_flags.no_cache) options.directory = *directory;
  const CloudSettings clouds = sender.clouds;
  const auto mirrors = sender.mirrors;
  const http::ClientPtr http = TRY(client_of(store_flags, std::move(sender), log));
  open_options.log = log;
  options.log = std::move(log);
  if (sources.size() == 1) options.model = absolute_source(sources.front());
  options.fetching.http = http;
  options.fetching.options.retries = store_flags.requests.max_retries;
  const BlobStorePtr store = blob_store(std::move(options));
  open_options.blobs = store;
  open_options.registries = {.store = store,
                             .http = http,
                             .mirrors = store_flags.mirrors,
                             .known_mirrors = mirrors,
                             .plain_http = store_flags.requests.insecure,
                             .clouds = clouds};
  TRY_VOID(use_block_list(open_options.registries, store_flags.tree));
  return store;
}

}  // namespace weightfs
