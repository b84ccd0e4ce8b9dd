// Datasets: what the messages of one say about its shape, its type and where its bytes are.
#pragma once

#include <string>
#include <vector>

#include "formats/hdf5/object.h"
#include "formats/hdf5/types.h"
#include "formats/model.h"

namespace weightfs::hdf5 {

/// The extent of a dataset or an attribute.
struct Dataspace {
  Shape dimensions;
  Shape max_dimensions;  ///< as many; kUndefined for an unlimited one
  bool is_null = false;  ///< there are no elements, not even one
};

/// How the chunks of a dataset are found. Version 3 of the layout has only `btree1`.
enum class ChunkIndex : uint8_t {
  btree1 = 0,
  single = 1,
  implicit = 2,
  fixed_array = 3,
  extensible_array = 4,
  btree2 = 5
};

enum class Storage : uint8_t { compact = 0, contiguous = 1, chunked = 2, virtual_ = 3 };

struct Layout {
  Storage storage = Storage::contiguous;
  uint64_t address = kUndefined;  ///< of the bytes, or of the index of the chunks
  uint64_t size = 0;              ///< of compact bytes
  Shape chunk;                    ///< the dimensions of a chunk, in elements
  ChunkIndex index = ChunkIndex::btree1;
  bool edges_unfiltered = false;  ///< chunks that are not whole are stored without filters
  uint64_t single_size = 0;       ///< the stored size of the only chunk, if it has filters
  uint32_t single_mask = 0;       ///< its filters that were skipped
};

struct Filter {
  uint16_t id;
  std::vector<uint32_t> values;  ///< its parameters
};

struct Dataset {
  uint64_t address = 0;  ///< of its object header
  Dataspace space;
  Type type;
  Layout layout;
  std::vector<Filter> filters;  ///< in the order of writing
  std::string fill;             ///< the bytes of an element that was not written; empty for zeros
  bool is_external = false;     ///< the bytes are in other files
};

Result<Dataspace> read_dataspace(Fields& fields);

/// The messages of a dataset. Fails with corrupt or unsupported if they are invalid.
Result<Dataset> read_dataset(Metadata& metadata, const Object& object);

/// The type of the object's datatype message, and its extent.
Result<Type> read_type_of(Metadata& metadata, const Message& message);

}  // namespace weightfs::hdf5
