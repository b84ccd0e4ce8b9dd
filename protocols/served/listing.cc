#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/values/json.h"
#include "cache/download/request_with_retry.h"
#include "cache/url.h"
#include "protocols/served.h"

namespace weightfs::served {
namespace {

constexpr size_t kMaxListingBytes = 16 << 20;
constexpr uint64_t kMaxListingValues = 1'000'000;

// Nothing for another status than 200, and for a text that is not JSON.
Result<std::optional<Value>> get_json(const std::string& url, const Access& access) {
  http::Request request{.url = url, .headers = {"Accept: application/json"}, .encoded = true};
  request.credentials = TRY(access.http->credentials_of_source(url));
  const auto response =
      TRY(download::request_with_retry(*access.http, request, kMaxListingBytes, access.store->stop_token()));
  if (response.head.status != 200) return std::nullopt;
  ValueBuilder builder(kMaxListingValues);
  const SourcePtr text = in_memory(response.body);
  if (!read_json(*text, 0, text->size(), builder)) return std::nullopt;
  return builder.take();
}

std::optional<Entry> entry_of(const Value& value) {
  const auto* const map = std::get_if<Map>(&value);
  const auto* const name = map == nullptr ? nullptr : map->find_as<std::string>("name");
  const auto* const is_directory = map == nullptr ? nullptr : map->find_as<bool>("is_dir");
  if (name == nullptr || is_directory == nullptr) return std::nullopt;
  Entry entry{*name, std::nullopt, *is_directory};
  if (entry.is_directory && entry.name.ends_with('/')) entry.name.pop_back();
  if (const auto* const size = map->find_as<int64_t>("size"); size != nullptr && *size >= 0)
    entry.size = static_cast<uint64_t>(*size);
  if (const auto* const size = map->find_as<uint64_t>("size")) entry.size = *size;
  return is_file_name(entry.name) ? std::optional(std::move(entry)) : std::nullopt;
}

}  // namespace

std::string url_below(const std::string& directory, std::string_view path, bool is_directory) {
  return http::resolve_url(directory, "./" + http::url_encoded(path, "/") + (is_directory ? "/" : ""));
}

Result<std::optional<std::vector<Entry>>> list(const std::string& url, const Access& access) {
  const auto value = TRY(get_json(url, access));
  const auto* const values = value ? std::get_if<List>(&*value) : nullptr;
  if (values == nullptr) return std::nullopt;
  std::vector<Entry> entries;
  for (const Value& each : *values)
    if (auto entry = entry_of(each)) entries.push_back(std::move(*entry));
  return entries;
}

bool is_model(const std::vector<Entry>& entries) {
  const auto has = [&](std::string_view name, bool is_directory) {
    return std::ranges::any_of(
        entries, [&](const Entry& entry) { return entry.name == name && entry.is_directory == is_directory; });
  };
  return has("tensors.json", false) && has("metadata.json", false) && has(kFiles, true);
}

Result<bool> has_api(const std::string& url, const Access& access) {
  const auto value = TRY(get_json(http::resolve_url(url, "/.weightfs/api/v1/models"), access));
  const auto* const map = value ? std::get_if<Map>(&*value) : nullptr;
  return map != nullptr && map->find_as<List>("entries") != nullptr && map->find("version") != nullptr;
}

}  // namespace weightfs::served
