// The fields of Core ML's messages that are read: Model.proto, FeatureTypes.proto and MIL.proto of coremltools 8.
#pragma once

#include "formats/protobuf/scanner.h"

namespace weightfs::coreml {

using protobuf::bytes;
using protobuf::Field;
using protobuf::Fields;
using protobuf::Message;
using protobuf::Scanner;
using protobuf::varint;
using protobuf::WireType;

namespace model {
inline constexpr uint32_t kSpecificationVersion = varint(1);
inline constexpr uint32_t kDescription = bytes(2);
inline constexpr uint32_t kIsUpdatable = varint(10);
inline constexpr uint32_t kPipelineClassifier = bytes(200);
inline constexpr uint32_t kPipelineRegressor = bytes(201);
inline constexpr uint32_t kPipeline = bytes(202);
inline constexpr uint32_t kNetworkRegressor = bytes(303);
inline constexpr uint32_t kNetworkClassifier = bytes(403);
inline constexpr uint32_t kNetwork = bytes(500);
inline constexpr uint32_t kProgram = bytes(502);
inline constexpr uint32_t kCustom = bytes(555);
inline constexpr uint32_t kFirstKind = 200;   ///< the numbers of the fields for the kinds of models
inline constexpr uint32_t kLastKind = 4'000;  ///< the same
}  // namespace model

namespace description {
inline constexpr uint32_t kInput = bytes(1);
inline constexpr uint32_t kOutput = bytes(10);
inline constexpr uint32_t kMetadata = bytes(100);
inline constexpr uint32_t kFeatureName = bytes(1);         ///< of an input or output
inline constexpr uint32_t kFeatureDescription = bytes(2);  ///< the same
}  // namespace description

namespace metadata {
inline constexpr uint32_t kShortDescription = bytes(1);
inline constexpr uint32_t kVersion = bytes(2);
inline constexpr uint32_t kAuthor = bytes(3);
inline constexpr uint32_t kLicense = bytes(4);
inline constexpr uint32_t kUserDefined = bytes(100);
}  // namespace metadata

/// A pipeline, and the one in a pipeline classifier or regressor.
namespace pipeline {
inline constexpr uint32_t kModel = bytes(1);
inline constexpr uint32_t kName = bytes(2);
inline constexpr uint32_t kInner = bytes(1);
}  // namespace pipeline

/// The class of a custom layer, and of a custom model.
inline constexpr uint32_t kClassName = bytes(10);

/// An entry of any map.
namespace entry {
inline constexpr uint32_t kKey = bytes(1);
inline constexpr uint32_t kValue = bytes(2);
}  // namespace entry

namespace program {
inline constexpr uint32_t kFunction = bytes(2);
inline constexpr uint32_t kSpecialization = bytes(3);  ///< of a function: a block for an opset
inline constexpr uint32_t kOperation = bytes(3);       ///< of a block
}  // namespace program

namespace operation {
inline constexpr uint32_t kType = bytes(1);
inline constexpr uint32_t kInput = bytes(2);
inline constexpr uint32_t kOutput = bytes(3);
inline constexpr uint32_t kBlock = bytes(4);
inline constexpr uint32_t kAttribute = bytes(5);
inline constexpr uint32_t kOutputName = bytes(1);
inline constexpr uint32_t kBinding = bytes(1);       ///< of an input
inline constexpr uint32_t kBindingValue = bytes(2);  ///< of a binding that is a value, not a name
}  // namespace operation

namespace value {
inline constexpr uint32_t kType = bytes(2);
inline constexpr uint32_t kImmediate = bytes(3);
inline constexpr uint32_t kBlob = bytes(5);
inline constexpr uint32_t kTensorType = bytes(1);
inline constexpr uint32_t kDataType = varint(1);    ///< of a tensor type
inline constexpr uint32_t kDimension = bytes(3);    ///< of a tensor type
inline constexpr uint32_t kConstant = bytes(1);     ///< of a dimension
inline constexpr uint32_t kSize = varint(1);        ///< of a constant dimension
inline constexpr uint32_t kBlobFile = bytes(1);     ///< of a blob
inline constexpr uint32_t kBlobOffset = varint(2);  ///< of a blob
inline constexpr uint32_t kImmediateTensor = bytes(1);
inline constexpr uint32_t kValues = 1;            ///< the repeated field in each of the next ones
inline constexpr uint32_t kRawValues = bytes(1);  ///< of kBytes
inline constexpr uint32_t kFloats = bytes(1);
inline constexpr uint32_t kInts = bytes(2);
inline constexpr uint32_t kBools = bytes(3);
inline constexpr uint32_t kTexts = bytes(4);
inline constexpr uint32_t kLongInts = bytes(5);
inline constexpr uint32_t kDoubles = bytes(6);
inline constexpr uint32_t kBytes = bytes(7);
}  // namespace value

}  // namespace weightfs::coreml
