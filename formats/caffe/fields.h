// Fields of caffe.proto (BVLC Caffe 1.0).
#pragma once

#include "formats/protobuf/scanner.h"

namespace weightfs::caffe {

using protobuf::bytes;
using protobuf::Field;
using protobuf::Fields;
using protobuf::Message;
using protobuf::Scanner;
using protobuf::varint;
using protobuf::WireType;

// NetParameter
namespace net {
inline constexpr uint32_t kName = bytes(1);
inline constexpr uint32_t kOldLayers = bytes(2);  // V1LayerParameter
inline constexpr uint32_t kInput = bytes(3);
inline constexpr uint32_t kInputDim = 4;  // the number of the field; four for each input
inline constexpr uint32_t kInputShape = bytes(8);
inline constexpr uint32_t kLayer = bytes(100);
}  // namespace net

// LayerParameter
namespace layer {
inline constexpr uint32_t kName = bytes(1);
inline constexpr uint32_t kType = bytes(2);
inline constexpr uint32_t kBottom = bytes(3);
inline constexpr uint32_t kTop = bytes(4);
inline constexpr uint32_t kBlobs = bytes(7);
inline constexpr uint32_t kPythonParameter = bytes(130);
inline constexpr uint32_t kInputParameter = bytes(143);
}  // namespace layer

// PythonParameter
inline constexpr uint32_t kModule = bytes(1);
inline constexpr uint32_t kClass = bytes(2);

// InputParameter
inline constexpr uint32_t kShapeOfInput = bytes(1);

// V1LayerParameter, before 2015
namespace old_layer {
inline constexpr uint32_t kOldest = bytes(1);  // V0LayerParameter
inline constexpr uint32_t kBottom = bytes(2);
inline constexpr uint32_t kTop = bytes(3);
inline constexpr uint32_t kName = bytes(4);
inline constexpr uint32_t kType = varint(5);
inline constexpr uint32_t kBlobs = bytes(6);
}  // namespace old_layer

// V0LayerParameter, before 2014
namespace oldest_layer {
inline constexpr uint32_t kName = bytes(1);
inline constexpr uint32_t kType = bytes(2);
inline constexpr uint32_t kBlobs = bytes(50);
}  // namespace oldest_layer

// BlobProto
namespace blob {
inline constexpr uint32_t kNum = varint(1);
inline constexpr uint32_t kWidth = varint(4);
inline constexpr uint32_t kData = 5;        // the number of the field
inline constexpr uint32_t kDoubleData = 8;  // the number of the field
inline constexpr uint32_t kShape = bytes(7);
inline constexpr uint32_t kRawData = bytes(12);  // of NVIDIA's fork: half precision
}  // namespace blob

// BlobShape
inline constexpr uint32_t kDim = 1;  // the number of the field

}  // namespace weightfs::caffe
