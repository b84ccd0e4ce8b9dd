// The tables of a TFLite file, by their slots in the schema (schema.fbs of LiteRT, version 3d).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/flatbuffer/flatbuffer.h"
#include "formats/model.h"

namespace weightfs::tflite {

/// An opened file. Not thread-safe.
struct File {
  SourcePtr source;
  std::unique_ptr<flatbuffer::Buffer> bytes;  ///< the tables and lists refer to it
  flatbuffer::Table model;
  flatbuffer::List subgraphs;
  flatbuffer::List buffers;
  flatbuffer::List external_groups;
  flatbuffer::List external_buffers;
};

/// Reads the root of a file. Fails with corrupt if it is not a FlatBuffer. `budget` outlives the result.
Result<File> open_file(const SourcePtr& source, Budget& budget);

/// A subgraph.
struct Graph {
  std::string name;
  flatbuffer::List inputs;   ///< indices of tensors: int32
  flatbuffer::List outputs;  ///< the same
  flatbuffer::List tensors;
  flatbuffer::List operators;
};

/// Reads the subgraph at `index`, which is less than the list's size.
Result<Graph> read_graph(const File& file, uint64_t index);

/// QuantizationParameters.
struct Quantization {
  flatbuffer::List scale;       ///< float32
  flatbuffer::List zero_point;  ///< int64
  int32_t dimension = 0;
};

/// A tensor of a subgraph: a constant, an activation or a variable.
struct Entry {
  std::string name;
  int8_t type = 0;
  flatbuffer::List shape;      ///< int32, as stored: may be negative
  flatbuffer::List signature;  ///< int32: the shape with -1 for unknown dimensions; may be empty
  uint32_t buffer = 0;         ///< index in File::buffers
  uint32_t external = 0;       ///< id of an external buffer; 0 for none
  bool is_sparse = false;
  bool is_variable = false;
  Quantization quantization;  ///< without a scale if the tensor is not quantised
};

/// Reads the tensor at `index`, which is less than the list's size.
Result<Entry> read_entry(const flatbuffer::List& tensors, uint64_t index);

/// A member of a union of options.
struct Options {
  uint8_t number = 0;       ///< of the member; 0 for none
  flatbuffer::Table table;  ///< may be a default one
};

/// A use of an operator.
struct Call {
  uint32_t code = 0;                 ///< index in the operator codes
  flatbuffer::List inputs;           ///< indices of tensors: int32; -1 for an omitted one
  flatbuffer::List outputs;          ///< the same
  Options options;                   ///< of BuiltinOptions
  Options options_2;                 ///< of BuiltinOptions2
  flatbuffer::List custom_options;   ///< bytes
  uint64_t large_custom_offset = 0;  ///< of custom options after the FlatBuffer, in the file; up to 1 for none
  uint64_t large_custom_size = 0;
};

/// Reads the operator at `index`, which is less than the list's size.
Result<Call> read_call(const flatbuffer::List& operators, uint64_t index);

/// The bytes of a buffer: nothing if it is empty, as that of an activation is. Fails with corrupt if it is not one of
/// the file's buffers, or not all inside the file.
Result<std::optional<Slice>> bytes_of_buffer(const File& file, uint32_t index);

/// Checks that the buffer whose table is the last one in the file is all inside: no tensor needs to have it. Fails with
/// corrupt if it is not, and as the budget does.
Result<void> check_last_buffer(const File& file);

/// The name of an operator code: "CONV_2D", "CUSTOM:name", "unknown(250)".
Result<std::string> operator_code_name(const flatbuffer::Table& operator_code);

/// All of them, in the order of operator_codes. They are charged to `charges`.
Result<std::vector<std::string>> operator_code_names(const File& file, Charges& charges);

}  // namespace weightfs::tflite
