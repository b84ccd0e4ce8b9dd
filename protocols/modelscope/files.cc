// The files of a revision, and their bytes.
#include <fmt/core.h>

#include <utility>

#include "base/text.h"
#include "base/values/json.h"
#include "cache/download/request_with_retry.h"
#include "cache/download/shown_reason.h"
#include "cache/url.h"
#include "protocols/modelscope.h"

namespace weightfs::modelscope {
namespace {

constexpr size_t kMaxList = 64 << 20;  // the whole list is one response
constexpr uint64_t kMaxListValues = 2'000'000;
constexpr uint64_t kMaxSize = 1ULL << 50;  // of a file
constexpr size_t kMaxWarnings = 100;

std::optional<uint64_t> count_in(const Map& map, std::string_view key) {
  if (const auto* const number = map.find_as<uint64_t>(key)) return *number;
  const auto* const number = map.find_as<int64_t>(key);
  return number != nullptr && *number >= 0 ? std::optional(static_cast<uint64_t>(*number)) : std::nullopt;
}

std::string repository_url(const Hub& hub, const Name& name, std::string_view api) {
  return fmt::format("{}{}/models/{}/", hub.endpoint, api, name.id);
}

std::string list_url(const Hub& hub, const Name& name) {
  return fmt::format("{}repo/files?Revision={}&Recursive=true", repository_url(hub, name, "/api/v1"),
                     http::url_encoded(name.revision));
}

Error error_of_list(const Hub& hub, const Name& name, const download::Response& response) {
  const int status = response.head.status;
  const std::string token = hub.credentials->description();
  const std::string detail = download::error_detail(response);
  if (status == 404)
    return {Code::not_found, fmt::format("{}: no such repository or revision, or it is private ({})", name.text(),
                                         token.empty() ? "without a token; set MODELSCOPE_API_TOKEN" : token)};
  if (status == 401 || status == 403)
    return {Code::forbidden, fmt::format("{}: access denied ({}){}", name.text(),
                                         token.empty() ? "without a token; set MODELSCOPE_API_TOKEN" : token, detail)};
  return {Code::unsupported, name.text() + detail};
}

Result<std::string> request_list(const Hub& hub, const Name& name) {
  const http::Request request{.url = list_url(hub, name),
                              .headers = {"Accept: application/json"},
                              .encoded = true,
                              .credentials = hub.credentials};
  auto response = TRY(download::request_with_retry(*hub.http, request, kMaxList, hub.store->stop_token()));
  if (response.head.status != 200) return failure(error_of_list(hub, name, response));
  if (auto page = download::web_page_error(response)) return failure(std::move(*page));
  return std::move(response.body);
}

Result<Map> parse_response(const std::string& text) {
  ValueBuilder builder(kMaxListValues);
  const SourcePtr source = in_memory(text);
  const auto read = read_json(*source, 0, source->size(), builder);
  if (builder.full()) return failure(Code::unsupported, "a list with too many values");
  TRY_VOID(read);
  Value value = builder.take();
  auto* const map = std::get_if<Map>(&value);
  if (map == nullptr) return failure(Code::corrupt, "not a response of ModelScope");
  return std::move(*map);
}

}  // namespace

std::vector<std::string> urls_of(const std::string& endpoint, const Name& name) {
  const Hub hub{endpoint, nullptr, nullptr, nullptr};
  return {repository_url(hub, name, "/api/v1") + "repo/files?Revision=", repository_url(hub, name, "") + "resolve/"};
}

Result<Files> parse_files(const std::string& text) {
  const Map response = TRY(parse_response(text));
  // An error may have the status 200.
  if (const auto code = count_in(response, "Code"); code != 200U)
    return failure(code == 404U ? Code::not_found : Code::unsupported,
                   fmt::format("the server reports {}: {}", code ? std::to_string(*code) : "no code",
                               quoted(download::shown_reason(text_in(response, "Message")))));
  const Map* const data = response.find_as<Map>("Data");
  const List* const list = data == nullptr ? nullptr : data->find_as<List>("Files");
  if (list == nullptr) return failure(Code::corrupt, "not a list of files");
  Files out;
  for (const Value& value : *list) {
    const auto* const entry = std::get_if<Map>(&value);
    if (entry == nullptr) return failure(Code::corrupt, "not a list of files");
    if (text_in(*entry, "Type") == "tree") continue;
    const std::string path(text_in(*entry, "Path"));
    const auto size = count_in(*entry, "Size");
    const auto digest = digest_of_hex(lower_case(text_in(*entry, "Sha256")));
    if (path.empty() || !size || *size > kMaxSize)
      return failure(Code::corrupt, fmt::format("{}: not a file", quoted(path)));
    const uint64_t committed = count_in(*entry, "CommittedDate").value_or(0);
    constexpr uint64_t kMaxSeconds = 1ULL << 33;
    const Time modified = committed < kMaxSeconds ? static_cast<Time>(committed) * 1'000'000'000 : 0;
    if (digest)
      out.files.push_back({path, *size, *digest, modified});
    else if (out.warnings.size() < kMaxWarnings)
      out.warnings.push_back(fmt::format("{}: the list has no SHA-256 of it; left out", quoted(path)));
  }
  return out;
}

Result<Files> list_files(const Hub& hub, const Name& name) {
  const std::string key = "list of " + list_url(hub, name);
  const auto parsed = [&](const std::string& text) {
    return parse_files(text).map_error([&](const Error& error) {
      return Error{error.code, fmt::format("{}: {}", name.text(), error.message)};
    });
  };
  if (hub.http == nullptr) {
    if (const auto saved = hub.store->load_text(key)) return parsed(*saved);
    return failure(Code::network, fmt::format("{}: not cached; retry without --offline", name.text()));
  }
  auto text = request_list(hub, name);
  if (!text) {
    Error error = text.error();
    if (is_about_the_network(error) && hub.store->load_text(key))
      error.message += "; use --offline for the saved files";
    return failure(std::move(error));
  }
  Files files = TRY(parsed(*text));
  hub.store->save_text(key, *text);
  return files;
}

Result<SourcePtr> open_file(const Hub& hub, const Name& name, const ListedFile& file) {
  const BlobRef ref{fmt::format("{}/{}", name.id, file.path), file.sha256, file.size};
  const std::string url = fmt::format("{}resolve/{}/{}", repository_url(hub, name, ""),
                                      http::url_encoded(name.revision), http::url_encoded(file.path, "/"));
  return TRY(hub.store->resolve_from(ref, {{url, http::Trust::user, hub.credentials}})).verified;
}

}  // namespace weightfs::modelscope
