// The types and the layers of a model's tensors: what a table of them can be filtered by.
#include <unordered_map>

#include "base/cancel.h"
#include "fs/tree/listing.h"
#include "report/text/map_of.h"
#include "serve/api/handlers.h"

namespace weightfs::api {
namespace {

constexpr size_t kMaxGroups = 1000;

// Tensors and bytes by a name, in the order of the first tensors.
class Groups {
 public:
  void add(const std::string& name, uint64_t bytes) {
    auto place = places_.find(name);
    if (place == places_.end() && groups_.size() == kMaxGroups) {
      is_truncated_ = true;
      return;
    }
    if (place == places_.end()) {
      place = places_.emplace(name, groups_.size()).first;
      groups_.push_back({name, 0, 0});
    }
    ++groups_[place->second].tensors;
    groups_[place->second].bytes += bytes;
  }

  List list() const {
    List out;
    for (const Group& group : groups_)
      out.emplace_back(map_of({{"name", group.name}, {"tensors", group.tensors}, {"bytes", group.bytes}}));
    return out;
  }
  bool is_truncated() const { return is_truncated_; }

 private:
  struct Group {
    std::string name;
    uint64_t tensors;
    uint64_t bytes;
  };

  std::unordered_map<std::string, size_t> places_;
  std::vector<Group> groups_;
  bool is_truncated_ = false;
};

}  // namespace

Accepted<Content> list_groups(const Call& call) {
  const OpenModelPtr of = ACCEPT(call.model());
  const TensorList& tensors = of->model().tensors;
  Groups dtypes, layers;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_cancelled()) return httpd::refused(503, "cancelled");
    const uint64_t bytes = listed_bytes(tensors, i);
    dtypes.add(std::string(dtype_text(tensors[i])), bytes);
    layers.add(shown_layer(of->name(i)), bytes);
  }
  return json_content(map_of({{"dtypes", dtypes.list()},
                              {"layers", layers.list()},
                              {"truncated", dtypes.is_truncated() || layers.is_truncated()}}));
}

}  // namespace weightfs::api
