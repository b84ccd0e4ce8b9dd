// Builds tables, checkpoints and graphs of TensorFlow for tests, right or wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/values/little_endian.h"
#include "tests/builders/params_builder.h"
#include "tests/builders/protobuf_builder.h"
#include "tests/support/memory_folder.h"

namespace weightfs::test::tensorflow {

using Message = ProtobufBuilder;

inline constexpr uint64_t kFloat = 1, kDouble = 2, kInt32 = 3, kUint8 = 4, kInt8 = 6, kString = 7, kComplex64 = 8,
                          kInt64 = 9, kBool = 10, kHalf = 19, kResource = 20, kFloat8 = 24;

using Entries = std::vector<std::pair<std::string, std::string>>;

inline constexpr std::string_view kMagic = "\x57\xFB\x80\x8B\x24\x75\x47\xDB";

/// A block of Snappy that is one literal.
inline std::string snappy_literal(std::string_view bytes) {
  return varint(bytes.size()) + '\xF4' + little(bytes.size() - 1, 2) + std::string(bytes);
}

inline uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}
inline std::string checksum(std::string_view bytes) { return little(masked_crc32c(bytes), 4); }

/// Entries that share what they have in common with the one before, and one restart.
inline std::string block(const Entries& entries) {
  std::string out, last;
  for (const auto& [key, value] : entries) {
    const auto shared = static_cast<size_t>(std::ranges::mismatch(key, last).in1 - key.begin());
    out += varint(shared) + varint(key.size() - shared) + varint(value.size()) + key.substr(shared) + value;
    last = key;
  }
  return out + little(0, 4) + little(1, 4);
}

/// A file of blocks with their trailers. The last one is the index.
class TableBuilder {
 public:
  TableBuilder& add(const std::string& last_key, const std::string& bytes, char compression = 0) {
    index_.emplace_back(last_key, handle(bytes.size()));
    return append(bytes, compression);
  }
  std::string build() {
    const std::string index = block(index_);
    std::string footer = varint(0) + varint(0) + handle(index.size());
    footer.resize(40);
    append(index, 0);
    return bytes_ + footer + std::string(kMagic);
  }

 private:
  std::string handle(uint64_t size) const { return varint(bytes_.size()) + varint(size); }
  TableBuilder& append(const std::string& bytes, char compression) {
    bytes_ += bytes + compression + checksum(bytes + compression);
    return *this;
  }

  std::string bytes_;
  Entries index_;
};

/// A table of one block.
inline std::string table(const Entries& entries) {
  return TableBuilder().add(entries.empty() ? "" : entries.back().first, block(entries)).build();
}

/// A table of a block for each entry, compressed.
inline std::string snappy_table(const Entries& entries) {
  TableBuilder out;
  for (const auto& entry : entries) out.add(entry.first, snappy_literal(block({entry})), 1);
  return out.build();
}

inline Message shape(const std::vector<int64_t>& sizes) {
  Message out;
  for (const int64_t size : sizes) out.message(2, Message().number(1, static_cast<uint64_t>(size)));
  return out;
}

/// A BundleHeaderProto.
inline std::string header(uint64_t shards = 1, uint64_t endianness = 0) {
  return Message().number(1, shards).number(2, endianness).message(3, Message().number(1, 1)).build();
}

/// A BundleEntryProto; without a checksum if that is 0.
struct Entry {
  uint64_t type = kFloat;
  std::vector<int64_t> sizes = {};
  uint64_t shard = 0, offset = 0, size = 0;
  std::vector<Message> slices = {};
  uint32_t crc = 0;

  std::string build() const {
    Message out;
    out.number(1, type).message(2, shape(sizes)).number(3, shard).number(4, offset).number(5, size).fixed32(6, crc);
    for (const Message& slice : slices) out.message(7, slice);
    return out.build();
  }
};

/// A TensorSliceProto; a length of -1 is the whole dimension.
inline Message slice_of(const std::vector<std::pair<int64_t, int64_t>>& extents) {
  Message out;
  for (const auto& [start, length] : extents) {
    Message extent;
    extent.number(1, static_cast<uint64_t>(start));
    if (length >= 0) extent.number(2, static_cast<uint64_t>(length));
    out.message(1, extent);
  }
  return out;
}

/// A tensor of strings in a checkpoint.
inline std::string strings(const std::vector<std::string>& texts) {
  std::string lengths, bytes;
  for (const std::string& text : texts) lengths += varint(text.size()), bytes += text;
  return lengths + "crc!" + bytes;
}

/// An attribute of a node, as an entry of its map.
inline Message attribute(std::string_view name, const Message& value) {
  return Message().bytes(1, name).message(2, value);
}

inline Message node(std::string_view name, std::string_view op, const std::vector<std::string>& inputs = {},
                    const std::vector<Message>& attributes = {}) {
  Message out;
  out.bytes(1, name).bytes(2, op);
  for (const std::string& input : inputs) out.bytes(3, input);
  for (const Message& each : attributes) out.message(5, each);
  return out;
}

/// A TensorProto without values.
inline Message tensor(uint64_t type, const std::vector<int64_t>& sizes) {
  return Message().number(1, type).message(2, shape(sizes));
}

inline Message constant(std::string_view name, const Message& value) {
  return node(name, "Const", {}, {attribute("value", Message().message(8, value))});
}

inline Message placeholder(std::string_view name, uint64_t type, const std::vector<int64_t>& sizes) {
  return node(name, "Placeholder", {},
              {attribute("dtype", Message().number(6, type)), attribute("shape", Message().message(7, shape(sizes)))});
}

inline Message function(std::string_view name, const std::vector<Message>& nodes) {
  Message out;
  out.message(1, Message().bytes(1, name).message(2, Message().bytes(1, "x")).message(3, Message().bytes(1, "y")));
  for (const Message& each : nodes) out.message(3, each);
  return out.message(4, Message().bytes(1, "y").bytes(2, "c:output:0"));
}

inline Message graph(const std::vector<Message>& nodes, const std::vector<Message>& functions = {}) {
  Message out;
  for (const Message& each : nodes) out.message(1, each);
  if (functions.empty()) return out;
  Message library;
  for (const Message& each : functions) library.message(1, each);
  return out.message(2, library);
}

/// x -> MatMul with w -> y, and a function with a constant.
inline Message small_graph() {
  return graph({placeholder("x", kFloat, {-1, 2}), constant("w", tensor(kFloat, {2, 1}).bytes(4, "aaaabbbb")),
                constant("fill", tensor(kInt32, {3}).number(7, 7)),
                constant("names", tensor(kString, {2}).bytes(8, "a").bytes(8, "bc")),
                node("y", "MatMul", {"x", "w:0", "^fill"}, {attribute("transpose_a", Message().number(5, 0))})},
               {function("f", {constant("c", tensor(kUint8, {2}).bytes(7, "\1\2"))})});
}

inline Message tensor_info(std::string_view tensor, uint64_t type, const std::vector<int64_t>& sizes) {
  return Message().bytes(1, tensor).number(2, type).message(3, shape(sizes));
}

/// The entry of a map.
inline Message pair(std::string_view key, const Message& value) { return Message().bytes(1, key).message(2, value); }

inline Message meta_graph(const Message& graph, std::string_view tag = "serve") {
  const Message signature = Message()
                                .message(1, pair("a", tensor_info("x:0", kFloat, {-1, 2})))
                                .message(2, pair("b", tensor_info("y:0", kFloat, {-1, 1})))
                                .bytes(3, "tensorflow/serving/predict");
  return Message()
      .message(1, Message().bytes(4, tag).bytes(5, "2.18.0"))
      .message(2, graph)
      .message(5, pair("serving_default", signature))
      .message(6, Message().bytes(2, "vocab.txt"));
}

inline std::string saved_model(const std::vector<Message>& meta_graphs) {
  Message out;
  out.number(1, 1);
  for (const Message& each : meta_graphs) out.message(2, each);
  return out.build();
}

inline std::string small_saved_model() { return saved_model({meta_graph(small_graph())}); }

/// Two tensors, one of them in two slices, a tensor of strings, and one that is refused.
inline std::string small_index() {
  const std::string key("\0emb\0\1\1\1", 8);  // a slice of the tensor: one dimension
  return table({{"", header()},
                {key + "\x80\x81", Entry{.sizes = {1}, .offset = 8, .size = 4}.build()},
                {key + "\x81\x82", Entry{.sizes = {2}, .offset = 12, .size = 8}.build()},
                {"emb", Entry{.sizes = {3}, .slices = {slice_of({{0, 1}}), slice_of({{1, 2}})}}.build()},
                {"late", Entry{.sizes = {100}, .size = 4}.build()},
                {"names", Entry{.type = kString, .sizes = {2}, .offset = 20, .size = 9}.build()},
                {"w", Entry{.sizes = {2, 1}, .size = 8}.build()}});
}

inline std::string small_data() { return "wwwwWWWWaaaabbbbcccc" + strings({"a", "bc"}); }

/// A SavedModel without its saved_model.pb.
inline Files small_variables() {
  return {{"assets/vocab.txt", "words"},
          {"variables/variables.data-00000-of-00001", small_data()},
          {"variables/variables.index", small_index()}};
}

/// A checkpoint of version 1: a tensor, and one in two slices.
inline std::string small_v1() {
  const auto key = [](std::string_view name, std::string_view extent) {
    return std::string("\0", 1) + std::string(name) + std::string("\0\1\1\1", 4) + std::string(extent);
  };
  const auto saved = [](std::string_view name, const std::vector<int64_t>& sizes, const std::vector<Message>& slices) {
    Message out = Message().bytes(1, name).message(2, shape(sizes)).number(3, kFloat);
    for (const Message& slice : slices) out.message(4, slice);
    return out;
  };
  const auto data = [](std::string_view name, std::string_view values) {
    return Message().message(2, Message().bytes(1, name).message(3, tensor(kFloat, {}).bytes(5, values))).build();
  };
  const Message meta = Message()
                           .message(1, saved("emb", {2}, {slice_of({{0, 1}}), slice_of({{1, 1}})}))
                           .message(1, saved("w", {2}, {slice_of({{0, -1}})}));
  return snappy_table({{"", Message().message(1, meta).build()},
                       {key("emb", "\x80\x81"), data("emb", "aaaa")},
                       {key("emb", "\x81\x81"), data("emb", "bbbb")},
                       {key("w", "\x80\x7F"), data("w", "wwwwWWWW")}});
}

}  // namespace weightfs::test::tensorflow
