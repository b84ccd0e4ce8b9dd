// Builds TFLite files from tables with numbered slots, by the schema's numbers.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/builders/flatbuffer_builder.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/builders/zip_builder.h"

namespace weightfs::test::tflite {

using namespace flatbuffer;

enum Type : int8_t { kFloat32 = 0, kInt32 = 2, kString = 5, kInt8 = 9, kResource = 13, kInt4 = 17, kInt2 = 19 };

inline Ref bytes_list(std::string_view bytes) { return list(std::vector<uint8_t>(bytes.begin(), bytes.end())); }

inline Ref buffer(std::string_view bytes) { return table({{0, bytes_list(bytes)}}); }
inline Ref empty_buffer() { return table({}); }
inline Ref buffer_at(uint64_t offset, uint64_t size) { return table({{1, scalar(offset)}, {2, scalar(size)}}); }

inline Ref tensor(std::string_view name, const std::vector<int32_t>& shape, int8_t type, uint32_t buffer,
                  std::map<int, Slot> more = {}) {
  more.insert({{0, list(shape)}, {1, scalar(type)}, {2, scalar(buffer)}, {3, text(name)}});
  return table(std::move(more));
}

inline Ref quantization(const std::vector<float>& scale, const std::vector<int64_t>& zero_point, int32_t dimension) {
  return table({{2, list(scale)}, {3, list(zero_point)}, {6, scalar(dimension)}});
}

inline Ref call(uint32_t code, const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs) {
  return table({{0, scalar(code)}, {1, list(inputs)}, {2, list(outputs)}});
}

inline Ref subgraph(std::vector<Ref> tensors, std::map<int, Slot> more = {}) {
  more.insert({0, tables(std::move(tensors))});
  return table(std::move(more));
}

/// A model of these subgraphs and buffers; buffer 0 is by convention empty.
inline Ref model(std::vector<Ref> subgraphs, std::vector<Ref> buffers, std::map<int, Slot> more = {}) {
  more.insert({{0, scalar(3U)}, {2, tables(std::move(subgraphs))}, {4, tables(std::move(buffers))}});
  return table(std::move(more));
}

/// The file of a model, with its identifier.
inline std::string file_of(const Ref& model) {
  std::string file = FlatBufferLayout(model).take().bytes();
  return file.replace(4, 4, "TFL3");
}

/// The elements of a string tensor.
inline std::string strings(const std::vector<std::string>& elements) {
  std::string out = bytes_of(static_cast<int32_t>(elements.size()));
  size_t at = 4 * (elements.size() + 2);
  for (const std::string& element : elements) {
    out += bytes_of(static_cast<int32_t>(at));
    at += element.size();
  }
  out += bytes_of(static_cast<int32_t>(at));
  for (const std::string& element : elements) out += element;
  return out;
}

/// A small model with most of the format, followed by a zip; its last tensor is in weights.bin.
inline std::string small_tflite() {
  const Ref main =
      subgraph({tensor("x", {1, 2}, kFloat32, 0), tensor("w", {2}, kFloat32, 1),
                tensor("q", {3}, kInt4, 2, {{4, quantization({0.5F}, {1}, 0)}}), tensor("s", {2}, kString, 3),
                tensor("sparse", {9}, kInt8, 1, {{6, table({})}}), tensor("ext", {2}, kInt8, 0, {{10, scalar(7U)}})},
               {{1, list<int32_t>({0})},
                {2, list<int32_t>({1})},
                {3, tables({call(0, {0, 1}, {1}), call(1, {0, -1}, {1})})},
                {4, text("main")}});
  const Ref body = subgraph({tensor("w", {2}, kFloat32, 1)}, {{4, text("body")}});
  const Ref codes = tables({table({{0, scalar(int8_t{3})}, {3, scalar(3)}}),
                            table({{0, scalar(int8_t{32})}, {1, text("Mine")}, {3, scalar(32)}})});
  const Ref input = table({{0, text("x")}, {1, scalar(0U)}});
  const Ref signature = table({{0, tables({input})}, {1, tables({input})}, {2, text("serve")}, {4, scalar(0U)}});
  const Ref external = table({{0, scalar(7U)}, {1, scalar(0U)}, {2, scalar(uint64_t{1})}, {3, scalar(uint64_t{2})}});
  ZipBuilder zip;
  zip.stored("labels.txt", "cat\ndog\n");
  zip.stored("inner.safetensors", SafetensorsBuilder().tensor("t", "U8", "1", "x").build());
  return file_of(model({main, body},
                       {empty_buffer(), buffer("\1\2\3\4\5\6\7\x08"), buffer("\x21\x03"), buffer(strings({"a", "bc"})),
                        buffer(std::string_view("1.5.0\0\0\0", 8))},
                       {{1, codes},
                        {3, text("a model")},
                        {6, tables({table({{0, text("min_runtime_version")}, {1, scalar(4U)}})})},
                        {7, tables({signature})},
                        {8, tables({table({{0, text("weights.bin")}})})},
                        {9, tables({external})}})) +
         zip.build();
}

}  // namespace weightfs::test::tflite
