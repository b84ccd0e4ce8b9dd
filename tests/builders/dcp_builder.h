// Builds checkpoints of torch.distributed.checkpoint for tests, right or wrong.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/builders/python_builder.h"
#include "tests/support/memory_folder.h"

namespace weightfs::test::dcp {

inline constexpr std::string_view kModule = "torch.distributed.checkpoint.metadata";

using Sizes = std::vector<int64_t>;

inline PickleBuilder size(const Sizes& sizes) {
  return PickleBuilder().call("torch", "Size", PickleBuilder().integers(sizes));
}

/// A member of the enumeration of memory formats, as Python 3.11 spells it.
inline PickleBuilder memory_format() {
  const PickleBuilder arguments = PickleBuilder().global(kModule, "_MEM_FORMAT_ENCODING").text("TORCH_PRESERVE_FORMAT");
  return PickleBuilder().call("builtins", "getattr", arguments);
}

inline PickleBuilder properties(std::string_view dtype) {
  PickleBuilder b = PickleBuilder().global(kModule, "TensorProperties").raw(")\x81").mark().global("torch", dtype);
  b.call("torch.serialization", "_get_layout", PickleBuilder().text("torch.strided")).boolean(false);
  return b.add(memory_format()).boolean(false).tuple().build();
}

/// A part of a tensor.
struct Chunk {
  Sizes offsets, sizes;
};

/// A file of torch.save with any object.
inline std::string saved(const PickleBuilder& object) { return PytorchBuilder().members_of(object.pickle()).build(); }

/// A file of torch.save with one tensor, whose storage is of the class `type`: "Float".
inline std::string saved(std::string_view type, size_t width, const Sizes& shape, std::string_view data) {
  PytorchBuilder b;
  const PickleBuilder stored = storage(type, b.bytes(data), static_cast<int64_t>(data.size() / width));
  return b.members_of(tensor_v2(stored, {shape, dense_strides(shape)}).pickle()).build();
}

class CheckpointBuilder {
 public:
  /// Describes a tensor.
  CheckpointBuilder& tensor(std::string_view name, std::string_view dtype, const Sizes& shape,
                            const std::vector<Chunk>& chunks) {
    PickleBuilder list = PickleBuilder().raw("](");
    for (const Chunk& chunk : chunks) {
      const PickleBuilder attributes =
          PickleBuilder().text("offsets").add(size(chunk.offsets)).text("sizes").add(size(chunk.sizes));
      list.add(object(kModule, "ChunkStorageMetadata", attributes));
    }
    PickleBuilder attributes = PickleBuilder().text("properties").add(properties(dtype));
    attributes.text("size").add(size(shape)).text("chunks").add(list.raw("e"));
    return entry(name, object(kModule, "TensorStorageMetadata", attributes));
  }

  /// Any entry of state_dict_metadata.
  CheckpointBuilder& entry(std::string_view name, const PickleBuilder& value) {
    entries_.text(name).add(value);
    return *this;
  }

  CheckpointBuilder& object_entry(std::string_view name) {
    return entry(name, object(kModule, "BytesStorageMetadata", {}));
  }

  /// Adds bytes to a file, as the chunk that begins at `offsets`, or as an object without them.
  CheckpointBuilder& stored(std::string_view name, const std::optional<Sizes>& offsets, const std::string& file,
                            std::string_view bytes) {
    std::string& content = files_[file];
    placed(name, offsets, file, static_cast<int64_t>(content.size()), static_cast<int64_t>(bytes.size()));
    content += bytes;
    return *this;
  }

  /// Names the place of a chunk or an object. `more`: further attributes.
  CheckpointBuilder& placed(std::string_view name, const std::optional<Sizes>& offsets, std::string_view path,
                            int64_t offset, int64_t length, const PickleBuilder& more = {}) {
    PickleBuilder key = PickleBuilder().text("fqn").text(name).text("offset");
    key.add(offsets ? size(*offsets) : PickleBuilder().none()).text("index").none();
    PickleBuilder place = PickleBuilder().text("relative_path").text(path).text("offset").integer(offset);
    place.text("length").integer(length).add(more);
    places_.add(object(kModule, "MetadataIndex", key));
    places_.add(object("torch.distributed.checkpoint.filesystem", "_StorageInfo", place));
    return *this;
  }

  /// A tensor in one chunk, in a file of its own place.
  CheckpointBuilder& whole(std::string_view name, std::string_view dtype, std::string_view type, size_t width,
                           const Sizes& shape, std::string_view data) {
    const Sizes begin(shape.size(), 0);
    tensor(name, dtype, shape, {{begin, shape}});
    return stored(name, begin, "__0_0.distcp", saved(type, width, shape, data));
  }

  /// The .metadata.
  std::string metadata() const {
    PickleBuilder attributes = PickleBuilder().text("state_dict_metadata").raw("}(").add(entries_).raw("u");
    attributes.text("planner_data").raw("}").text("storage_data").raw("}(").add(places_).raw("u");
    return object(kModule, "Metadata", attributes).pickle();
  }

  /// The files beside it.
  const Files& files() const { return files_; }

 private:
  PickleBuilder entries_, places_;
  Files files_;
};

/// Two ranks: a tensor in one chunk, one cut by rows, one in columns, and a number.
inline CheckpointBuilder small_dcp() {
  CheckpointBuilder b;
  b.whole("model.w", "float32", "Float", 4, {2, 1}, "wwwwWWWW");
  b.tensor("rows", "uint8", {3, 2}, {{{0, 0}, {2, 2}}, {{2, 0}, {1, 2}}});
  b.stored("rows", Sizes{0, 0}, "__0_0.distcp", saved("Byte", 1, {2, 2}, "abcd"));
  b.stored("rows", Sizes{2, 0}, "__1_0.distcp", saved("Byte", 1, {1, 2}, "ef"));
  b.tensor("grid", "int16", {2, 3}, {{{0, 0}, {2, 1}}, {{0, 1}, {2, 2}}});
  b.stored("grid", Sizes{0, 0}, "__0_0.distcp", saved("Short", 2, {2, 1}, "AADD"));
  b.stored("grid", Sizes{0, 1}, "__1_0.distcp", saved("Short", 2, {2, 2}, "BBCCEEFF"));
  b.object_entry("epoch").stored("epoch", std::nullopt, "__0_0.distcp", saved(PickleBuilder().integer(7)));
  return b;
}

}  // namespace weightfs::test::dcp
