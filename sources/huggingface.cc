// A SOURCE that is a repository of the Hugging Face Hub: `hf://org/repo`. It is pinned to a commit when it is opened.
#include "protocols/huggingface.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "sources/file_list.h"
#include "sources/kinds.h"

namespace weightfs {
namespace {

// A repository at a commit. Readers of its files share it.
struct OpenedRepository {
  huggingface::Hub hub;
  huggingface::Name name;  // as it was given
  huggingface::Revision revision;

  Result<SourcePtr> open(const huggingface::ListedFile& file) const {
    return huggingface::open_file(hub, name, revision.commit, file);
  }
};

// What a name names: a repository, and a path in it.
struct Named {
  std::shared_ptr<const OpenedRepository> repository;
  huggingface::Name name;  // with the commit as the revision
  std::vector<huggingface::ListedFile> files;
  std::vector<std::string> warnings;

  // Null if the path is not that of a file.
  const huggingface::ListedFile* file() const {
    const auto found = std::ranges::find_if(
        files, [&](const huggingface::ListedFile& file) { return !name.path.empty() && file.path == name.path; });
    return found == files.end() ? nullptr : &*found;
  }
};

Result<Named> open_repository(const std::string& text, const OpenOptions& options) {
  const RegistryOptions& registries = options.registries;
  if (registries.store == nullptr)
    return failure(Code::unsupported, fmt::format("hf:{}: repositories are not available here", text));
  huggingface::Name name = TRY(huggingface::parse_name(text));
  huggingface::Hub hub = TRY(huggingface::hub_of(name, registries.store, registries.http, registries.plain_http));
  huggingface::Revision revision = TRY(huggingface::find_revision(hub, name));
  // The fetcher sends requests for the name that was given: the Hub redirects them if the repository was renamed.
  const huggingface::Name given = name;
  name.id = revision.id;
  auto found = TRY(huggingface::list_files(hub, name, revision.commit));
  auto repository =
      std::make_shared<const OpenedRepository>(OpenedRepository{std::move(hub), given, std::move(revision)});
  name.revision = repository->revision.commit;
  return Named{std::move(repository), std::move(name), std::move(found.files), std::move(found.warnings)};
}

// That of Git is of the text of small files only.
std::optional<Checksum> checksum_of(const huggingface::ListedFile& file) {
  if (file.sha256) return *file.sha256;
  if (file.git_id && file.size <= huggingface::kMaxGitFile) return GitId{*file.git_id};
  return std::nullopt;
}

std::string_view file_name_in(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

Result<SourceEntry> find_huggingface(const std::string& text, const OpenOptions& options, Check check) {
  const Named named = TRY(open_repository(text, options));
  const bool is_file = named.file() != nullptr;
  std::string directory = named.name.path;
  if (is_file) directory.resize(directory.size() - file_name_in(directory).size());
  if (!directory.empty() && !directory.ends_with('/')) directory += '/';
  FileListBuilder builder;
  bool is_empty = true;
  for (const huggingface::ListedFile& file : named.files) {
    if (!file.path.starts_with(directory)) continue;
    is_empty = false;
    const Later<SourcePtr> bytes([repository = named.repository, file] { return repository->open(file); });
    TRY_VOID(builder.add(std::string_view(file.path).substr(directory.size()),
                         {.bytes = lazy(file.size, bytes), .checksum = checksum_of(file)}));
  }
  auto list = std::move(builder).finish();
  list.warnings.insert(list.warnings.end(), named.warnings.begin(), named.warnings.end());
  const std::string last(file_name_in(named.name.path.empty() ? named.name.id : named.name.path));
  if ((is_empty && !directory.empty()) || (is_file && !list.files->contains(last)))
    return failure(Code::not_found, fmt::format("{}: no such file or directory", named.name.text()));
  huggingface::Name shown = named.name;
  shown.path = directory.substr(0, directory.empty() ? 0 : directory.size() - 1);
  const huggingface::Revision& revision = named.repository->revision;
  const Time modified = revision.modified != 0 ? revision.modified : time_now();
  ListedSource listed{std::move(list), last, shown.text(), modified, revision.facts, is_file ? last : ""};
  SourceEntry entry = listed_source(std::move(listed), options);
  entry.version = revision.commit;
  if (is_file && check == Check::model) TRY(std::get<std::function<Result<Opened>()>>(entry.content)());
  return entry;
}

Result<SourcePtr> open_huggingface_file(const std::string& text, const OpenOptions& options) {
  const Named named = TRY(open_repository(text, options));
  if (const huggingface::ListedFile* const file = named.file()) return named.repository->open(*file);
  return failure(Code::unsupported, fmt::format("{}: names no single file", named.name.text()));
}

namespace {

std::vector<Scope> scopes_at(const std::string& endpoint, const huggingface::Name& name) {
  std::vector<Scope> scopes;
  for (const std::string& url : huggingface::urls_of(endpoint, name))
    scopes.push_back({.below = http::normalized_url(url),
                      .credentials = {.kind = http::CredentialsName::Kind::hub, .server = endpoint}});
  return scopes;
}

}  // namespace

Result<std::vector<Scope>> scopes_of_huggingface(const std::string& text, const OpenOptions& options) {
  const huggingface::Name name = TRY(huggingface::parse_name(text));
  const huggingface::Hub hub = TRY(huggingface::hub_of(name, nullptr, nullptr, options.registries.plain_http));
  return scopes_at(hub.endpoint, name);
}

Scope scope_of_models(const std::string& endpoint, std::vector<std::string> patterns) {
  return {.below = http::normalized_url(endpoint + "/"),
          .paths = Scope::Paths::models,
          .credentials = {.kind = http::CredentialsName::Kind::hub, .server = endpoint},
          .patterns = std::move(patterns)};
}

// The Hub answers with the same request for the new id: ENDPOINT/api/models/new/name/revision/main.
std::vector<Scope> scopes_after_renaming(const std::vector<Scope>& scopes, const std::string& from,
                                         const std::string& to) {
  const std::string old_url = http::normalized_url(from), new_url = http::normalized_url(to);
  for (const Scope& scope : scopes) {
    const bool is_one = scope.credentials.kind == http::CredentialsName::Kind::hub && scope.paths == Scope::Paths::all;
    if (!is_one || !is_in(scope, old_url)) continue;
    const std::string& endpoint = scope.credentials.server;
    const std::string kind = scope.below.ends_with("/tree/") ? "/tree/" : "/revision/";
    const std::string tail = kind + old_url.substr(scope.below.size());
    const std::string begin = http::normalized_url(endpoint + "/api/");
    if (!scope.below.ends_with(kind) || !new_url.starts_with(begin) || !new_url.ends_with(tail)) return {};
    // models/new/name
    const std::string middle = new_url.substr(begin.size(), new_url.size() - begin.size() - tail.size());
    huggingface::Name name;
    name.kind = middle.substr(0, middle.find('/'));
    name.id = middle.substr(std::min(middle.size(), name.kind.size() + 1));
    const bool is_kind = name.kind == "models" || name.kind == "datasets" || name.kind == "spaces";
    if (!is_kind || std::ranges::count(name.id, '/') > 1 || !is_plain_path(name.id)) return {};
    return scopes_at(endpoint, name);
  }
  return {};
}

}  // namespace weightfs
