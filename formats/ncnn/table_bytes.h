// Weights of one byte that stand for the values of a table.
#pragma once

#include "base/source.h"

namespace weightfs::ncnn {

/// The bytes of a table of 256 float32 values.
inline constexpr uint64_t kTableSize = 1024;

/// The values of `indices` as float32, looked up when they are read. `table` has kTableSize bytes.
SourcePtr table_bytes(Slice table, Slice indices);

}  // namespace weightfs::ncnn
