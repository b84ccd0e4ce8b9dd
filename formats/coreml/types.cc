#include "formats/coreml/types.h"

#include <array>

namespace weightfs::coreml {
namespace {

constexpr std::array kTypes = {
    ElementType{{1, "BOOL", "bool"}, 0},
    ElementType{{10, "FLOAT16", "float16"}, 1},
    ElementType{{11, "FLOAT32", "float32"}, 2},
    ElementType{{12, "FLOAT64", "float64"}, 0},
    ElementType{{13, "BFLOAT16", "bfloat16"}, 5},
    ElementType{{21, "INT8", "int8"}, 4},
    ElementType{{22, "INT16", "int16"}, 6},
    ElementType{{23, "INT32", "int32"}, 14},
    ElementType{{24, "INT64", "int64"}, 0},
    ElementType{{25, "INT4", "int4", true}, 8},
    ElementType{{31, "UINT8", "uint8"}, 3},
    ElementType{{32, "UINT16", "uint16"}, 7},
    ElementType{{33, "UINT32", "uint32"}, 15},
    ElementType{{34, "UINT64", "uint64"}, 0},
    ElementType{{35, "UINT4", "uint4", true}, 11},
    ElementType{{36, "UINT2", "uint2", true}, 10},
    ElementType{{37, "UINT1", "uint1", true}, 9},
    ElementType{{38, "UINT6", "uint6", true}, 13},
    ElementType{{39, "UINT3", "uint3", true}, 12},
    ElementType{{40, "FLOAT8E4M3FN", "float8_e4m3fn"}, 16},
    ElementType{{41, "FLOAT8E5M2", "float8_e5m2"}, 17},
};

}  // namespace

constinit const TypeCodes<ElementType> kElementTypes(kTypes);

}  // namespace weightfs::coreml
