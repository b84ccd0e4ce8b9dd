// The listings of `weightfs serve`, which is a source for other machines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/blob_store.h"
#include "cache/http/client.h"

namespace weightfs::served {

inline constexpr std::string_view kFiles = "files";  ///< the directory of a model's files

struct Entry {
  std::string name;
  std::optional<uint64_t> size;  ///< of a file
  bool is_directory = false;
};

/// What requests need.
struct Access {
  http::ClientPtr http;
  BlobStorePtr store;  ///< ends requests when it stops
};

/// The URL of what is below a directory, whose own URL ends with `/`.
std::string url_below(const std::string& directory, std::string_view path, bool is_directory);

/// The entries of a directory; nothing if the response is not a listing. Entries whose names are not file names are
/// left out. Fails as requests do.
Result<std::optional<std::vector<Entry>>> list(const std::string& url, const Access& access);

/// Whether a directory with these entries is the tree of a model.
bool is_model(const std::vector<Entry>& entries);

/// Whether the server is `weightfs serve`: others have listings of the same form.
Result<bool> has_api(const std::string& url, const Access& access);

}  // namespace weightfs::served
