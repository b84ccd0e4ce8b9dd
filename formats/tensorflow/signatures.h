// What a MetaGraphDef says about its graph: tags, versions, and signatures with their inputs and outputs.
#pragma once

#include <string>

#include "base/budget.h"
#include "base/values/value.h"
#include "formats/protobuf/scanner.h"

namespace weightfs::tensorflow {

/// A value of a graph.
struct StoredValue {
  std::string name;
  uint64_t data_type = 0;
  protobuf::Message shape;  ///< absent if it is unknown
};

/// "name", "dtype" and "shape", where an unknown dimension is -1; without a shape if its rank is unknown. Charged to
/// `charges`. Fails as Scanner and the budget do.
Result<Map> describe_value(protobuf::Scanner& scanner, const StoredValue& value, Charges& charges);

/// The facts of a MetaGraphDef: "tags", "tensorflow_version", "git_version", "signatures", "assets". Charged to the
/// budget, and fails as that and Scanner do.
Result<Map> describe_meta_graph(protobuf::Scanner& scanner, const protobuf::Message& meta_graph, Budget& budget);

/// The signature that programs call if they name none, or the first one that is not of a saver; null if there are none.
const Map* main_signature(const Map& meta_graph);

}  // namespace weightfs::tensorflow
