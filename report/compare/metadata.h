// Compares what two models say about themselves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/model.h"

namespace weightfs::compare {

/// A field that differs. Nested fields have a path such as "metadata.general.name"; a long list is a document, whose
/// values are texts with its size.
struct FieldChange {
  std::string path;
  std::optional<Value> a;  ///< nothing if the first model lacks the field
  std::optional<Value> b;
};

struct MetadataComparison {
  std::vector<FieldChange> changes;  ///< sorted by path, documents last
  std::vector<Error> unreadable;     ///< documents that cannot be compared
};

/// Compares the format, the common fields, the metadata and the documents of two models. The order of fields does not
/// matter.
MetadataComparison compare_metadata(const Model& a, const Model& b);

/// Whether two values are equal; integers also across their types, and NaN is equal to itself.
bool is_equal(const Value& a, const Value& b);

}  // namespace weightfs::compare
