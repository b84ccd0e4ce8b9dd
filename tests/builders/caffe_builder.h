// Builds Caffe's .caffemodel files for tests, right or wrong.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/builders/protobuf_builder.h"

namespace weightfs::test::caffe {

inline std::string packed(const std::vector<uint64_t>& numbers) {
  std::string bytes;
  for (const uint64_t number : numbers) bytes += varint(number);
  return bytes;
}

/// A blob with a shape, and the bytes of packed floats.
inline ProtobufBuilder blob(const std::vector<uint64_t>& shape, std::string_view floats) {
  return ProtobufBuilder().message(7, ProtobufBuilder().bytes(1, packed(shape))).bytes(5, floats);
}

inline ProtobufBuilder layer(std::string_view name, std::string_view type, const std::vector<std::string>& bottoms,
                             const std::vector<std::string>& tops, const std::vector<ProtobufBuilder>& blobs = {}) {
  ProtobufBuilder out;
  out.bytes(1, name).bytes(2, type);
  for (const std::string& bottom : bottoms) out.bytes(3, bottom);
  for (const std::string& top : tops) out.bytes(4, top);
  for (const ProtobufBuilder& each : blobs) out.message(7, each);
  return out;
}

inline std::string net(const std::vector<ProtobufBuilder>& layers) {
  ProtobufBuilder out;
  out.bytes(1, "tiny");
  for (const ProtobufBuilder& each : layers) out.message(100, each);
  return out.build();
}

/// An input, a convolution with weights and biases, and a layer that replaces its input.
inline std::string small_caffe() {
  ProtobufBuilder input = layer("data", "Input", {}, {"data"});
  input.message(143, ProtobufBuilder().message(1, ProtobufBuilder().bytes(1, packed({1, 3}))));
  return net({input, layer("a/conv", "Convolution", {"data"}, {"conv"}, {blob({2, 1}, "01234567"), blob({1}, "abcd")}),
              layer("relu", "ReLU", {"conv"}, {"conv"})});
}

}  // namespace weightfs::test::caffe
