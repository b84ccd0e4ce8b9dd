#include "serve/hub/mirror.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "serve/hub/names.h"

namespace weightfs::hub {
namespace {

// How long a client waits while other lists are read.
constexpr std::chrono::seconds kMaxWait{30};

std::string revision_key(const std::string& id, const std::string& revision) {
  return fmt::format("{}@{}", id, revision);
}

MirrorRefusal missing_repository(const std::string& id) {
  return {404, "RepoNotFound", fmt::format("{}: no such repository", printable(id))};
}

MirrorRefusal missing_revision(const std::string& revision) {
  return {404, "RevisionNotFound", fmt::format("Invalid rev id: {}", printable(revision))};
}

bool has_name(const Error& error, std::string_view name) { return error.name != nullptr && error.name == name; }

// As the Hub answers: a repository without access does not exist, unless access can be requested. That a token is not
// accepted is no such answer: clients that have the files use them after other statuses than 404.
MirrorRefusal refusal_for(const std::string& id, const std::string& revision, const Error& error) {
  if (error.code == Code::not_found)
    return has_name(error, kNoRevision) ? missing_revision(revision) : missing_repository(id);
  if (error.code == Code::forbidden && has_name(error, kGated))
    return {403, "GatedRepo", fmt::format("Access to model {} is restricted: the mirror has no access to it", id)};
  if (error.code == Code::forbidden) return {502, "", fmt::format("{}: the mirror may not ask the origin", id)};
  if (is_timeout(error)) return {504, "", fmt::format("{}: the origin does not respond", id)};
  if (may_pass(error)) return {503, "", fmt::format("{}: the origin cannot be reached", id)};
  return {502, "", fmt::format("{}: the origin sent no valid answer", id)};
}

}  // namespace

// A token that has expired says nothing about the repository.
bool is_about_repository(const Error& error) {
  return error.code == Code::not_found || (error.code == Code::forbidden && has_name(error, kGated));
}

Mirror::Mirror(std::unique_ptr<MirrorOrigin> origin, MirrorRules rules)
    : origin_(std::move(origin)), commits_(std::move(rules)) {}

bool Mirror::is_permitted(const std::string& id) const {
  const std::string organization = id.substr(0, id.find('/'));
  return organization != kLocal && organization != kViews && origin_->is_permitted(id);
}

Mirror::Found<RepositoryPtr> Mirror::find(const std::string& organization, const std::string& name,
                                          const std::string& revision) {
  const std::string id = fmt::format("{}/{}", organization, name);
  if (!is_permitted(id)) return tl::unexpected(missing_repository(id));
  if (!origin_->is_revision(revision)) return tl::unexpected(missing_revision(revision));
  const auto commit = commit_of(id, revision);
  if (!commit) return tl::unexpected(commit.error());
  return repository_of(id, *commit);
}

Mirror::Found<std::string> Mirror::commit_of(const std::string& id, const std::string& revision) {
  const auto ask = [this, id, revision]() -> Result<mirror::State> {
    mirror::State state = TRY(origin_->resolve(id, revision));
    if (revision != state.value) commits_.remember(revision_key(id, state.value), state);
    return state;
  };
  return commits_.find({.key = revision_key(id, revision),
                        .is_final = is_commit(revision),
                        .ask = ask,
                        .is_answer = is_about_repository,
                        .refuse = [id, revision](const Error& error) { return refusal_for(id, revision, error); }});
}

Mirror::Found<RepositoryPtr> Mirror::repository_of(const std::string& id, const std::string& commit) {
  const std::string key = revision_key(id, commit);
  if (auto refusal = commits_.refusal_of(key)) return tl::unexpected(std::move(*refusal));
  std::optional<Later<RepositoryPtr>> repository;
  bool is_new = false;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find(listed_, key, &Listed::key);
    is_new = found == listed_.end();
    if (is_new) {
      repository.emplace([this, id, commit] { return read(id, commit); });
      listed_.insert(listed_.begin(), {key, *repository});
      if (listed_.size() > kMaxOpen) listed_.pop_back();
    } else {
      repository = found->repository;
      std::rotate(listed_.begin(), found, found + 1);
    }
  }
  auto read = repository->get();
  if (read && !is_new) return *std::move(read);
  if (!read) {
    if (!is_about_repository(read.error())) commits_.log(mirror::line_about(key, read.error()));
    commits_.remember_refusal(key, refusal_for(id, commit, read.error()));
  }
  const std::scoped_lock lock(mutex_);
  if (read) {
    close_oldest();
    return *std::move(read);
  }
  std::erase_if(listed_, [&](const Listed& each) { return each.key == key; });
  return tl::unexpected(refusal_for(id, commit, read.error()));
}

// A list may have many megabytes while it is parsed.
Result<RepositoryPtr> Mirror::read(const std::string& id, const std::string& commit) {
  if (!reading_.try_acquire_for(kMaxWait)) return failure(Code::resource, "too many lists are being read");
  auto repository = exceptions_to_errors([&] { return origin_->read(id, commit); });
  reading_.release();
  return repository;
}

SourcePtr Mirror::open(const Repository& repository, const RepositoryFile& file) {
  const std::string key = fmt::format("{}/{}", revision_key(repository.id, repository.commit), file.path);
  if (SourcePtr bytes = files_.find(key)) return bytes;
  return files_.keep(key, origin_->open(repository, file));
}

// Lists that are being read count when they have been.
void Mirror::close_oldest() {
  size_t files = 0;
  size_t kept = 0;
  for (; kept < listed_.size(); ++kept) {
    const auto repository = listed_[kept].repository.peek();
    files += repository ? (*repository)->files.size() : 0;
    if (kept > 0 && files > kMaxListed) break;
  }
  listed_.erase(listed_.begin() + static_cast<ptrdiff_t>(kept), listed_.end());
}

}  // namespace weightfs::hub
