// Writes pickles for tests and checkpoints of PyTorch around them, opcode by opcode. Nothing of Python is needed.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/builders/zip_builder.h"

namespace weightfs::test {

/// The opcodes of a pickle of protocol 2, or of a part of one.
class PickleBuilder {
 public:
  /// Any opcodes, as they are.
  PickleBuilder& raw(std::string_view opcodes) {
    opcodes_ += opcodes;
    return *this;
  }
  PickleBuilder& add(const PickleBuilder& other) { return raw(other.opcodes_); }
  PickleBuilder& none() { return raw("N"); }
  PickleBuilder& boolean(bool value) { return raw(value ? "\x88" : "\x89"); }
  PickleBuilder& integer(int64_t n) { return raw("\x8A\x08" + le(static_cast<uint64_t>(n), 8)); }
  PickleBuilder& text(std::string_view text) { return raw("X" + le(text.size(), 4)).raw(text); }
  PickleBuilder& bytes(std::string_view bytes) { return raw("B" + le(bytes.size(), 4)).raw(bytes); }
  PickleBuilder& global(std::string_view module, std::string_view name) {
    return raw("c").raw(module).raw("\n").raw(name).raw("\n");
  }
  PickleBuilder& real(double number) {
    std::string bytes = le(std::bit_cast<uint64_t>(number), 8);
    std::reverse(bytes.begin(), bytes.end());
    return raw("G" + bytes);
  }
  PickleBuilder& mark() { return raw("("); }
  PickleBuilder& tuple() { return raw("t"); }
  PickleBuilder& reduce() { return raw("R"); }
  PickleBuilder& build() { return raw("b"); }
  PickleBuilder& put(uint8_t slot) { return raw("q" + le(slot, 1)); }
  PickleBuilder& get(uint8_t slot) { return raw("h" + le(slot, 1)); }

  /// A tuple of integers.
  PickleBuilder& integers(const std::vector<int64_t>& numbers) {
    mark();
    for (const int64_t n : numbers) integer(n);
    return tuple();
  }
  /// A call of a function with these arguments, which are the opcodes between MARK and TUPLE.
  PickleBuilder& call(std::string_view module, std::string_view name, const PickleBuilder& arguments) {
    return global(module, name).mark().add(arguments).tuple().reduce();
  }

  const std::string& opcodes() const { return opcodes_; }
  /// The pickle: with PROTO and STOP.
  std::string pickle() const { return "\x80\x02" + opcodes_ + "."; }

 private:
  std::string opcodes_;
};

/// A storage: ("storage", class, key, device, elements), a persistent identifier.
inline PickleBuilder storage(std::string_view type, std::string_view key, int64_t elements) {
  PickleBuilder b;
  b.mark().text("storage").global(type.starts_with("Untyped") ? "torch.storage" : "torch",
                                  std::string(type) + "Storage");
  return b.text(key).text("cpu").integer(elements).tuple().raw("Q");
}

/// The position of a tensor in its storage.
struct TensorLayout {
  std::vector<int64_t> shape, strides;
  int64_t offset = 0;
};

inline std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// The arguments that all functions for dense tensors have.
inline PickleBuilder layout_arguments(const PickleBuilder& storage, const TensorLayout& layout) {
  return PickleBuilder().add(storage).integer(layout.offset).integers(layout.shape).integers(layout.strides);
}

/// A call of _rebuild_tensor_v2; `more` are further arguments.
inline PickleBuilder tensor_v2(const PickleBuilder& storage, const TensorLayout& layout,
                               const PickleBuilder& more = {}) {
  PickleBuilder arguments = layout_arguments(storage, layout);
  arguments.boolean(false).call("collections", "OrderedDict", {}).add(more);
  return PickleBuilder().call("torch._utils", "_rebuild_tensor_v2", arguments);
}

/// A checkpoint: a dict of tensors and of other values, and the bytes of storages.
class PytorchBuilder {
 public:
  /// Adds a value under a key.
  PytorchBuilder& value(std::string_view key, const PickleBuilder& value) {
    items_.text(key).add(value);
    return *this;
  }
  /// Adds bytes as the next storage; returns its key.
  std::string bytes(std::string_view data) {
    storages_.emplace_back(data);
    return std::to_string(storages_.size() - 1);
  }
  /// Adds a tensor with a storage of its own, whose class is `type`: "Float". `size` is that of an element.
  PytorchBuilder& tensor(std::string_view name, std::string_view type, size_t size, std::vector<int64_t> shape,
                         std::string_view data) {
    TensorLayout layout{shape, dense_strides(shape)};
    return view(name, type, size, std::move(layout), data);
  }
  /// A tensor with any strides.
  PytorchBuilder& view(std::string_view name, std::string_view type, size_t size, TensorLayout layout,
                       std::string_view data) {
    const auto elements = static_cast<int64_t>(data.size() / size);
    return value(name, tensor_v2(storage(type, bytes(data), elements), layout));
  }

  PickleBuilder object() const { return PickleBuilder().raw("}").mark().add(items_).raw("u"); }
  const std::vector<std::string>& storages() const { return storages_; }

  /// The members of the zip.
  ZipBuilder members(const std::string& root = "archive") const { return members_of(object().pickle(), root); }
  ZipBuilder members_of(std::string_view pickle, const std::string& root = "archive") const {
    ZipBuilder zip;
    zip.stored(root + "/data.pkl", pickle);
    for (size_t i = 0; i < storages_.size(); ++i)
      zip.stored(root + "/data/" + std::to_string(i), storages_[i]).local_extra = "FB" + le(4, 2) + "ZZZZ";
    zip.stored(root + "/version", "3\n");
    return zip;
  }
  std::string zip() const { return members().build(); }

  /// The form before torch 1.6. `sizes` are those of the elements of the storages.
  std::string legacy(const std::vector<size_t>& sizes) const {
    PickleBuilder keys;
    keys.raw("]").mark();
    for (size_t i = 0; i < storages_.size(); ++i) keys.text(std::to_string(i));
    std::string file = legacy_header() + object().pickle() + keys.raw("e").pickle();
    for (size_t i = 0; i < storages_.size(); ++i) file += le(storages_[i].size() / sizes[i], 8) + storages_[i];
    return file;
  }
  static std::string legacy_header(int64_t version = 1001) {
    const std::string magic("\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19", 12);
    PickleBuilder writer;
    writer.raw("}").mark().text("protocol_version").integer(1001).text("little_endian").boolean(true).raw("u");
    return PickleBuilder().raw(magic).pickle() + PickleBuilder().integer(version).pickle() + writer.pickle();
  }

 private:
  PickleBuilder items_;
  std::vector<std::string> storages_;
};

/// A small checkpoint: a matrix, its transpose, a tensor in another type, a number, a nested dict.
inline PytorchBuilder small_checkpoint() {
  PytorchBuilder b;
  const std::string key = b.bytes("wwwwWWWW");
  b.value("w", tensor_v2(storage("Float", key, 2), {{2, 1}, {1, 1}}));
  b.view("t", "Byte", 1, {{2, 2}, {1, 2}}, "1234");
  b.tensor("half", "BFloat16", 2, {2}, "hhhh");
  b.value("epoch", PickleBuilder().integer(3));
  PickleBuilder inner;
  inner.raw("}").mark().text("tied").add(tensor_v2(storage("Float", key, 2), {{2, 1}, {1, 1}})).text("lr").real(0.5);
  return b.value("inner", inner.raw("u"));
}

}  // namespace weightfs::test
