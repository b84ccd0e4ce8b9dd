// Builds MindSpore's .ckpt files for tests, right or wrong.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/builders/protobuf_builder.h"

namespace weightfs::test::mindspore {

inline ProtobufBuilder parameter(std::string_view tag, std::string_view type, const std::vector<uint64_t>& dims,
                                 std::string_view content) {
  ProtobufBuilder tensor;
  for (const uint64_t size : dims) tensor.number(1, size);
  tensor.bytes(2, type).bytes(3, content);
  return ProtobufBuilder().bytes(1, tag).message(2, tensor);
}

inline std::string checkpoint(const std::vector<ProtobufBuilder>& parameters) {
  ProtobufBuilder out;
  for (const ProtobufBuilder& each : parameters) out.message(1, each);
  return out.build();
}

/// A parameter in two slices, a scalar, and an empty one.
inline std::string small_mindspore() {
  return checkpoint({parameter("net.w", "Float32", {2}, "012"), parameter("net.w", "Float32", {2}, "34567"),
                     parameter("step", "Int32", {}, "abcd"), parameter("e/f", "BFloat16", {0, 3}, "")});
}

}  // namespace weightfs::test::mindspore
