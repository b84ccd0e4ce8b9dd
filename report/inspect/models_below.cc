#include "report/inspect/models_below.h"

#include <fmt/core.h>

#include "fs/tree/tree.h"

namespace weightfs {
namespace {

constexpr int kMaxDepth = 8;
constexpr size_t kMaxEntered = 1000;

class Search {
 public:
  Search(Forest& forest, size_t most) : forest_(forest), most_(most) {}

  void add(const Forest::Listing& all, const std::string& above, int depth) {
    for (uint32_t i = 0; i < all.count && found_.size() < most_; ++i) {
      const Node node = all.tree->node(all.first + i);
      if (node.kind != NodeKind::tree && node.kind != NodeKind::directory) continue;
      if (++entered_ > kMaxEntered) return;
      const std::string path = fmt::format("{}{}/", above, node.name());
      const auto below = forest_.list(all.ino_of(i));
      if (below && below->tree->model() == nullptr && depth < kMaxDepth)
        add(*below, path, depth + 1);
      else
        found_.push_back(path);
    }
  }

  std::vector<std::string> take() && { return std::move(found_); }

 private:
  Forest& forest_;
  size_t most_;
  size_t entered_ = 0;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> models_below(Forest& forest, Ino directory, const std::string& above, size_t most) {
  Search search(forest, most);
  if (const auto all = forest.list(directory)) search.add(*all, above, 0);
  return std::move(search).take();
}

}  // namespace weightfs
