// Builds RTen files from tables with numbered slots, as in the format notes, without the schema compiler: so the tests
// also check the schema.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/builders/flatbuffer_builder.h"

namespace weightfs::test::rten {

using namespace flatbuffer;

// The tables of the format, by slot.

enum Kind : uint8_t { kOperator = 1, kConstant = 2, kValue = 3 };
enum Data : uint8_t { kFloat = 1, kInt32 = 2, kInt8 = 3, kUInt8 = 4 };                     // of an inline vector
enum Type : uint16_t { kTypeInt32 = 0, kTypeFloat32 = 1, kTypeInt8 = 2, kTypeUInt8 = 3 };  // of an external constant

inline Ref node(std::map<int, Slot> name, uint8_t kind, Ref data) {
  name[1] = scalar(kind);
  name[2] = std::move(data);
  return table(std::move(name));
}
inline Ref node(std::string_view name, uint8_t kind, Ref data) {
  return node({{0, text(name)}}, kind, std::move(data));
}

inline Ref open_tmpfile(uint8_t kind, Ref data) { return node(std::map<int, Slot>{}, kind, std::move(data)); }

inline Ref inline_data(const std::vector<uint32_t>& shape, Data type, Ref numbers) {
  return table({{0, list(shape)}, {1, scalar(type)}, {2, table({{0, std::move(numbers)}})}});
}
inline Ref external_data(const std::vector<uint32_t>& shape, uint16_t type, uint64_t offset) {
  return table({{0, list(shape)}, {3, scalar(type)}, {4, scalar(offset)}});
}
inline Ref dim(uint32_t size) { return table({{0, scalar(size)}}); }
inline Ref dim(std::string_view name) { return table({{1, text(name)}}); }

inline Ref value(std::string_view name, std::vector<Ref> dims, uint8_t type) {
  return node(name, kValue, table({{0, tables(std::move(dims))}, {1, scalar(type)}}));
}

inline Ref op(std::string_view name, uint8_t type, const std::vector<int32_t>& inputs,
              const std::vector<int32_t>& outputs, uint8_t attrs_tag = 0, Ref attrs = nullptr) {
  std::map<int, Slot> slots{{0, scalar(type)}, {3, list(inputs)}, {4, list(outputs)}};
  if (attrs) slots.insert({{1, scalar(attrs_tag)}, {2, attrs}});
  return node(name, kOperator, table(std::move(slots)));
}

inline Ref graph(std::vector<Ref> nodes, const std::vector<uint32_t>& inputs = {},
                 const std::vector<uint32_t>& outputs = {}) {
  return table({{0, tables(std::move(nodes))}, {1, list(inputs)}, {2, list(outputs)}});
}

inline Ref model_of(Ref graph, std::map<int, Slot> more = {}) {
  more.insert({{0, scalar(int32_t{1})}, {1, std::move(graph)}});
  return table(std::move(more));
}

/// A version 1 file.
inline std::string version1(const Ref& model) { return FlatBufferLayout(model).take().bytes(); }

/// The header of a version 2 file.
inline std::string header(uint64_t model_offset, uint64_t model_size, uint64_t tensors, uint32_t version = 2) {
  return "RTEN" + bytes_of(version) + bytes_of(model_offset) + bytes_of(model_size) + bytes_of(tensors);
}

/// A version 2 file as the converter writes it: header, model, and the tensors from the next multiple of 64.
inline std::string version2(const Ref& model, std::string_view tensors = {}) {
  const std::string flat = version1(model);
  const uint64_t begin = (32 + flat.size() + 63) / 64 * 64;
  std::string file = header(32, flat.size(), begin) + flat;
  file.resize(begin, '\0');
  return file.append(tensors);
}

/// A small model with some of everything, for truncations, flipped bytes and fuzzing.
inline Ref small_model() {
  const Ref branch = graph({node("w", kConstant, external_data({2}, kTypeFloat32, 0))}, {}, {0});
  const Ref main = graph({node("w", kConstant, inline_data({3}, kInt8, list<int8_t>({1, 2, 3}))),
                          value("x", {dim("batch"), dim(4)}, 1), op("if", 104, {1, 0}, {1}, 39, table({{0, branch}})),
                          op("pad", 34, {0}, {1}, 40, table({{0, scalar(uint8_t{1})}}))},
                         {1}, {1});
  return model_of(main, {{2, table({{1, text("a model")}})}});
}

/// That model as a version 2 file; its external tensor is 1.0, 2.0.
inline std::string small_rten() { return version2(small_model(), std::string_view("\0\0\x80\x3f\0\0\0\x40", 8)); }

}  // namespace weightfs::test::rten
