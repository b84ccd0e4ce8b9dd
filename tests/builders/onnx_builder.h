// Builds ONNX models for tests, right or wrong.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/builders/protobuf_builder.h"

namespace weightfs::test::onnx {

using Message = ProtobufBuilder;
using Dims = std::vector<uint64_t>;
using Entries = std::vector<std::pair<std::string, std::string>>;

inline constexpr uint64_t kFloat = 1, kUint8 = 2, kInt8 = 3, kInt32 = 6, kInt64 = 7, kString = 8, kDouble = 11,
                          kUint32 = 12, kComplex64 = 14, kFloat8 = 17, kInt4 = 22;

/// A TensorProto without values.
inline Message tensor(std::string_view name, uint64_t type, const Dims& dims) {
  Message out;
  for (const uint64_t size : dims) out.number(1, size);
  return out.number(2, type).bytes(8, name);
}

inline Message raw(std::string_view name, uint64_t type, const Dims& dims, std::string_view data) {
  return tensor(name, type, dims).bytes(9, data);
}

inline Message entry(std::string_view key, std::string_view value) { return Message().bytes(1, key).bytes(2, value); }

inline Message external(std::string_view name, uint64_t type, const Dims& dims, const Entries& entries) {
  Message out = tensor(name, type, dims);
  for (const auto& [key, value] : entries) out.message(13, entry(key, value));
  return out.number(14, 1);
}

inline Message attribute(std::string_view name) { return Message().bytes(1, name); }

inline Message node(std::string_view type, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const std::vector<Message>& attributes = {},
                    std::string_view name = "") {
  Message out;
  for (const std::string& input : inputs) out.bytes(1, input);
  for (const std::string& output : outputs) out.bytes(2, output);
  if (!name.empty()) out.bytes(3, name);
  out.bytes(4, type);
  for (const Message& each : attributes) out.message(5, each);
  return out;
}

/// An input or output; a dimension of 0 is the symbol "N".
inline Message value(std::string_view name, uint64_t type, const Dims& dims) {
  Message shape;
  for (const uint64_t size : dims) shape.message(1, size == 0 ? Message().bytes(2, "N") : Message().number(1, size));
  return Message().bytes(1, name).message(2, Message().message(1, Message().number(1, type).message(2, shape)));
}

/// A GraphProto of these initializers.
inline Message graph(const std::vector<Message>& initializers) {
  Message out;
  out.bytes(2, "g");
  for (const Message& each : initializers) out.message(5, each);
  return out;
}

/// A ModelProto of this graph.
inline Message model(const Message& graph) {
  return Message().number(1, 8).message(7, graph).message(8, Message().bytes(1, "").number(2, 17));
}

/// A small model with most of the format: values in each field, beside the model, in subgraphs, functions, constants
/// and sparse tensors, and metadata.
inline std::string small_onnx() {
  Message main = graph({
      raw("w", kFloat, {2, 2}, "0123456789abcdef"),
      tensor("typed", kInt8, {3}).bytes(5, std::string("\1") + varint(~0ULL) + "\3"),
      tensor("i64", kInt64, {2}).number(7, 1).number(7, 2),
      tensor("text", kString, {2}).bytes(6, "a").bytes(6, "b\n"),
      raw("four", kInt4, {3}, "\x21\x03"),
      external("far", kFloat, {2}, {{"location", "m.data"}, {"offset", "4"}, {"length", "8"}}),
      raw("short", kFloat, {2}, "1234"),
  });
  main.message(15, Message()
                       .message(1, raw("sparse", kFloat, {1}, "1234"))
                       .message(2, tensor("", kInt64, {1}).bytes(7, "\2"))
                       .number(3, 4));
  const Message body = graph({raw("w", kUint8, {1}, "x")});
  main.message(1, node("If", {"c"}, {"y"}, {attribute("then_branch").message(6, body)}, "if"));
  main.message(1, node("Constant", {}, {"one"}, {attribute("value").message(5, raw("", kFloat, {}, "1234"))}));
  main.message(1, node("Constant", {}, {"ints"}, {attribute("value_ints").bytes(8, "\1\2")}));
  main.message(11, value("x", kFloat, {0, 2})).message(12, value("y", kFloat, {2}));
  Message out = model(main);
  out.message(14, entry("license", "MIT"));
  return out
      .message(25, Message().bytes(1, "F").bytes(10, "d").message(
                       7, node("Constant", {}, {"k"}, {attribute("value_float").real(2, 2)})))
      .build();
}

inline std::string small_onnx_data() { return "....12345678...."; }

}  // namespace weightfs::test::onnx
