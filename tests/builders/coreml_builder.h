// Builds Core ML models and packages for tests, right or wrong.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/builders/params_builder.h"
#include "tests/builders/protobuf_builder.h"
#include "tests/support/memory_folder.h"

namespace weightfs::test::coreml {

using Message = ProtobufBuilder;

inline constexpr uint64_t kFloat16 = 10, kFloat32 = 11, kInt32 = 23, kUint8 = 31, kUint4 = 35;

/// A Value of this tensor type, whose values follow.
inline Message value(uint64_t type, const std::vector<uint64_t>& dims) {
  Message tensor = Message().number(1, type).number(2, dims.size());
  for (const uint64_t size : dims) tensor.message(3, Message().message(1, Message().number(1, size)));
  return Message().message(2, Message().message(1, tensor));
}

inline Message blob(uint64_t type, const std::vector<uint64_t>& dims, uint64_t offset,
                    std::string_view file = "@model_path/weights/weight.bin") {
  return value(type, dims).message(5, Message().bytes(1, file).number(2, offset));
}

/// Values in the program: `field` is that of TensorValue.
inline Message immediate(uint64_t type, const std::vector<uint64_t>& dims, uint32_t field, std::string_view packed) {
  return value(type, dims).message(3, Message().message(1, Message().message(field, Message().bytes(1, packed))));
}

inline Message entry(std::string_view key, const Message& value) { return Message().bytes(1, key).message(2, value); }

inline Message operation(std::string_view type, std::string_view output, const std::vector<Message>& attributes) {
  Message out = Message().bytes(1, type).message(3, Message().bytes(1, output));
  for (const Message& each : attributes) out.message(5, each);
  return out;
}

inline Message constant(std::string_view name, const Message& value) {
  return operation("const", name, {entry("val", value)});
}

/// A Function with a block of these operations.
inline Message function(std::string_view name, const std::vector<Message>& operations) {
  Message block;
  for (const Message& each : operations) block.message(3, each);
  return entry(name, Message().bytes(2, "CoreML7").message(3, entry("CoreML7", block)));
}

/// A Model with a program of this function.
inline Message model(const Message& function) {
  return Message().number(1, 8).message(502, Message().number(1, 1).message(2, function));
}

inline std::string record(uint32_t type, uint64_t size, uint64_t data) {
  std::string out = little(0xDEADBEEF, 4) + little(type, 4) + little(size) + little(data);
  return out + std::string(64 - out.size(), '\0');
}

/// A weight file with two records, at 64 and at 192: 4 float16 and 3 bytes of uint8.
inline std::string small_weights() {
  std::string out = little(2, 4) + little(2, 4) + std::string(56, '\0');
  out += record(1, 8, 128) + "abcdefgh" + std::string(56, '\0');
  return out + record(3, 3, 256) + "xyz";
}

inline const std::string kManifest =
    R"({"fileFormatVersion": "1.0.0", "itemInfoEntries": {"A": {"path": "com.apple.CoreML/model.mlmodel", )"
    R"("name": "model.mlmodel"}}, "rootModelIdentifier": "A"})";

inline std::string small_coreml() {
  Message out = model(function(
      "main", {constant("w", blob(kFloat16, {2, 2}, 64)), constant("tied", blob(kFloat16, {4}, 64)),
               operation("constexpr_lut_to_dense", "p", {entry("lut", blob(kUint8, {3}, 192))}),
               constant("here", immediate(kInt32, {2}, 2, "\1\2")), constant("bad", blob(kFloat16, {4}, 128))}));
  const Message license = Message().bytes(1, "a model").bytes(4, "MIT");
  return out.message(2, Message().message(1, Message().bytes(1, "x")).message(100, license)).build();
}

/// The files of a package but its manifest.
inline Files small_package() {
  return {{"Data/com.apple.CoreML/model.mlmodel", small_coreml()},
          {"Data/com.apple.CoreML/weights/weight.bin", small_weights()}};
}

/// WeightParams with packed floats.
inline Message floats(std::string_view bytes) { return Message().bytes(1, bytes); }

/// WeightParams with packed numbers of so many bits, and a scale and a bias of 2.
inline Message quantised(uint64_t bits, std::string_view values) {
  const Message linear = Message().bytes(1, little(0x40000000, 4)).bytes(2, little(0x40000000, 4));
  return Message().bytes(30, values).message(40, Message().number(1, bits).message(101, linear));
}

inline Message layer(std::string_view name, uint32_t type, const Message& parameters) {
  return Message().bytes(1, name).message(type, parameters);
}

inline Message network(const std::vector<Message>& layers) {
  Message out;
  for (const Message& each : layers) out.message(1, each);
  return out;
}

/// A Model with a network: its `kind` is that of a network (500), a classifier (403) or a regressor (303).
inline Message network_model(const Message& network, uint32_t kind = 500) {
  return Message().number(1, 4).message(kind, network);
}

/// A classifier: an inner product with quantised weights, and a branch with a bias.
inline std::string small_network() {
  const Message inner =
      layer("fc", 140, Message().number(1, 2).number(2, 1).message(20, quantised(8, "wx")).message(21, floats("abcd")));
  const Message branch = layer(
      "if", 605, Message().message(1, network({layer("b", 250, Message().number(1, 1).message(2, floats("0123")))})));
  return network_model(network({inner, branch}).message(100, Message().bytes(1, "cat").bytes(1, "dog")), 403).build();
}

}  // namespace weightfs::test::coreml
