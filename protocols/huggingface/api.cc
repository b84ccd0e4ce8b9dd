#include "protocols/huggingface/api.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <set>

#include "base/text.h"
#include "base/values/json.h"
#include "cache/download/shown_reason.h"
#include "protocols/huggingface/local_cache.h"

namespace weightfs::huggingface {
namespace {

constexpr size_t kMaxPageSize = 16 << 20;
constexpr size_t kMaxRevisionSize = 64 << 20;  // it lists the names of all files, which are not used
constexpr uint64_t kMaxPageValues = 2'000'000;
constexpr size_t kMaxPages = 1000;             // of 1000 files each on the Hub
constexpr uint64_t kMaxListSize = 512 << 20;   // bytes of all pages
constexpr size_t kMaxSavedLine = 1000;         // files
constexpr uint64_t kMaxFileSize = 1ULL << 50;  // the Hub accepts 500 GB
constexpr size_t kMaxFact = 1000;              // bytes
constexpr size_t kMaxFacts = 100;              // of a list
constexpr size_t kDigestDigits = 64;

constexpr const char* kLogin = "log in with `hf auth login` or set HF_TOKEN";

// ---- JSON

const Value* member(const Value& value, std::string_view key) {
  const auto* map = std::get_if<Map>(&value);
  return map == nullptr ? nullptr : map->find(key);
}

std::string text_at(const Value& value, std::string_view key) {
  const Value* const found = member(value, key);
  const auto* text = found == nullptr ? nullptr : std::get_if<std::string>(found);
  return text == nullptr ? "" : *text;
}

std::optional<uint64_t> number_at(const Value& value, std::string_view key) {
  const Value* const found = member(value, key);
  if (found == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<uint64_t>(found)) return *number;
  if (const auto* number = std::get_if<int64_t>(found); number != nullptr && *number >= 0)
    return static_cast<uint64_t>(*number);
  return std::nullopt;
}

Result<Value> parse_response(const std::string& text) {
  ValueBuilder builder(kMaxPageValues);
  const SourcePtr source = in_memory(text);
  auto done = read_json(*source, 0, source->size(), builder);
  if (builder.full()) return failure(Code::unsupported, "a response with too many values");
  if (!done) return tl::unexpected(done.error());
  return builder.take();
}

// "2024-01-30T12:00:00.000Z"; 0 for another text.
Time time_of(const std::string& text) {
  std::tm date{};
  if (::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &date) == nullptr || date.tm_year < 70 || date.tm_year > 300)
    return 0;
  return static_cast<Time>(::timegm(&date)) * 1'000'000'000;
}

// A text, or a list of texts; null for others.
Value fact_of(const Value* value) {
  if (value == nullptr) return nullptr;
  if (const auto* text = std::get_if<std::string>(value)) return text->size() <= kMaxFact ? Value(*text) : Value();
  const auto* list = std::get_if<List>(value);
  if (list == nullptr || list->empty() || list->size() > kMaxFacts) return nullptr;
  List texts;
  for (const Value& each : *list)
    if (const Value fact = fact_of(&each); std::holds_alternative<std::string>(fact)) texts.push_back(fact);
  return texts;
}

// The end of the first tag with this beginning: "license:mit".
Value tagged(const Value& response, std::string_view beginning) {
  const Value* const tags = member(response, "tags");
  const auto* list = tags == nullptr ? nullptr : std::get_if<List>(tags);
  if (list == nullptr) return nullptr;
  for (const Value& tag : *list)
    if (const auto* text = std::get_if<std::string>(&tag); text != nullptr && text->starts_with(beginning))
      return text->size() <= kMaxFact ? Value(text->substr(beginning.size())) : Value();
  return nullptr;
}

// ---- responses

std::string header_text(const http::Response& response, std::string_view name) {
  return std::string(response.header(name));
}

Error named_error(Code code, std::string message, std::string_view name) {
  Error error(code, std::move(message));
  error.name = name.data();
  return error;
}

// A request that is not repeated.
Result<download::Response> send_once(const Hub& hub, http::Request request, size_t limit) {
  request.deadline = std::chrono::steady_clock::now() + hub.within;
  auto response = TRY(download::send_request(*hub.http, request, limit, hub.store->stop_token()));
  if (http::is_temporary(response.head.status))
    return failure(Code::network, http::printable_url(request.url) + download::error_detail(response));
  return response;
}

Result<download::Response> get(const Hub& hub, const Name& name, const std::string& url, size_t limit) {
  const http::Request request{
      .url = url, .headers = {"Accept: application/json"}, .encoded = true, .credentials = hub.credentials};
  auto response =
      TRY(hub.within.count() > 0 ? send_once(hub, request, limit)
                                 : download::request_with_retry(*hub.http, request, limit, hub.store->stop_token()));
  if (response.head.status != 200) return tl::unexpected(error_of(hub, name, response));
  if (auto page = download::web_page_error(response)) return tl::unexpected(std::move(*page));
  return response;
}

Result<Revision> with_subject(const Name& name, Result<Revision> result) {
  return std::move(result).map_error([&](const Error& error) {
    return Error{error.code, fmt::format("{}: {}", name.text(), error.message)};
  });
}

// What parse_revision() needs. The whole response has every file of the repository.
std::string saved_revision(const std::string& text) {
  const auto response = parse_response(text);
  Map saved;
  for (const char* const key : {"id", "sha", "lastModified", "gated", "library_name", "pipeline_tag", "tags"})
    if (const Value* const value = response ? member(*response, key) : nullptr) saved.set(key, *value);
  Map card;
  const Value* const sent = response ? member(*response, "cardData") : nullptr;
  for (const char* const key : {"license", "base_model"})
    if (const Value* const value = sent == nullptr ? nullptr : member(*sent, key)) card.set(key, *value);
  saved.set("cardData", card);
  return to_json_line(saved);
}

// What parse_files() needs, of a file that it returned.
std::string saved_entry(const ListedFile& file) {
  std::string out = R"({"type":"file","path":)";
  append_json_string(out, file.path);
  out += fmt::format(R"(,"size":{})", file.size);
  if (file.git_id) out += fmt::format(R"(,"oid":"{}")", file.git_id->hex());
  if (!file.git_id && !file.sha256) out += R"(,"oid":null)";
  if (file.sha256) out += fmt::format(R"(,"lfs":{{"oid":"{}","size":{}}})", file.sha256->hex(), file.size);
  return out + "}";
}

// The list as lines, each an array of files that parse_files() reads: it limits the values of a text.
std::string saved_list(const std::vector<ListedFile>& files) {
  if (files.empty()) return "[]\n";
  std::string text;
  for (size_t i = 0; i < files.size(); ++i) {
    text += i % kMaxSavedLine == 0 ? "[" : ",";
    text += saved_entry(files[i]);
    if (i % kMaxSavedLine == kMaxSavedLine - 1 || i + 1 == files.size()) text += "]\n";
  }
  return text;
}

Result<std::vector<ListedFile>> parse_saved_list(std::string_view text) {
  std::vector<ListedFile> files;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    auto more = TRY(parse_files(std::string(line)));
    if (more.size() > kMaxListedFiles - files.size()) return failure(Code::unsupported, "too many files");
    if (std::ranges::any_of(more, &ListedFile::is_digest_hidden)) return failure(Code::corrupt, "a hidden digest");
    std::move(more.begin(), more.end(), std::back_inserter(files));
  }
  return files;
}

// The error of a repository that the user has no access to. `message` is the Hub's; while a request is pending, it says
// so.
Error gated_error(const Hub& hub, const Name& name, const std::string& message) {
  if (message.find("awaiting") != message.npos)
    return named_error(Code::forbidden, fmt::format("{}: gated: {}", name.text(), download::shown_reason(message)),
                       kGated);
  const bool has_token = !hub.credentials->description().empty();
  return named_error(
      Code::forbidden,
      fmt::format("{}: gated: request access at {}{}", name.text(), http::printable_url(page_url(hub.endpoint, name)),
                  has_token ? "" : fmt::format(", then {}", kLogin)),
      kGated);
}

// The Hub lists the files of a gated repository for everyone, but hides the digests from callers without access. Its
// response to a request for such a file says why; other files are sent to everyone.
Error access_error(const Hub& hub, const Name& name, const std::string& commit, const std::string& path) {
  const http::Request request{.url = file_url(hub.endpoint, name, commit, path),
                              .method = http::Request::Method::head,
                              .credentials = hub.credentials};
  const auto response = download::send_request(*hub.http, request, 0, hub.store->stop_token());
  const bool is_refused = response && (response->head.status == 401 || response->head.status == 403);
  return gated_error(hub, name, is_refused ? header_text(response->head, "x-error-message") : "");
}

Result<std::vector<ListedFile>> request_list(const Hub& hub, const Name& name, const std::string& commit) {
  std::vector<ListedFile> files;
  std::set<std::string> requested;
  uint64_t received = 0;
  std::string url = api_url(hub.endpoint, name, "tree", commit) + "?recursive=true&expand=false";
  while (!url.empty()) {
    if (!requested.insert(url).second)
      return failure(Code::corrupt, fmt::format("{}: the pages of the file list repeat", name.text()));
    if (requested.size() > kMaxPages)
      return failure(Code::unsupported,
                     fmt::format("{}: the file list has more than {} pages", name.text(), kMaxPages));
    const download::Response page = TRY(get(hub, name, url, kMaxPageSize));
    received += page.body.size();
    if (received > kMaxListSize)
      return failure(Code::unsupported, fmt::format("{}: the file list is larger than 512 MiB", name.text()));
    auto more = parse_files(page.body);
    if (!more) return failure(more.error().code, fmt::format("{}: file list: {}", name.text(), more.error().message));
    if (more->size() > kMaxListedFiles - files.size())
      return failure(Code::unsupported, fmt::format("{}: more than {} files", name.text(), kMaxListedFiles));
    const auto hidden = std::ranges::find_if(*more, &ListedFile::is_digest_hidden);
    if (hidden != more->end()) return failure(access_error(hub, name, commit, hidden->path));
    std::move(more->begin(), more->end(), std::back_inserter(files));
    url = next_page(page.head, hub.endpoint);
  }
  return files;
}

}  // namespace

// ---- errors

// A slash begins a path in the repository.
std::string slash_hint(const Name& name) {
  if (name.path.empty()) return "";
  const std::string first = name.path.substr(0, name.path.find('/'));
  return fmt::format("; the branch {} is written {}%2F{}", quoted(name.revision + "/" + first), name.revision, first);
}

Error error_of(const Hub& hub, const Name& name, const download::Response& response) {
  const int status = response.head.status;
  const std::string code = header_text(response.head, "x-error-code");
  const std::string token = hub.credentials->description();
  const bool has_token = !token.empty();
  const std::string subject = name.text();
  if (code == "RevisionNotFound")
    return named_error(Code::not_found,
                       fmt::format("{}: no such revision: {}{}", subject, quoted(name.revision), slash_hint(name)),
                       kNoRevision);
  if (code == "EntryNotFound") return {Code::not_found, fmt::format("{}: no such file", subject)};
  if (code == "GatedRepo") return gated_error(hub, name, header_text(response.head, "x-error-message"));
  if (code.empty() && status == 401 && has_token)
    return {Code::forbidden, fmt::format("{}: access denied ({}); run `hf auth login`{}", subject, token,
                                         download::error_detail(response))};
  if (code == "RepoNotFound" || status == 404 || (status == 401 && !has_token))
    return {Code::not_found, fmt::format("{}: no such repository, or it is private ({})", subject,
                                         has_token ? token : fmt::format("without a token; {}", kLogin))};
  std::string detail = download::error_detail(response);
  if (const std::string message = header_text(response.head, "x-error-message"); !message.empty())
    detail = fmt::format(": status {}, {}", status, download::shown_reason(message));
  return {Code::unsupported, subject + detail};
}

// ---- revisions

Result<Revision> parse_revision(const std::string& text) {
  const Value response = TRY(parse_response(text));
  Revision revision{text_at(response, "id"), text_at(response, "sha"), time_of(text_at(response, "lastModified"))};
  if (!is_repository_id(revision.id))
    return failure(Code::corrupt, fmt::format("the server sends {} as the repository", quoted(revision.id)));
  if (!is_commit(revision.commit))
    return failure(Code::corrupt, fmt::format("the server sends {} as the commit", quoted(revision.commit)));
  const Value* const card = member(response, "cardData");
  const auto set = [&](const char* key, Value value, Value otherwise) {
    if (!std::holds_alternative<std::nullptr_t>(value))
      revision.facts.set(key, std::move(value));
    else if (!std::holds_alternative<std::nullptr_t>(otherwise))
      revision.facts.set(key, std::move(otherwise));
  };
  set("repository", revision.id, {});
  set("commit", revision.commit, {});
  set("license", fact_of(card == nullptr ? nullptr : member(*card, "license")), tagged(response, "license:"));
  const Value* const gated = member(response, "gated");
  const auto* is_gated = gated == nullptr ? nullptr : std::get_if<bool>(gated);
  set("gated", fact_of(gated), is_gated != nullptr && *is_gated ? Value(true) : Value());
  set("library", fact_of(member(response, "library_name")), {});
  set("base_model", fact_of(card == nullptr ? nullptr : member(*card, "base_model")), tagged(response, "base_model:"));
  set("pipeline", fact_of(member(response, "pipeline_tag")), {});
  return revision;
}

Result<Revision> find_revision(const Hub& hub, const Name& name) {
  const std::string url = api_url(hub.endpoint, name, "revision", name.revision);
  const std::string key = "revision " + url;
  // What a commit has never changes.
  if (hub.http == nullptr || is_commit(name.revision)) {
    const auto saved = hub.store->load_text(key);
    if (saved) return with_subject(name, parse_revision(*saved));
  }
  if (hub.http == nullptr) {
    if (auto cached = find_cached_revision(name)) return std::move(*cached);
    return failure(Code::network, fmt::format("{}: not cached; retry without --offline", name.text()));
  }
  auto response = get(hub, name, url, kMaxRevisionSize);
  if (!response) {
    Error error = response.error();
    if (is_about_the_network(error) && (hub.store->load_text(key) || find_cached_revision(name)))
      error.message += "; use --offline for the saved files";
    return tl::unexpected(std::move(error));
  }
  auto revision = TRY(with_subject(name, parse_revision(response->body)));
  if (is_commit(name.revision) && revision.commit != name.revision)
    return failure(Code::mismatch, fmt::format("{}: the server sends the commit {}", name.text(), revision.commit));
  hub.store->save_text(key, saved_revision(response->body));
  if (!is_commit(name.revision))
    hub.store->save_text("revision " + api_url(hub.endpoint, name, "revision", revision.commit),
                         saved_revision(response->body));
  return revision;
}

// ---- files

Result<std::vector<ListedFile>> parse_files(const std::string& text) {
  const Value response = TRY(parse_response(text));
  const auto* list = std::get_if<List>(&response);
  if (list == nullptr) return failure(Code::corrupt, "not a list");
  std::vector<ListedFile> files;
  for (const Value& entry : *list) {
    if (text_at(entry, "type") == "directory") continue;
    ListedFile file{text_at(entry, "path")};
    const Value* const lfs = member(entry, "lfs");
    const bool is_lfs = lfs != nullptr && std::holds_alternative<Map>(*lfs);
    const auto size = number_at(is_lfs ? *lfs : entry, "size");
    if (text_at(entry, "type") != "file" || file.path.empty() || !size || *size > kMaxFileSize)
      return failure(Code::corrupt, fmt::format("{}: not a file", quoted(file.path)));
    file.size = *size;
    if (is_lfs) {
      const std::string digest = text_at(*lfs, "oid");
      file.sha256 = digest_of_hex(digest);
      file.is_digest_hidden = digest == std::string(kDigestDigits, '*');
      if (!file.sha256 && !file.is_digest_hidden)
        return failure(Code::corrupt, fmt::format("{}: no SHA-256", quoted(file.path)));
    } else {
      const Value* const id = member(entry, "oid");
      const bool is_unknown = id != nullptr && std::holds_alternative<std::nullptr_t>(*id);
      file.git_id = sha1_of_hex(text_at(entry, "oid"));
      if (!file.git_id && !is_unknown)
        return failure(Code::corrupt, fmt::format("{}: no Git object id", quoted(file.path)));
    }
    files.push_back(std::move(file));
  }
  return files;
}

// RFC 8288. A server behind another name sends its own.
std::string next_page(const http::Response& page, const std::string& endpoint) {
  for (const auto& [name, value] : page.headers) {
    if (name != "link") continue;
    for (std::string_view rest = value; !rest.empty();) {
      const size_t begin = rest.find('<');
      const size_t end = begin == rest.npos ? rest.npos : rest.find('>', begin);
      if (end == rest.npos) break;
      const std::string_view target = rest.substr(begin + 1, end - begin - 1);
      rest.remove_prefix(end + 1);
      const std::string_view parameters = rest.substr(0, std::min(rest.find('<'), rest.size()));
      if (parameters.find("rel=\"next\"") == parameters.npos && parameters.find("rel=next") == parameters.npos)
        continue;
      const std::string url = http::resolve_url(page.url, std::string(target));
      if (http::origin_of(url).empty()) return {};
      if (http::origin_of(url) == http::origin_of(endpoint)) return url;
      const size_t path = url.find('/', url.find("://") + 3);
      return path == url.npos ? "" : endpoint + url.substr(path);
    }
  }
  return {};
}

Result<CommitFiles> list_files(const Hub& hub, const Name& name, const std::string& commit) {
  const std::string key = "files " + api_url(hub.endpoint, name, "tree", commit);
  if (const auto saved = hub.store->load_text(key))
    if (auto files = parse_saved_list(*saved)) return CommitFiles{std::move(*files)};
  if (hub.http == nullptr) {
    CommitFiles cached = TRY(list_cached_files(name, commit));
    if (!cached.files.empty()) return cached;
    return failure(Code::network, fmt::format("{}: file list not cached; retry without --offline", name.text()));
  }
  auto files = TRY(request_list(hub, name, commit));
  hub.store->save_text(key, saved_list(files));
  return CommitFiles{std::move(files)};
}

}  // namespace weightfs::huggingface
