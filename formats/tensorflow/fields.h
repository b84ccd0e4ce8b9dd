// The fields of TensorFlow's messages that are read: tensorflow/core/framework/*.proto, and saved_model.proto,
// meta_graph.proto, saved_tensor_slice.proto, tensor_bundle.proto and trackable_object_graph.proto of
// tensorflow/core/protobuf, of TensorFlow 2.18.
#pragma once

#include "formats/protobuf/scanner.h"

namespace weightfs::tensorflow {

using protobuf::bytes;
using protobuf::Field;
using protobuf::Fields;
using protobuf::fixed32;
using protobuf::Message;
using protobuf::Scanner;
using protobuf::varint;
using protobuf::WireType;

namespace saved_model {
inline constexpr uint32_t kSchemaVersion = varint(1);
inline constexpr uint32_t kMetaGraph = bytes(2);
}  // namespace saved_model

namespace meta_graph {
inline constexpr uint32_t kInfo = bytes(1);
inline constexpr uint32_t kGraph = bytes(2);
inline constexpr uint32_t kSignature = bytes(5);
inline constexpr uint32_t kAsset = bytes(6);
inline constexpr uint32_t kLastField = 7;  ///< all fields are messages
}  // namespace meta_graph

/// MetaInfoDef.
namespace info {
inline constexpr uint32_t kMetaGraphVersion = bytes(1);
inline constexpr uint32_t kOperators = bytes(2);
inline constexpr uint32_t kTag = bytes(4);
inline constexpr uint32_t kVersion = bytes(5);
inline constexpr uint32_t kGitVersion = bytes(6);
}  // namespace info

namespace op_list {
inline constexpr uint32_t kOp = bytes(1);
}  // namespace op_list

namespace asset {
inline constexpr uint32_t kFileName = bytes(2);
}  // namespace asset

/// An entry of any map.
namespace entry {
inline constexpr uint32_t kKey = bytes(1);
inline constexpr uint32_t kValue = bytes(2);
}  // namespace entry

namespace signature {
inline constexpr uint32_t kInputs = bytes(1);
inline constexpr uint32_t kOutputs = bytes(2);
inline constexpr uint32_t kMethod = bytes(3);
}  // namespace signature

namespace tensor_info {
inline constexpr uint32_t kName = bytes(1);
inline constexpr uint32_t kDataType = varint(2);
inline constexpr uint32_t kShape = bytes(3);
}  // namespace tensor_info

namespace graph {
inline constexpr uint32_t kNode = bytes(1);
inline constexpr uint32_t kLibrary = bytes(2);
inline constexpr uint32_t kOldVersion = varint(3);
inline constexpr uint32_t kVersions = bytes(4);
inline constexpr uint32_t kDebugInfo = bytes(5);
}  // namespace graph

namespace versions {
inline constexpr uint32_t kProducer = varint(1);
inline constexpr uint32_t kMinConsumer = varint(2);
inline constexpr uint32_t kBadConsumer = 3;  ///< the number of a repeated field of integers
}  // namespace versions

namespace library {
inline constexpr uint32_t kFunction = bytes(1);
}

namespace function {
inline constexpr uint32_t kSignature = bytes(1);
inline constexpr uint32_t kNode = bytes(3);
inline constexpr uint32_t kReturn = bytes(4);
}  // namespace function

/// OpDef, and ArgDef in it.
namespace op {
inline constexpr uint32_t kName = bytes(1);
inline constexpr uint32_t kInputArg = bytes(2);
inline constexpr uint32_t kOutputArg = bytes(3);
inline constexpr uint32_t kArgName = bytes(1);
}  // namespace op

namespace node {
inline constexpr uint32_t kName = bytes(1);
inline constexpr uint32_t kOp = bytes(2);
inline constexpr uint32_t kInput = bytes(3);
inline constexpr uint32_t kDevice = bytes(4);
inline constexpr uint32_t kAttribute = bytes(5);
}  // namespace node

/// AttrValue; the fields 2 to 9 of its list are repeated, of the same types.
namespace attribute {
inline constexpr uint32_t kList = bytes(1);
inline constexpr uint32_t kText = bytes(2);
inline constexpr uint32_t kInteger = varint(3);
inline constexpr uint32_t kFloat = fixed32(4);
inline constexpr uint32_t kBool = varint(5);
inline constexpr uint32_t kType = varint(6);
inline constexpr uint32_t kShape = bytes(7);
inline constexpr uint32_t kTensor = bytes(8);
inline constexpr uint32_t kPlaceholder = bytes(9);
inline constexpr uint32_t kFunction = bytes(10);
inline constexpr uint32_t kListFunction = bytes(9);  ///< in a list
inline constexpr uint32_t kFunctionName = bytes(1);  ///< of NameAttrList
}  // namespace attribute

namespace shape {
inline constexpr uint32_t kDim = bytes(2);
inline constexpr uint32_t kUnknownRank = varint(3);
inline constexpr uint32_t kDimSize = varint(1);
}  // namespace shape

namespace tensor {
inline constexpr uint32_t kDataType = varint(1);
inline constexpr uint32_t kShape = bytes(2);
inline constexpr uint32_t kContent = bytes(4);
inline constexpr uint32_t kFloat = 5;  ///< the number of a repeated field of numbers, as are those without a type
inline constexpr uint32_t kDouble = 6;
inline constexpr uint32_t kInt = 7;
inline constexpr uint32_t kString = bytes(8);
inline constexpr uint32_t kComplex64 = 9;
inline constexpr uint32_t kInt64 = 10;
inline constexpr uint32_t kBool = 11;
inline constexpr uint32_t kComplex128 = 12;
inline constexpr uint32_t kHalf = 13;
inline constexpr uint32_t kUint32 = 16;
inline constexpr uint32_t kUint64 = 17;
inline constexpr uint32_t kFloat8 = 18;  ///< one field of bytes
inline constexpr uint32_t kFields = 19;
}  // namespace tensor

/// BundleHeaderProto and BundleEntryProto.
namespace bundle {
inline constexpr uint32_t kShards = varint(1);
inline constexpr uint32_t kEndianness = varint(2);
inline constexpr uint32_t kVersion = bytes(3);
inline constexpr uint32_t kDataType = varint(1);
inline constexpr uint32_t kShape = bytes(2);
inline constexpr uint32_t kShard = varint(3);
inline constexpr uint32_t kOffset = varint(4);
inline constexpr uint32_t kSize = varint(5);
inline constexpr uint32_t kChecksum = fixed32(6);
inline constexpr uint32_t kSlice = bytes(7);
}  // namespace bundle

/// TensorSliceProto.
namespace tensor_slice {
inline constexpr uint32_t kExtent = bytes(1);
inline constexpr uint32_t kStart = varint(1);
inline constexpr uint32_t kLength = varint(2);
}  // namespace tensor_slice

/// SavedTensorSlices of checkpoints of version 1: its messages SavedTensorSliceMeta, SavedSliceMeta and SavedSlice.
namespace saved_slices {
inline constexpr uint32_t kMeta = bytes(1);
inline constexpr uint32_t kData = bytes(2);
inline constexpr uint32_t kMetaTensor = bytes(1);
inline constexpr uint32_t kName = bytes(1);
inline constexpr uint32_t kShape = bytes(2);
inline constexpr uint32_t kDataType = varint(3);
inline constexpr uint32_t kSlice = bytes(4);
inline constexpr uint32_t kDataTensor = bytes(3);
}  // namespace saved_slices

/// TrackableObjectGraph.
namespace objects {
inline constexpr uint32_t kNode = bytes(1);
inline constexpr uint32_t kAttribute = bytes(2);
inline constexpr uint32_t kFullName = bytes(2);
inline constexpr uint32_t kKey = bytes(3);
}  // namespace objects

}  // namespace weightfs::tensorflow
