// Texts that are cached under a key, such as a listing, a manifest, or the version of a file on a server. A text is a
// blob whose key can be moved to another blob.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cache/core/store_core.h"
#include "cache/download/remote_file.h"

namespace weightfs::blobs {

/// As BlobStore::save_text() and load_text().
void save_text(StoreCore& store, const std::string& key, std::string_view text);
std::optional<std::string> load_text(StoreCore& store, const std::string& key);

/// Opens the file at an origin. Its version is saved, so that the server need not send the first bytes again, and is
/// not needed with --offline. `name` and `size` are as for RemoteFile. Fails as RemoteFile::open() does, and with
/// network if it is offline and the version of this size is unknown.
Result<download::RemoteFilePtr> open_remote_file(StoreCore& store, const download::Origin& origin,
                                                 const std::string& name, std::optional<uint64_t> size);

/// The SHA-256 of a file at a URL, as its server states it now or has stated it of this version; nothing if it has not,
/// or if it cannot be saved: the blob of the file would not be found again. `identity` is that of the version.
std::optional<Digest> stated_digest(StoreCore& store, const download::RemoteFile& remote,
                                    const std::optional<std::string>& identity);

}  // namespace weightfs::blobs
