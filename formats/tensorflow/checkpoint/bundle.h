// Checkpoints of version 2: tensor_bundle.proto and tensor_bundle.cc of TensorFlow 2.18.
#pragma once

#include <bit>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formats/common/warnings.h"
#include "formats/format.h"
#include "formats/tensorflow/checkpoint/files.h"
#include "formats/tensorflow/checkpoint/slices.h"
#include "formats/tensorflow/checkpoint/strings.h"
#include "formats/tensorflow/checkpoint/table.h"
#include "formats/tensorflow/shape.h"
#include "formats/tensorflow/types.h"

namespace weightfs::tensorflow {

/// A BundleEntryProto as stored.
struct BundleEntry {
  uint64_t data_type = 0;
  StoredShape shape;
  int32_t shard = 0;
  int64_t offset = 0;
  int64_t size = 0;
  std::optional<uint32_t> crc32c;   ///< of its bytes, unmasked; TensorFlow writes it always
  std::vector<TensorSlice> slices;  ///< of a partitioned variable, which has no bytes of its own
};

/// Reads a checkpoint into a model.
class BundleReader {
 public:
  BundleReader(const Container& container, const CheckpointFiles& files, Model& out, Warnings& warnings)
      : container_(container), files_(files), out_(out), warnings_(warnings) {}

  /// Reads all entries. Fails with corrupt if the table is invalid or has no header, with unsupported for a newer
  /// version, and as the budget does.
  Result<Map> read(const Table& table);

 private:
  Result<void> header(BlockEntries& entries);
  Result<void> versions(protobuf::Scanner& scanner, const protobuf::Message& versions);
  Result<void> entry(BlockEntries& entries);
  Result<void> tensor(const std::string& name, const Result<BundleEntry>& read);
  Result<void> values(const BundleEntry& entry, Tensor& tensor);
  Result<Slice> stored(const BundleEntry& entry, const ElementType& type, const Shape& shape);
  Result<Slice> partitioned(const BundleEntry& entry, const ElementType& type, const Tensor& tensor);
  Result<SourcePtr> shard(int32_t number);
  std::string shard_name(int32_t number) const;
  std::endian byte_order() const { return is_big_endian_ ? std::endian::big : std::endian::little; }
  Result<uint64_t> needed_bytes(const BundleEntry& entry, const ElementType& type, const Shape& shape) const;
  Result<void> add_checksum(const BundleEntry& entry, const SourcePtr& file, uint64_t lengths);
  StoredStrings strings(const BundleEntry& entry, const Slice& bytes, uint64_t count) const;
  void describe_objects(StoredStrings graph);

  const Container& container_;
  const CheckpointFiles& files_;
  Model& out_;
  Warnings& warnings_;
  int32_t shards_ = 0;
  bool is_big_endian_ = false;
  Map facts_;
  std::map<std::string, BundleEntry, std::less<>> slices_;  // by their keys
  std::map<int32_t, Result<SourcePtr>> files_by_shard_;     // errors as they were
  std::optional<Code> lost_;                                // the reason why the tensor lacks a file
  std::map<int32_t, size_t> checked_by_shard_;              // their places in Model::checks
};

}  // namespace weightfs::tensorflow
