// A SOURCE in Azure Blob Storage: `az://ACCOUNT/CONTAINER/PATH` is a model file, whose other files are the blobs beside
// it, or all blobs below that path, shown like a directory. `abfs://CONTAINER@HOST/PATH` and
// `https://HOST/CONTAINER/PATH` name the same.
#include "protocols/azure.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "cache/url.h"
#include "sources/kinds.h"
#include "sources/objects/stored.h"

namespace weightfs {
namespace {

struct NamedBlob {
  azure::Place place;
  std::string path;   // the name of the blob; empty: the container
  std::string begin;  // of the source, for messages: "az://account/container/"

  bool is_prefix() const { return path.empty() || path.ends_with('/'); }
  std::string shown() const { return begin + (place.is_url ? http::url_encoded(path, "/") : printable(path)); }
  // The path up to its last `/`, and the rest.
  std::string folder() const { return path.substr(0, path.rfind('/') + 1); }
  std::string file() const { return path.substr(path.rfind('/') + 1); }
};

// The names are in the path of a URL, of which libcurl, proxies and servers remove such components.
Result<NamedBlob> checked(NamedBlob name, const std::string& shown) {
  constexpr size_t kMaxPath = 1024;
  const auto invalid = [&](const char* problem) {
    return failure(Code::unsupported, fmt::format("{}: {}", quoted(shown), problem));
  };
  if (!name.place.is_valid()) return invalid("not a valid name of an account and a container");
  if (name.path.size() > kMaxPath) return invalid("a name of a blob has at most 1024 characters");
  std::string_view path = name.path;
  if (path.ends_with('/')) path.remove_suffix(1);
  if (!name.path.empty() && !is_plain_path(path))
    return invalid("a name with an empty component, `.` or `..` is not supported");
  return name;
}

// A signature behind a name is not taken for a part of it, which messages and metadata would show.
Result<void> check_unsigned(const std::string& name) {
  const size_t question = std::min(name.find('?'), name.size());
  if (question == name.size() || ("&" + name.substr(question + 1)).find("&sig=") == std::string::npos) return {};
  return failure(Code::unsupported, fmt::format("{}: a name with a signature is not supported; write an https URL, or "
                                                "set AZURE_STORAGE_SAS_TOKEN",
                                                quoted(name.substr(0, question))));
}

// "//ACCOUNT/CONTAINER/PATH"
Result<NamedBlob> parse_az(const std::string& rest) {
  TRY_VOID(check_unsigned("az:" + rest));
  if (!rest.starts_with("//"))
    return failure(Code::unsupported, fmt::format("{}: not a valid name of a blob; write az://ACCOUNT/CONTAINER/PATH",
                                                  quoted("az:" + rest)));
  NamedBlob name;
  std::string_view text = std::string_view(rest).substr(2);
  name.place.account = cut_component(text);
  name.place.name = cut_component(text);
  name.path = text;
  name.begin = fmt::format("az://{}/{}/", printable(name.place.account), printable(name.place.name));
  return checked(std::move(name), "az:" + rest);
}

// "//CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"
Result<NamedBlob> parse_abfs(const std::string& rest) {
  TRY_VOID(check_unsigned("abfs:" + rest));
  std::string_view text = rest;
  if (text.starts_with("//")) text.remove_prefix(2);
  const std::string_view server = cut_component(text);
  const size_t at = std::min(server.find('@'), server.size());
  const auto account = azure::account_of_host(server.substr(std::min(at + 1, server.size())));
  if (!rest.starts_with("//") || !account)
    return failure(
        Code::unsupported,
        fmt::format("{}: not a valid name of a blob; write abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
                    quoted("abfs:" + rest)));
  NamedBlob name;
  name.place.account = account->first;
  name.place.domain = account->second;
  name.place.name = server.substr(0, at);
  name.path = text;
  name.begin = fmt::format("abfs://{}/", printable(server));
  return checked(std::move(name), "abfs:" + rest);
}

// "//ACCOUNT.blob.core.windows.net/CONTAINER/PATH?SIGNATURE"; no message has the query.
Result<NamedBlob> parse_url(const std::string& rest) {
  const std::string plain = rest.substr(0, rest.find('#'));
  const size_t question = std::min(plain.find('?'), plain.size());
  std::string_view text = std::string_view(plain).substr(0, question);
  text.remove_prefix(std::min<size_t>(text.size(), 2));
  const std::string host(cut_component(text));
  const auto account = azure::account_of_host(host);
  const std::string shown = "https:" + plain.substr(0, question);
  if (!account) return failure(Code::unsupported, fmt::format("{}: not a URL of a blob", quoted(shown)));
  NamedBlob name;
  name.place.account = account->first;
  name.place.domain = account->second;
  name.place.is_url = true;
  name.place.name = http::url_decoded(cut_component(text));
  name.place.sas = plain.substr(std::min(question + 1, plain.size()));
  bool is_valid = true;
  name.path = http::url_decoded(text, &is_valid);
  name.begin = fmt::format("https://{}/{}/", lower_case(host), printable(name.place.name));
  if (!is_valid || (!name.place.sas.empty() && !is_visible_ascii(name.place.sas)))
    return failure(Code::unsupported, fmt::format("{}: not a valid URL", quoted(shown)));
  return checked(std::move(name), shown);
}

Result<azure::ContainerPtr> open_container_of(const NamedBlob& name, const OpenOptions& options) {
  const RegistryOptions& registries = options.registries;
  if (registries.store == nullptr || registries.clouds.azure == nullptr)
    return failure(Code::unsupported, fmt::format("{}: object stores are not available here", name.shown()));
  return azure::Container::open(name.place, *registries.clouds.azure, registries.store, registries.http)
      .map_error([&](const Error& error) {
        return Error{error.code, fmt::format("{}: {}", name.shown(), error.message)};
      });
}

Result<SourcePtr> open_blob(const azure::ContainerPtr& container, const std::string& path, const std::string& shown) {
  auto found = TRY(container->find(path));
  if (found) return std::move(found->bytes);
  return failure(Code::not_found, fmt::format("{}: no such blob", shown));
}

Result<SourceEntry> blob_entry(const azure::ContainerPtr& source, const NamedBlob& name, azure::OpenBlob blob,
                               const OpenOptions& options, Check check) {
  const auto open = [source, name](std::string_view path) {
    return open_blob(source, name.folder() + std::string(path), name.begin + name.folder() + printable(path));
  };
  return entry_of_file({name.file(), name.shown(), std::move(blob.bytes), blob.modified, open}, options, check);
}

// All blobs whose names begin with the path, which ends with `/` or is empty.
Result<SourceEntry> entry_of_prefix(const azure::ContainerPtr& container, const NamedBlob& name,
                                    const OpenOptions& options) {
  ObjectsBelow below(name.path);
  for (const azure::Blob& blob : TRY(container->list(name.path)))
    TRY_VOID(below.add({blob.name, blob.etag, {container->bytes_of(blob), blob.modified}}));
  return std::move(below).finish(name.place.name, name.shown(), options);
}

// In a hierarchical namespace, the name of a directory may be that of an empty blob, which is no model.
Result<SourceEntry> find_named(NamedBlob name, const OpenOptions& options, Check check) {
  const azure::ContainerPtr container = TRY(open_container_of(name, options));
  if (name.is_prefix()) return entry_of_prefix(container, name, options);
  auto blob = TRY(container->find(name.path));
  if (blob && blob->bytes->size() > 0) return blob_entry(container, name, std::move(*blob), options, check);
  NamedBlob folder = name;
  folder.path += '/';
  auto entry = entry_of_prefix(container, folder, options);
  if (entry || entry.error().code != Code::not_found) return entry;
  if (blob) return blob_entry(container, name, std::move(*blob), options, check);
  return failure(Code::not_found, fmt::format("{}: no such blob, and no blobs below it", name.shown()));
}

Result<SourcePtr> open_named(const NamedBlob& name, const OpenOptions& options) {
  if (name.is_prefix()) return failure(Code::unsupported, fmt::format("{}: names a directory", name.shown()));
  return open_blob(TRY(open_container_of(name, options)), name.path, name.shown());
}

std::vector<Scope> scopes_of_named(const NamedBlob& name, const OpenOptions& options) {
  const azure::Settings none;
  const azure::Settings& settings =
      options.registries.clouds.azure == nullptr ? none : *options.registries.clouds.azure;
  return std::vector<Scope>{{.below = http::normalized_url(name.place.url(settings) + "/"),
                             .paths = Scope::Paths::container,
                             .credentials = name.place.credentials(settings),
                             .folder = name.folder()}};
}

// A block list, and the token of --source-token-file, are for plain URLs.
bool is_plain_url(const OpenOptions& options) {
  const RegistryOptions& registries = options.registries;
  return registries.clouds.azure == nullptr || registries.has_block_list() ||
         (registries.http != nullptr && registries.http->options().has_source_token);
}

// Whether a URL that cannot be read as that of blobs may be a plain one: a directory of public blobs that may not be
// listed has an index file; offline it is not known whether it was read with a token.
bool may_be_plain(const NamedBlob& name, const Error& error, const OpenOptions& options) {
  if (options.registries.http == nullptr) return true;
  return error.code == Code::forbidden && name.is_prefix() && name.place.sas.empty();
}

}  // namespace

bool is_blob_url(const std::string& source) {
  constexpr std::string_view kScheme = "https://";
  if (lower_case(source.substr(0, kScheme.size())) != kScheme) return false;
  std::string_view rest = std::string_view(source).substr(kScheme.size());
  rest = rest.substr(0, rest.find('#'));
  const size_t question = rest.find('?');
  const std::string query = question == rest.npos ? "" : "&" + std::string(rest.substr(question + 1));
  rest = rest.substr(0, question);
  const auto account = azure::account_of_host(cut_component(rest));
  const bool has_path = rest.find('/') != rest.npos;
  if (!account || !azure::Place{account->first, http::url_decoded(cut_component(rest))}.is_valid()) return false;
  return query.empty() ? has_path : query.find("&sig=") != query.npos;
}

Result<SourceEntry> find_blob(const std::string& rest, const OpenOptions& options, Check check) {
  return find_named(TRY(parse_az(rest)), options, check);
}

Result<SourceEntry> find_abfs_blob(const std::string& rest, const OpenOptions& options, Check check) {
  return find_named(TRY(parse_abfs(rest)), options, check);
}

Result<SourceEntry> find_blob_url(const std::string& rest, const OpenOptions& options, Check check) {
  if (is_plain_url(options)) return find_https_url(rest, options, check);
  const NamedBlob name = TRY(parse_url(rest));
  auto found = find_named(name, options, check);
  if (found || !may_be_plain(name, found.error(), options)) return found;
  auto plain = find_https_url(rest, options, check);
  return plain ? std::move(plain) : std::move(found);
}

Result<SourcePtr> open_blob_file(const std::string& rest, const OpenOptions& options) {
  return open_named(TRY(parse_az(rest)), options);
}

Result<SourcePtr> open_abfs_file(const std::string& rest, const OpenOptions& options) {
  return open_named(TRY(parse_abfs(rest)), options);
}

Result<SourcePtr> open_blob_url(const std::string& rest, const OpenOptions& options) {
  if (is_plain_url(options)) return open_https_file(rest, options);
  const NamedBlob name = TRY(parse_url(rest));
  auto opened = open_named(name, options);
  if (opened || !may_be_plain(name, opened.error(), options)) return opened;
  auto plain = open_https_file(rest, options);
  return plain ? std::move(plain) : std::move(opened);
}

Result<std::vector<Scope>> scopes_of_blob(const std::string& rest, const OpenOptions& options) {
  return scopes_of_named(TRY(parse_az(rest)), options);
}

Result<std::vector<Scope>> scopes_of_abfs(const std::string& rest, const OpenOptions& options) {
  return scopes_of_named(TRY(parse_abfs(rest)), options);
}

Result<std::vector<Scope>> scopes_of_blob_url(const std::string& rest, const OpenOptions& options) {
  std::vector<Scope> scopes;
  if (const auto name = parse_url(rest)) scopes = scopes_of_named(*name, options);
  const std::vector<Scope> plain = TRY(scopes_of_https_url(rest, options));
  scopes.insert(scopes.end(), plain.begin(), plain.end());
  return scopes;
}

Result<void> read_keys_of_blobs(OpenOptions& options) {
  options.registries.clouds.azure = std::make_shared<const azure::Settings>(TRY(azure::Settings::of_user()));
  return {};
}

Result<void> read_keys_of_blob_urls(OpenOptions& options) {
  options.registries.clouds.azure = std::make_shared<const azure::Settings>(azure::Settings::of_user_if_valid());
  return {};
}

}  // namespace weightfs
