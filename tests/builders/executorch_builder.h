// Builds ExecuTorch files from tables with numbered slots, by the schemas' numbers.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/builders/flatbuffer_builder.h"

namespace weightfs::test::executorch {

using namespace flatbuffer;

enum ScalarType : int8_t { kByte = 0, kChar = 1, kFloat = 6, kQuint4x2 = 16 };

/// A FlatBuffer with `header` inserted after the identifier; `segments` follow it.
inline std::string file_of(const Ref& root, std::string_view identifier, const std::string& header,
                           std::string_view segments) {
  const std::string tables = FlatBufferLayout(root).take().bytes();
  uint32_t at = 0;
  std::memcpy(&at, tables.data(), sizeof(at));
  std::string file = bytes_of(static_cast<uint32_t>(at + header.size()));
  file.append(identifier).append(header).append(tables.substr(8));
  return file.append(segments);
}

inline uint64_t size_without_segments(const Ref& root, uint64_t header) {
  return FlatBufferLayout(root).take().bytes().size() + header;
}

inline Ref layout(int8_t type, const std::vector<int32_t>& sizes, const std::vector<uint8_t>& dim_order) {
  return table({{0, scalar(type)}, {1, list(sizes)}, {2, list(dim_order)}});
}

inline Ref named(std::string_view key, uint32_t segment, Ref layout = nullptr) {
  std::map<int, Slot> slots = {{0, text(key)}, {1, scalar(segment)}};
  if (layout) slots.insert({2, layout});
  return table(std::move(slots));
}

inline Ref segment(uint64_t offset, uint64_t size) { return table({{0, scalar(offset)}, {1, scalar(size)}}); }

/// A .ptd file.
inline std::string ptd(std::vector<Ref> segments, std::vector<Ref> named_data, std::string_view data) {
  const Ref root = table({{0, scalar(1U)}, {1, tables(std::move(segments))}, {2, tables(std::move(named_data))}});
  const uint64_t base = size_without_segments(root, 40);
  return file_of(root, "FT01",
                 "FH01" + bytes_of(40U) + bytes_of(uint64_t{48}) + bytes_of(base) + bytes_of(base) +
                     bytes_of(uint64_t{data.size()}),
                 data);
}

/// A tensor of a method; `more` has its allocation_info (6) and extra_tensor_info (9).
inline Ref value(int8_t type, const std::vector<int32_t>& sizes, const std::vector<uint8_t>& dim_order, uint32_t buffer,
                 std::map<int, Slot> more = {}) {
  more.insert({{0, scalar(type)}, {2, list(sizes)}, {3, list(dim_order)}, {5, scalar(buffer)}});
  return table({{0, scalar(uint8_t{5})}, {1, table(std::move(more))}});
}

inline Ref offsets(uint32_t segment, const std::vector<uint64_t>& offsets) {
  return table({{0, scalar(segment)}, {1, list(offsets)}});
}

/// A member of a union, which is all of a value or an instruction.
inline Ref member(uint8_t number, std::map<int, Slot> fields) {
  return table({{0, scalar(number)}, {1, table(std::move(fields))}});
}

inline Ref kernel_call(int32_t op, const std::vector<int32_t>& args) {
  return member(1, {{0, scalar(op)}, {1, list(args)}});
}
inline Ref delegate_call(int32_t delegate, const std::vector<int32_t>& args) {
  return member(2, {{0, scalar(delegate)}, {1, list(args)}});
}

inline Ref chain(std::vector<Ref> instructions) { return table({{2, tables(std::move(instructions))}}); }

inline Ref method(std::string_view name, std::vector<Ref> values, std::map<int, Slot> more = {}) {
  more.insert({{0, text(name)}, {2, tables(std::move(values))}});
  return table(std::move(more));
}

/// A .pte file with an extended header; `more` has the fields of the program from slot 2.
inline std::string pte(std::vector<Ref> methods, std::map<int, Slot> more, std::string_view data) {
  more.insert({{0, scalar(0U)}, {1, tables(std::move(methods))}});
  const Ref root = table(std::move(more));
  const uint64_t base = size_without_segments(root, 32);
  return file_of(root, "ET12",
                 "eh00" + bytes_of(32U) + bytes_of(base) + bytes_of(base) + bytes_of(uint64_t{data.size()}), data);
}

/// That program as older ones are stored: without a header and segments.
inline std::string old_pte(std::vector<Ref> methods, std::map<int, Slot> more) {
  more.insert({{0, scalar(0U)}, {1, tables(std::move(methods))}});
  return file_of(table(std::move(more)), "ET12", "", "");
}

inline Ref buffer(std::string_view bytes) {
  return table({{0, list(std::vector<uint8_t>(bytes.begin(), bytes.end()))}});
}

/// Two tensors that share a segment, one of them transposed in memory, and a blob.
inline std::string small_ptd() {
  return ptd(
      {segment(0, 6), segment(8, 4)},
      {named("w", 0, layout(kChar, {2, 3}, {0, 1})), named("a/t", 0, layout(kByte, {2, 3}, {1, 0})), named("blob", 1)},
      std::string_view("\1\2\3\4\5\6\0\0blob", 12));
}

/// A program with a constant in a segment, a mutable tensor, a delegate's blob and named data.
inline std::string small_pte() {
  const Ref name = table({{1, text("state")}});
  const Ref allocation = table({{0, scalar(1U)}});
  const Ref delegate = table({{0, text("Xnnpack")}, {1, table({{0, scalar(int8_t{1})}, {1, scalar(2U)}})}});
  const Ref add = table({{0, text("aten::add")}, {1, text("out")}});
  const Ref forward = method("forward",
                             {value(kFloat, {2}, {0}, 0), value(kChar, {2, 2}, {0, 1}, 1),
                              value(kChar, {2}, {0}, 1, {{6, allocation}, {9, name}}),
                              table({{0, scalar(uint8_t{2})}, {1, table({{0, scalar(int64_t{7})}})}})},
                             {{3, list<int32_t>({0})},
                              {4, list<int32_t>({0})},
                              {5, tables({chain({kernel_call(0, {0, 1, 3, 0}), delegate_call(0, {0, 2})})})},
                              {6, tables({add})},
                              {7, tables({delegate})}});
  return pte({forward},
             {{4, tables({segment(0, 8), segment(8, 2), segment(16, 5)})},
              {5, offsets(0, {0, 4})},
              {6, tables({offsets(1, {0, 0})})},
              {7, tables({named("extra", 0, layout(kByte, {8}, {0}))})}},
             std::string_view("0123wxyzst\0\0\0\0\0\0xnn..", 21));
}

}  // namespace weightfs::test::executorch
