// Builds ORT files from tables with numbered slots, by the numbers of ort.fbs.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/builders/flatbuffer_builder.h"

namespace weightfs::test::ort {

using namespace flatbuffer;

inline constexpr int32_t kFloat = 1, kString = 8, kUint8 = 2;

inline Ref bytes_list(std::string_view bytes) { return list(std::vector<uint8_t>(bytes.begin(), bytes.end())); }

inline Ref texts(const std::vector<std::string>& each) {
  std::vector<Ref> refs;
  for (const std::string& one : each) refs.push_back(text(one));
  return tables(std::move(refs));
}

/// A tensor; `more` has other slots.
inline Ref tensor(std::string_view name, const std::vector<int64_t>& dims, int32_t type, std::string_view bytes,
                  std::map<int, Slot> more = {}) {
  more.insert({{0, text(name)}, {2, list(dims)}, {3, scalar(type)}, {6, scalar(int64_t{-1})}});
  if (!bytes.empty()) more.insert({4, bytes_list(bytes)});
  return table(std::move(more));
}

inline Ref attribute(std::string_view name, int slot, Ref value) {
  return table({{0, text(name)}, {slot, std::move(value)}});
}

/// A node; `more` has other slots.
inline Ref node(std::string_view name, std::string_view type, std::vector<Ref> attributes = {},
                std::map<int, Slot> more = {}) {
  more.insert({{0, text(name)},
               {2, text("")},
               {5, text(type)},
               {7, text("CPUExecutionProvider")},
               {10, tables(std::move(attributes))}});
  return table(std::move(more));
}

inline Ref graph(std::vector<Ref> initializers, std::vector<Ref> nodes = {}, std::map<int, Slot> more = {}) {
  more.insert({{0, tables(std::move(initializers))}, {2, tables(std::move(nodes))}});
  return table(std::move(more));
}

/// A value of type float32 with the shape [2, N].
inline Ref value(std::string_view name) {
  const Ref two = table({{0, table({{0, scalar(int8_t{1})}, {1, scalar(int64_t{2})}})}});
  const Ref many = table({{0, table({{0, scalar(int8_t{2})}, {2, text("N")}})}});
  const Ref shape = table({{0, tables({two, many})}});
  const Ref type = table({{1, scalar(uint8_t{1})}, {2, table({{0, scalar(kFloat)}, {1, shape}})}});
  return table({{0, text(name)}, {2, type}});
}

/// The file of a model.
inline std::string session(const Ref& model) {
  std::string file = FlatBufferLayout(table({{0, text("5")}, {1, model}})).take().bytes();
  return file.replace(4, 4, "ORTM");
}

/// The file of a model with this graph.
inline std::string file_of(const Ref& main) {
  const Ref opset = table({{0, text("")}, {1, scalar(int64_t{17})}});
  const Ref property = table({{0, text("k")}, {1, text("v")}});
  const Ref model =
      table({{0, scalar(int64_t{8})}, {1, tables({opset})}, {2, text("maker")}, {7, main}, {9, tables({property})}});
  return session(model);
}

/// Initializers, one of texts, one that is too short, and one in a subgraph.
inline std::string small_ort() {
  const Ref branch = graph({tensor("w", {2}, kUint8, "ab")});
  return file_of(graph({tensor("w", {1, 2}, kFloat, "aaaabbbb"), tensor("e", {0, 3}, kFloat, ""),
                        tensor("t", {2}, kString, "", {{5, texts({"x", "yz"})}}), tensor("short", {3}, kFloat, "aaaa")},
                       {node("if", "If", {attribute("then_branch", 7, branch)}), node("", "Add")},
                       {{1, tables({value("in"), value("out")})}, {5, texts({"in"})}, {6, texts({"out"})}}));
}

}  // namespace weightfs::test::ort
