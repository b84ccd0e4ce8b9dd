// The weights of an ML program: constants of its functions, in weight files or in the program itself.
#pragma once

#include <map>
#include <string>

#include "formats/code/list.h"
#include "formats/coreml/blobs.h"
#include "formats/protobuf/numbers.h"
#include "formats/string_pool.h"

namespace weightfs::coreml {

/// A Value of MIL that is a tensor. Its elements are not read.
struct StoredValue {
  bool is_tensor = false;
  int32_t data_type = 0;
  Shape shape;
  std::optional<std::string> problem;  ///< of the shape
  protobuf::Message immediate;         ///< absent if its values are in a file
  std::string file;                    ///< then
  uint64_t offset = 0;                 ///< then
};

/// Reads a Value. Fails as Scanner does.
Result<StoredValue> read_value(protobuf::Scanner& scanner, const protobuf::Message& message);

/// Adds the tensors of programs to a model.
class ProgramReader {
 public:
  /// All outlive this object.
  ProgramReader(const Container& container, const SourcePtr& file, protobuf::Scanner& scanner, BlobFiles& blobs,
                Model& out)
      : container_(container), file_(file), scanner_(scanner), blobs_(blobs), out_(out) {}

  /// Adds the tensors of a Program: `scope` is the prefix of their paths. Fails as Scanner and the budget do.
  Result<void> program(const protobuf::Message& program, const std::string& scope);

  /// Adds the counts of operations to the metadata, custom ones to the common field `code`, and the warnings to
  /// `warnings`.
  void finish(Warnings& warnings);

 private:
  Result<void> function(const protobuf::Message& entry, const std::string& scope);
  // `scope` is one of string_pool.
  Result<void> block(const protobuf::Message& block, std::string_view scope);
  Result<void> operation(const protobuf::Message& operation, std::string_view scope);
  Result<void> note_custom(const protobuf::Message& operation, const std::string& type);
  Result<void> attribute(const protobuf::Message& entry, const std::string& owner, bool is_constant,
                         std::string_view scope);
  Result<void> input(const protobuf::Message& entry, const std::string& owner, std::string_view scope);
  Result<void> value(const protobuf::Message& message, std::string name, std::string_view scope);
  Result<Slice> bytes(const StoredValue& value, uint32_t blob_type, uint64_t size);
  Result<Slice> immediate(const StoredValue& value, uint64_t size);

  const Container& container_;
  const SourcePtr& file_;
  protobuf::Scanner& scanner_;
  BlobFiles& blobs_;
  Model& out_;
  Warnings warnings_;
  CodeList code_;
  uint64_t countable_ = protobuf::kMaxCounted;
  std::map<std::string, uint64_t> operations_;
  StringPool spellings_{out_.string_pool};
};

}  // namespace weightfs::coreml
