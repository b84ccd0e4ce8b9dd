// Files that a person drops into the page of `weightfs open`: models at .weightfs/dropped/NUMBER/NAME, whose bytes the
// page reads from the disk of its own machine.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cli/dropped/page_connection.h"
#include "fs/http/protocol/message.h"
#include "fs/http/protocol/target.h"
#include "fs/layout/model_files.h"
#include "fs/tree/tree.h"
#include "sources/source.h"

namespace weightfs {

/// Callable from any thread.
class DroppedFiles {
 public:
  /// `secret`: the beginning of the identities of the files, which no other process has.
  DroppedFiles(OpenOptions options, ModelFileOptions files, std::string secret);
  ~DroppedFiles();
  DroppedFiles(const DroppedFiles&) = delete;
  DroppedFiles& operator=(const DroppedFiles&) = delete;

  /// Adds the directories of what may be dropped to the unlisted tree. This object must outlive it.
  void add_to(TreeBuilder& builder);

  static bool is_for(const httpd::Target& target);

  /// The response to a page that asks for a connection: its files are those of the first message. Refuses as
  /// accept_websocket() does, and with 503 if there are too many.
  httpd::Accepted<httpd::Response> accept(const httpd::Request& request);

  /// Ends all connections, and returns when they have ended.
  void stop();

 private:
  static constexpr size_t kMaxDrops = 256;
  static constexpr long kMaxConnections = 32;  // at a time, each with a thread

  struct Page {
    std::shared_ptr<PageConnection> connection;
    std::thread thread;
  };

  void take_over(Descriptor socket, std::string received, std::shared_ptr<void> seat);
  std::string open(const std::shared_ptr<PageConnection>& connection, std::string_view list);
  Result<std::string> add(const std::shared_ptr<PageConnection>& connection, std::string_view list);
  Result<TreePtr> tree_of(size_t number) const;
  void remove_ended();

  const OpenOptions options_;
  const ModelFileOptions files_;
  const std::string secret_;
  mutable std::mutex mutex_;          // guards the rest
  std::vector<SourceEntry> entries_;  // by number, which begins at 1
  size_t all_files_ = 0;              // of all entries
  std::list<Page> pages_;
  bool is_stopping_ = false;
  const std::shared_ptr<void> seats_ = std::make_shared<int>();  // each connection has a copy
};

}  // namespace weightfs
