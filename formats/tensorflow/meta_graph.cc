#include "formats/tensorflow/meta_graph.h"

#include <utility>

namespace weightfs::tensorflow {

Result<void> add_ends(const Map& meta_graph, GraphReader& graphs, Budget& budget, Map& metadata) {
  const Map* const signature = main_signature(meta_graph);
  if (signature == nullptr) {
    List outputs = TRY(graphs.outputs());
    metadata.append("inputs", graphs.inputs());
    metadata.append("outputs", std::move(outputs));
    return {};
  }
  for (const char* const key : {"inputs", "outputs"}) {
    const Value& ends = *signature->find(key);
    TRY_VOID(charge(footprint(ends), budget));
    metadata.append(key, ends);
  }
  return {};
}

}  // namespace weightfs::tensorflow
