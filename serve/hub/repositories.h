// The repositories of a server, by their ids. Each model of the tree has several: of the Hub, of its files, of its
// views.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/later.h"
#include "serve/hub/repository.h"

namespace weightfs::hub {

/// A repository, and what keeps its model in memory.
struct FoundRepository {
  RepositoryPtr repository = nullptr;            ///< null if there is none
  std::shared_ptr<const void> in_use = nullptr;  ///< as FoundModel
};

/// Callable from any thread. The forest must outlive it.
class Repositories {
 public:
  explicit Repositories(Forest& forest) : forest_(forest) {}

  /// The repository "ORG/NAME". `local/NAME` and `views/NAME` are the files and the views of the model whose path, or
  /// the SOURCE of the only one, has that name (repository_name(); directories and `-` before it). A repository of the
  /// Hub has its own id, too. Enters only directories that may lead to it. Fails as entering
  /// and reading the model does.
  Result<FoundRepository> find(const std::string& organization, const std::string& name);

  /// The repository of a model; read once for those that were used last. Fails as read_repository() does.
  Result<RepositoryPtr> read(const FoundModel& found, const std::string& id, Shows shows);

 private:
  // A repository that was used, of the tree of a model as long as that exists.
  struct Known {
    std::weak_ptr<const Tree> tree;
    std::string id;
    std::string place;
    Later<RepositoryPtr> repository;
  };
  static constexpr size_t kMaxKnown = 16;

  Result<std::optional<FoundModel>> held(Ino directory, const std::string& place);
  Result<std::optional<FoundModel>> find_model(Ino directory, const std::string& place, std::string_view name,
                                               int depth);
  Result<std::optional<FoundModel>> find_by_name(const std::string& name);
  Result<std::optional<FoundModel>> find_of_hub(const std::string& id, const std::string& name);

  Forest& forest_;
  std::mutex mutex_;          // guards the next one; never held while a repository is read
  std::vector<Known> known_;  // the last used first
};

}  // namespace weightfs::hub
