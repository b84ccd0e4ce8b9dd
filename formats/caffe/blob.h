// A blob of Caffe: BlobProto, the weights of a layer.
#pragma once

#include <optional>
#include <string>

#include "formats/protobuf/numbers.h"
#include "formats/tensor_list.h"

namespace weightfs::caffe {

/// A BlobProto whose values have not been read.
struct Blob {
  protobuf::Message message;
  Shape shape;
  std::optional<std::string> problem;  ///< of the shape
  protobuf::NumbersLayout floats, doubles;
  std::optional<protobuf::Range> raw;  ///< values in a form of another program

  const DType* dtype() const;
  std::string_view stored_dtype() const;
};

/// Reads the fields of a blob. Any of the four dimensions of old files wins over a shape, as in Blob::FromProto; those
/// that are missing are 0. Fails as Scanner does.
Result<Blob> read_blob(protobuf::Scanner& scanner, protobuf::Message message);

/// The values: a range of the file where they are one run of bytes. Fails with corrupt if their number is not that of
/// the shape, and as Scanner does.
Result<Slice> values_of(const Blob& blob, const SourcePtr& file, protobuf::Scanner& scanner);

/// Adds the dimensions of a BlobShape to `shape`. Fails as Scanner does; a wrong dimension becomes a `problem`.
Result<void> read_shape(protobuf::Scanner& scanner, const protobuf::Message& message, Shape& shape,
                        std::optional<std::string>& problem);

}  // namespace weightfs::caffe
