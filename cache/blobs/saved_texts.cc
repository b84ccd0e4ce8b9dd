#include "cache/blobs/saved_texts.h"

#include <fmt/core.h>

#include "base/text.h"

namespace weightfs::blobs {
namespace {

constexpr size_t kMaxText = 512 << 20;

Result<void> write_text(StoreCore& store, const std::string& key, std::string_view text) {
  if (text.size() > kMaxText) return failure(Code::unsupported, "text too long to be saved");
  const Digest digest = sha256(text);
  TRY_VOID(store.backend().put(digest, text));
  store.names().add(digest, {{NameKind::record, key}});
  return store.backend().save_digest(store::DigestOf::cached, "text " + key, digest);
}

}  // namespace

void save_text(StoreCore& store, const std::string& key, std::string_view text) {
  if (const auto saved = write_text(store, key, text); !saved)
    store.log_once(fmt::format("cannot cache the {}: {}", printable(key), saved.error().message));
}

std::optional<std::string> load_text(StoreCore& store, const std::string& key) {
  const auto digest = store.backend().find_digest(store::DigestOf::cached, "text " + key);
  if (!digest) return std::nullopt;
  const store::BlobHandle handle = store.backend().find(StoreCore::name_of(*digest, std::nullopt), std::nullopt);
  if (!handle || handle.range->size() > kMaxText) return std::nullopt;
  std::string text(static_cast<size_t>(handle.range->size()), '\0');
  if (!read_exact(*handle.range, 0, std::as_writable_bytes(std::span(text))) || sha256(text) != *digest)
    return std::nullopt;
  store.names().add(*digest, {{NameKind::record, key}});
  return text;
}

Result<download::RemoteFilePtr> open_remote_file(StoreCore& store, const download::Origin& origin,
                                                 const std::string& name, std::optional<uint64_t> size) {
  TRY_VOID(store.check_open());
  const FetchSettings& fetching = store.fetching();
  const std::string key = "version of " + sha256(origin.url).hex();
  auto known = download::parse_version(load_text(store, key).value_or(""));
  if (known && size && known->size != *size) known.reset();
  if (fetching.http == nullptr) {
    if (known) return download::RemoteFile::of_version(nullptr, origin, *known, "", {});
    return failure(Code::network, fmt::format("{}: not cached, and downloads are disabled by --offline",
                                              name.empty() ? http::printable_url(origin.url) : name));
  }
  auto remote =
      std::make_shared<download::RemoteFile>(fetching.http, name, std::vector{origin}, size, fetching.options);
  if (const auto opened = remote->open(known, store.stop_token()); !opened) {
    Error error = opened.error();
    if (known && name.empty() && is_about_the_network(error)) error.message += "; use --offline for what is cached";
    return failure(std::move(error));
  }
  if (remote->version().is_pinned() && known != remote->version())
    save_text(store, key, download::version_text(remote->version()));
  return remote;
}

std::optional<Digest> stated_digest(StoreCore& store, const download::RemoteFile& remote,
                                    const std::optional<std::string>& identity) {
  if (!identity) return remote.stated_digest();
  const std::string key = "digest of " + sha256(*identity).hex();
  const auto saved = digest_of_hex(load_text(store, key).value_or(""));
  if (!remote.stated_digest() || saved == remote.stated_digest()) return saved;
  save_text(store, key, remote.stated_digest()->hex());
  return digest_of_hex(load_text(store, key).value_or(""));
}

}  // namespace weightfs::blobs
