// A small valid container of every format, with some of everything that the format has: for the suites that ask the
// same of all formats, and as seeds for fuzzing.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/bintensors_builder.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/memory_folder.h"
#include "tests/support/rten_builder.h"
#include "tests/support/safetensors_builder.h"

namespace weightfs::test {

/// A container, and what lies beside it.
struct SmallModel {
  std::string_view title;   ///< letters and digits, to name a test by
  std::string_view format;  ///< as `--format` takes it
  bool detected;            ///< whether its content alone tells the format
  std::string file_name;
  std::string bytes;
  Files beside = {};
};

// For GoogleTest.
inline void PrintTo(const SmallModel& model, std::ostream* out) { *out << model.title; }

inline std::string small_gguf_shard(uint16_t number) {
  GgufBuilder b;
  b.u16("split.no", number).u16("split.count", 2).i32("split.tensors.count", 2);
  return b.tensor(number == 0 ? "first" : "second", {8}, 0, std::string(32, 'w')).build();
}

inline std::string small_safetensors_index() {
  return R"({"metadata":{"total_size":11},"weight_map":{"w":"a.safetensors","empty":"a.safetensors",)"
         R"("s":"a.safetensors","f4":"a.safetensors"}})"
         "\n";
}

/// One per format, and per layout and byte order where it has several.
inline std::vector<SmallModel> small_models() {
  return {
      {"Gguf", "gguf", true, "m.gguf", small_gguf()},
      {"GgufVersion1", "gguf", true, "m.gguf", small_gguf(1)},
      {"GgufVersion2", "gguf", true, "m.gguf", small_gguf(2)},
      {"GgufBigEndian", "gguf", true, "m.gguf", small_gguf(3, std::endian::big)},
      {"GgufShards",
       "gguf",
       true,
       "m-00001-of-00002.gguf",
       small_gguf_shard(0),
       {{"m-00002-of-00002.gguf", small_gguf_shard(1)}}},
      {"RtenVersion1", "rten", true, "m.rten", rten::version1(rten::small_model())},
      {"RtenVersion2", "rten", true, "m.rten", rten::small_rten()},
      {"Safetensors", "safetensors", true, "m.safetensors", small_safetensors()},
      {"SafetensorsIndex",
       "safetensors-index",
       true,
       "m.safetensors.index.json",
       small_safetensors_index(),
       {{"a.safetensors", small_safetensors()}}},
      {"BintensorsRelease", "bintensors", true, "m.bt", small_bintensors().release()},
      {"BintensorsLegacy", "bintensors", true, "m.bt", small_bintensors().legacy()},
      {"BintensorsForcedRelease", "bintensors-release", false, "m.bt", small_bintensors().release()},
      {"BintensorsForcedLegacy", "bintensors-legacy", false, "m.bt", small_bintensors().legacy()},
  };
}

}  // namespace weightfs::test
