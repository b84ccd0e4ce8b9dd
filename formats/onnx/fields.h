// The fields of ONNX's messages that are read: onnx.proto3 of ONNX 1.20.
#pragma once

#include "formats/protobuf/scanner.h"

namespace weightfs::onnx {

using protobuf::bytes;
using protobuf::Field;
using protobuf::Fields;
using protobuf::fixed32;
using protobuf::fixed64;
using protobuf::Message;
using protobuf::Scanner;
using protobuf::varint;
using protobuf::WireType;

namespace model {
inline constexpr uint32_t kIrVersion = varint(1);
inline constexpr uint32_t kProducerName = bytes(2);
inline constexpr uint32_t kProducerVersion = bytes(3);
inline constexpr uint32_t kDomain = bytes(4);
inline constexpr uint32_t kModelVersion = varint(5);
inline constexpr uint32_t kDocString = bytes(6);
inline constexpr uint32_t kGraph = bytes(7);
inline constexpr uint32_t kOpsetImport = bytes(8);
inline constexpr uint32_t kMetadataProps = bytes(14);
inline constexpr uint32_t kTrainingInfo = bytes(20);
inline constexpr uint32_t kFunctions = bytes(25);
inline constexpr uint32_t kConfiguration = bytes(26);
}  // namespace model

namespace opset {
inline constexpr uint32_t kDomain = bytes(1);
inline constexpr uint32_t kVersion = varint(2);
}  // namespace opset

/// Fields of metadata_props and external_data.
namespace entry {
inline constexpr uint32_t kKey = bytes(1);
inline constexpr uint32_t kValue = bytes(2);
}  // namespace entry

namespace training {
inline constexpr uint32_t kInitialization = bytes(1);
inline constexpr uint32_t kAlgorithm = bytes(2);
}  // namespace training

namespace graph {
inline constexpr uint32_t kNode = bytes(1);
inline constexpr uint32_t kName = bytes(2);
inline constexpr uint32_t kInitializer = bytes(5);
inline constexpr uint32_t kDocString = bytes(10);
inline constexpr uint32_t kInput = bytes(11);
inline constexpr uint32_t kOutput = bytes(12);
inline constexpr uint32_t kValueInfo = bytes(13);  ///< values between nodes
inline constexpr uint32_t kQuantizationAnnotation = bytes(14);
inline constexpr uint32_t kSparseInitializer = bytes(15);
}  // namespace graph

namespace quantization {
inline constexpr uint32_t kTensorName = bytes(1);
inline constexpr uint32_t kParameterTensorNames = bytes(2);
}  // namespace quantization

namespace node {
inline constexpr uint32_t kInput = bytes(1);
inline constexpr uint32_t kOutput = bytes(2);
inline constexpr uint32_t kName = bytes(3);
inline constexpr uint32_t kOpType = bytes(4);
inline constexpr uint32_t kAttribute = bytes(5);
inline constexpr uint32_t kDomain = bytes(7);
inline constexpr uint32_t kOverload = bytes(8);
}  // namespace node

namespace attribute {
inline constexpr uint32_t kName = bytes(1);
inline constexpr uint32_t kFloat = fixed32(2);
inline constexpr uint32_t kInt = varint(3);
inline constexpr uint32_t kString = bytes(4);
inline constexpr uint32_t kTensor = bytes(5);
inline constexpr uint32_t kGraph = bytes(6);
inline constexpr uint32_t kFloats = 7;  ///< the number of a repeated field of numbers, which may be packed
inline constexpr uint32_t kInts = 8;    ///< the same
inline constexpr uint32_t kStrings = bytes(9);
inline constexpr uint32_t kTensors = bytes(10);
inline constexpr uint32_t kGraphs = bytes(11);
inline constexpr uint32_t kReference = bytes(21);
inline constexpr uint32_t kSparseTensor = bytes(22);
inline constexpr uint32_t kSparseTensors = bytes(23);
}  // namespace attribute

namespace function {
inline constexpr uint32_t kName = bytes(1);
inline constexpr uint32_t kInput = bytes(4);
inline constexpr uint32_t kOutput = bytes(5);
inline constexpr uint32_t kNode = bytes(7);
inline constexpr uint32_t kDomain = bytes(10);
inline constexpr uint32_t kAttributeProto = bytes(11);
inline constexpr uint32_t kOverload = bytes(13);
}  // namespace function

namespace sparse {
inline constexpr uint32_t kValues = bytes(1);
inline constexpr uint32_t kIndices = bytes(2);
inline constexpr uint32_t kDims = 3;  ///< numbers
}  // namespace sparse

namespace tensor {
inline constexpr uint32_t kDims = 1;  ///< numbers
inline constexpr uint32_t kDataType = varint(2);
inline constexpr uint32_t kSegment = bytes(3);
inline constexpr uint32_t kFloatData = 4;  ///< numbers, as are the next ones
inline constexpr uint32_t kInt32Data = 5;
inline constexpr uint32_t kInt64Data = 7;
inline constexpr uint32_t kDoubleData = 10;
inline constexpr uint32_t kUint64Data = 11;
inline constexpr uint32_t kStringData = bytes(6);
inline constexpr uint32_t kName = bytes(8);
inline constexpr uint32_t kRawData = bytes(9);
inline constexpr uint32_t kExternalData = bytes(13);
inline constexpr uint32_t kDataLocation = varint(14);
}  // namespace tensor

/// Fields of an input or output, and its type.
namespace value_info {
inline constexpr uint32_t kName = bytes(1);
inline constexpr uint32_t kType = bytes(2);
}  // namespace value_info

namespace type {
inline constexpr uint32_t kTensor = bytes(1);
inline constexpr uint32_t kSequence = bytes(4);
inline constexpr uint32_t kMap = bytes(5);
inline constexpr uint32_t kSparseTensor = bytes(8);
inline constexpr uint32_t kOptional = bytes(9);
inline constexpr uint32_t kElementType = varint(1);  ///< of a tensor
inline constexpr uint32_t kShape = bytes(2);         ///< of a tensor
inline constexpr uint32_t kDim = bytes(1);           ///< of a shape
inline constexpr uint32_t kDimValue = varint(1);     ///< of a dimension
inline constexpr uint32_t kDimParam = bytes(2);      ///< of a dimension
}  // namespace type

}  // namespace weightfs::onnx
