// A SOURCE that is a repository of ModelScope: `ms://org/name`. The digests of the list identify its files.
#include "protocols/modelscope.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "base/text.h"
#include "cache/url.h"
#include "sources/file_list.h"
#include "sources/kinds.h"

namespace weightfs {
namespace {

// A repository, the files of the revision, and what of them SOURCE names.
struct ListedRepository {
  modelscope::Hub hub;
  modelscope::Name name;
  modelscope::Files list;

  // Null if the path is not that of a file.
  const modelscope::ListedFile* named_file() const {
    const auto found = std::ranges::find(list.files, name.path, &modelscope::ListedFile::path);
    return found == list.files.end() ? nullptr : &*found;
  }
  Result<SourcePtr> open(const modelscope::ListedFile& file) const { return modelscope::open_file(hub, name, file); }
};

Result<std::shared_ptr<const ListedRepository>> list_repository(const std::string& text, const OpenOptions& options) {
  const RegistryOptions& registries = options.registries;
  if (registries.store == nullptr)
    return failure(Code::unsupported, fmt::format("ms:{}: repositories are not available here", text));
  modelscope::Name name = TRY(modelscope::parse_name(text));
  modelscope::Hub hub = TRY(modelscope::hub_of(registries.store, registries.http, registries.plain_http));
  modelscope::Files list = TRY(modelscope::list_files(hub, name));
  return std::make_shared<const ListedRepository>(ListedRepository{std::move(hub), std::move(name), std::move(list)});
}

}  // namespace

Result<SourceEntry> find_modelscope(const std::string& text, const OpenOptions& options, Check check) {
  const auto repository = TRY(list_repository(text, options));
  const modelscope::Name& name = repository->name;
  const bool is_file = repository->named_file() != nullptr;
  const std::string last =
      name.path.empty() ? name.id.substr(name.id.find('/') + 1) : name.path.substr(name.path.rfind('/') + 1);
  modelscope::Name shown = name;
  if (is_file) shown.path.resize(shown.path.size() - std::min(last.size() + 1, shown.path.size()));
  const std::string below = shown.path.empty() ? "" : shown.path + "/";
  FileListBuilder builder;
  Sha256 version;
  Time modified = 0;
  bool is_empty = true;
  for (const modelscope::ListedFile& file : repository->list.files) {
    if (!file.path.starts_with(below)) continue;
    is_empty = false;
    modified = std::max(modified, file.modified);
    const std::string line = fmt::format("{} {}\n", file.sha256.hex(), file.path);
    version.update(std::as_bytes(std::span(line)));
    const Later<SourcePtr> bytes([repository, file] { return repository->open(file); });
    TRY_VOID(builder.add(std::string_view(file.path).substr(below.size()),
                         {.bytes = lazy(file.size, bytes), .modified = file.modified, .checksum = file.sha256}));
  }
  auto files = std::move(builder).finish();
  if ((is_empty && !below.empty()) || (is_file && !files.files->contains(last)))
    return failure(Code::not_found, fmt::format("{}: no such file or directory", name.text()));
  files.warnings.insert(files.warnings.end(), repository->list.warnings.begin(), repository->list.warnings.end());
  Map facts;
  facts.set("repository", name.id);
  SourceEntry entry = listed_source({std::move(files), last, shown.text(), modified != 0 ? modified : time_now(),
                                     std::move(facts), is_file ? last : ""},
                                    options);
  entry.version = version.finish().hex();
  if (is_file && check == Check::model) TRY(std::get<std::function<Result<Opened>()>>(entry.content)());
  return entry;
}

Result<SourcePtr> open_modelscope_file(const std::string& text, const OpenOptions& options) {
  const auto repository = TRY(list_repository(text, options));
  if (const modelscope::ListedFile* const file = repository->named_file()) return repository->open(*file);
  return failure(Code::unsupported, fmt::format("{}: names no single file", repository->name.text()));
}

Result<std::vector<Scope>> scopes_of_modelscope(const std::string& text, const OpenOptions& options) {
  const modelscope::Name name = TRY(modelscope::parse_name(text));
  const modelscope::Hub hub = TRY(modelscope::hub_of(nullptr, nullptr, options.registries.plain_http));
  std::vector<Scope> scopes;
  for (const std::string& url : modelscope::urls_of(hub.endpoint, name))
    scopes.push_back({.below = http::normalized_url(url),
                      .credentials = {.kind = http::CredentialsName::Kind::modelscope, .server = hub.endpoint}});
  return scopes;
}

}  // namespace weightfs
