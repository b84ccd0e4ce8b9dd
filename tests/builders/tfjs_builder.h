// Builds the model.json of TensorFlow.js for tests, right or wrong.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "tests/builders/params_builder.h"

namespace weightfs::test::tfjs {

/// `more`: further fields, as JSON with a comma in front.
inline std::string weight(std::string_view name, std::string_view dtype, std::string_view shape,
                          std::string_view more = "") {
  return fmt::format(R"({{"name":"{}","dtype":"{}","shape":[{}]{}}})", name, dtype, shape, more);
}

/// `paths`, `weights`: the elements of lists in JSON.
inline std::string group(std::string_view paths, std::string_view weights) {
  return fmt::format(R"({{"paths":[{}],"weights":[{}]}})", paths, weights);
}

inline std::string model_json(std::string_view groups, std::string_view more = "") {
  return fmt::format(R"({{"format":"layers-model","generatedBy":"t","modelTopology":null{},"weightsManifest":[{}]}})",
                     more, groups);
}

inline std::string string_of(std::string_view text) { return little(text.size(), 4) + std::string(text); }

/// A graph with two groups: a weight in two files, a quantised one, texts, a complex one, and an empty one.
inline std::string small_tfjs() {
  const std::string quantised = R"(,"quantization":{"dtype":"uint8","min":-1.5,"scale":0.5})";
  const std::string one = weight("a/w", "float32", "2") + "," + weight("q", "float32", "3", quantised);
  const std::string two =
      weight("text", "string", "2") + "," + weight("c", "complex64", "1") + "," + weight("empty", "int32", "0,3");
  return fmt::format(
      R"({{"format":"graph-model","generatedBy":"2.15.0","convertedBy":null,"signature":{{"inputs":{{"x":{{"name":"x:0",)"
      R"("dtype":"DT_FLOAT","tensorShape":{{"dim":[{{"size":"-1"}},{{"size":"2"}}]}}}}}}}},"modelTopology":{{"node":[)"
      R"({{"name":"x","op":"Placeholder"}},{{"name":"m","op":"MatMul","input":["x"],"attr":{{"op":"no"}}}}]}},)"
      R"("weightsManifest":[{},{}]}})",
      group(R"("s1.bin","below/s2.bin")", one), group(R"("t.bin")", two));
}

inline std::string small_tfjs_texts() { return string_of("a") + string_of("bc") + "01234567"; }

}  // namespace weightfs::test::tfjs
