#include "cli/serve/hub_mirror.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/text.h"
#include "protocols/huggingface.h"
#include "serve/hub/names.h"

namespace weightfs {
namespace {

// How long an answer of the origin may take: if there is an earlier one, for a first one, and for a page of a list.
constexpr std::chrono::seconds kBrief{10};
constexpr std::chrono::seconds kFirst{30};
constexpr std::chrono::seconds kPage{60};

static_assert(hub::kNoRevision == huggingface::kNoRevision && hub::kGated == huggingface::kGated);

class HubOrigin final : public hub::MirrorOrigin {
 public:
  HubOrigin(huggingface::Hub hub, ServedMirror flags) : hub_(std::move(hub)), flags_(std::move(flags)) {}

  bool is_permitted(const std::string& id) const override { return huggingface::is_permitted_model(id, flags_.allow); }
  bool is_revision(const std::string& text) const override { return huggingface::is_revision(text); }

  Result<State> resolve(const std::string& id, const std::string& revision) override {
    const huggingface::Name name = name_of(id, revision);
    huggingface::Hub offline = hub_;
    offline.http = nullptr;
    const auto saved = huggingface::find_revision(offline, name);
    const bool is_final = hub_.http == nullptr || hub::is_commit(revision);
    if (saved && is_final) return State{saved->commit};
    auto now = huggingface::find_revision(patient_for(saved ? kBrief : kFirst), name);
    if (now) return State{now->commit};
    Error& error = now.error();
    if (!saved || hub::is_about_repository(error)) return failure(std::move(error));
    return State{saved->commit, std::move(error.message)};
  }

  // A renamed repository keeps the name by which it was permitted: the origin redirects.
  Result<hub::RepositoryPtr> read(const std::string& id, const std::string& commit) override {
    const huggingface::Name name = name_of(id, commit);
    const auto revision = TRY(huggingface::find_revision(patient_for(kFirst), name));
    auto listed = TRY(huggingface::list_files(patient_for(kPage), name, commit));
    if (!listed.warnings.empty()) return failure(Code::network, std::move(listed.warnings.front()));
    if (listed.files.size() > hub::kMaxFiles)
      return failure(Code::unsupported, fmt::format("{}: more than {} files", id, hub::kMaxFiles));
    auto repository = std::make_shared<hub::Repository>();
    repository->id = id;
    repository->commit = commit;
    repository->license = text_in(revision.facts, "license");
    repository->modified = revision.modified;
    repository->shows = hub::Shows::origin;
    for (huggingface::ListedFile& file : listed.files)
      if (is_plain_path(file.path))
        repository->files.push_back({.path = std::move(file.path),
                                     .place = {},
                                     .size = file.size,
                                     .sha256 = file.sha256,
                                     .git_id = file.sha256 ? std::nullopt : file.git_id});
    std::ranges::sort(repository->files, {}, &hub::RepositoryFile::path);
    const auto has_equal_path = [](const auto& a, const auto& b) { return a.path == b.path; };
    auto& files = repository->files;
    files.erase(std::unique(files.begin(), files.end(), has_equal_path), files.end());
    return std::shared_ptr<const hub::Repository>(std::move(repository));
  }

  SourcePtr open(const hub::Repository& repository, const hub::RepositoryFile& file) override {
    huggingface::ListedFile listed{
        .path = file.path, .size = file.size, .sha256 = file.sha256, .git_id = file.git_id, .is_digest_hidden = false};
    const Later<SourcePtr> bytes(
        [hub = hub_, name = name_of(repository.id, repository.commit), listed = std::move(listed)] {
          return huggingface::open_file(hub, name, name.revision, listed);
        });
    return lazy(file.size, bytes);
  }

 private:
  huggingface::Name name_of(const std::string& id, const std::string& revision) const {
    huggingface::Name name;
    name.server = flags_.endpoint;
    name.id = id;
    name.revision = revision;
    return name;
  }

  huggingface::Hub patient_for(std::chrono::milliseconds time) const {
    huggingface::Hub hub = hub_;
    hub.within = time;
    return hub;
  }

  const huggingface::Hub hub_;
  const ServedMirror flags_;
};

}  // namespace

Result<std::shared_ptr<hub::Mirror>> open_hub_mirror(const ServedMirror& flags, const RegistryOptions& registries,
                                                     std::function<void(const std::string&)> log) {
  if (!flags.is_of_hub()) return std::shared_ptr<hub::Mirror>();
  huggingface::Name name;
  name.server = flags.endpoint;
  const http::ClientPtr http = huggingface::is_offline() ? nullptr : registries.http;
  huggingface::Hub hub = TRY(huggingface::hub_of(name, registries.store, http, registries.plain_http));
  return std::make_shared<hub::Mirror>(std::make_unique<HubOrigin>(std::move(hub), flags),
                                       hub::MirrorRules{.ttl = flags.ttl, .log = std::move(log)});
}

}  // namespace weightfs
