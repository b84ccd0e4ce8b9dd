// From the arguments of a process to the first byte of a container, for every process that reads one: a mount, a server
// and a command. Each stage is a type that is made only from the one before it, because their order is a rule of the
// sandbox (docs/security.md):
//   Plan        sources and options; nothing is opened
//   Privileged  the rights that this process asks for, and the brokers, which keep those that it gives up
//   Confined    the store and the credentials of the user, then the sandbox
//   Reading     the trees of a server: the first bytes of a container are read
// The ends are the servers (cli/mount_server/serving.h, cli/serve/http_server.h), and the forests of a command.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/options/store_options.h"
#include "cli/sandbox/sandbox.h"
#include "fs/layout/source_tree.h"
#include "fs/reading/prefetch.h"
#include "fs/tree/forest.h"

namespace weightfs {

struct Plan {
  /// Decides whether the process needs the network. To be called while it has one thread.
  static Plan make(std::vector<std::string> sources, OpenOptions options, StoreFlags flags,
                   std::function<void(const std::string&)> warn);

  std::vector<std::string> sources;
  std::vector<std::string> absolute;  ///< the same, where paths are absolute
  OpenOptions options;
  StoreFlags flags;
  std::function<void(const std::string&)> warn;  ///< receives warnings
  PrefetchMode prefetch = PrefetchMode::off;
};

/// What a process asks for besides reading its sources.
struct Rights {
  sandbox::SandboxAccess access = {};       ///< in addition to that of the sources; its network is not used
  const sandbox::Broker* broker = nullptr;  ///< opens temporary files; null if the sandbox is off
};

struct Privileged {
  Plan plan;
  Rights rights;
};

class Confined {
 public:
  /// Fails as use_store(), read_credentials() and enter_sandbox() do.
  static Result<Confined> enter(Privileged before);

  /// The tree of some of the sources. Fails as open_sources() does.
  Result<std::unique_ptr<Forest>> open(const std::vector<std::string>& some, const LayoutParts& layout = {}) const;

  std::vector<std::string> sources;
  std::vector<std::string> absolute;
  OpenOptions options;  ///< with the store
  BlobStorePtr store;
  PrefetchOptions prefetch;        ///< what a server downloads before it is read
  sandbox::SandboxStatus sandbox;  ///< with the proof that sources may be opened

 private:
  Confined(Plan plan, sandbox::SandboxStatus entered)
      : sources(std::move(plan.sources)),
        absolute(std::move(plan.absolute)),
        options(std::move(plan.options)),
        sandbox(std::move(entered)) {}
};

class Reading {
 public:
  /// Fails as SourceTrees::open() does, and if a complete model is required and this is none.
  static Result<Reading> open(Confined before, ModelFileOptions files, bool require_complete);

  std::vector<std::string> sources;
  std::string label;  ///< source_label() of the sources
  OpenOptions options;
  BlobStorePtr store;
  PrefetchOptions prefetch;
  sandbox::SandboxStatus sandbox;
  views::ChecksumsPtr checksums;
  std::unique_ptr<SourceTrees> trees;
  TreePtr root;
  std::string missing;  ///< what the model lacks, in a sentence; empty if it is complete

 private:
  explicit Reading(Confined& before);
};

/// What the model lacks, in a sentence; empty if it is complete, or if the root is a directory of models. Fails with
/// that if a complete model is required.
Result<std::string> what_is_missing(const Tree& root, bool require_complete);

}  // namespace weightfs
