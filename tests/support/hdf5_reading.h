// Reads HDF5 files of tests, with the result as text.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "formats/format.h"
#include "tests/builders/hdf5_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/reading.h"

namespace weightfs::test {

inline Result<Model> read_h5(std::string bytes) {
  return read_as("hdf5", Container{"m.h5", in_memory(std::move(bytes)), nullptr});
}

inline Model read_h5_well(std::string bytes) { return well(read_h5(std::move(bytes))); }

inline std::string h5_error(std::string bytes) { return error_in(read_h5(std::move(bytes))); }

// The bytes of the only tensor, or why there are none.
inline std::string only_tensor(std::string bytes) {
  const Model model = read_h5_well(std::move(bytes));
  if (model.tensors.size() != 1) return "not one tensor";
  const Slice source = model.tensors[0].source;
  if (source.refused()) return model.warnings.empty() ? "refused" : model.warnings[0];
  const auto text = read_text(source, 0, source.size());
  return text ? *text : text.error().message;
}

// A file whose root group has one dataset `w`.
inline std::string one_dataset(Hdf5Builder& b, uint64_t dataset) { return b.build(b.group({{"w", dataset}})); }

}  // namespace weightfs::test
