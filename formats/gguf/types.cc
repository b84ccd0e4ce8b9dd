#include "formats/gguf/types.h"

#include <algorithm>
#include <array>

#include "formats/output.h"

namespace weightfs::gguf {
namespace {

struct Row {
  std::string_view name;
  std::string_view dtype = {};  // its name in the table of dtypes
  std::string_view note = {};
};

constexpr std::string_view kRemoved = "a type that ggml had in 2024 and removed";
constexpr std::string_view kUnknownTypeWarning = "unknown type; its bytes are assumed to end at the next tensor";

// ggml.h of ggml 0.21.0, by number. 5 was Q4_3, removed before GGUF existed.
constexpr std::array kTypes = {
    Row{"F32", "float32"},
    Row{"F16", "float16"},
    Row{"Q4_0", "q4_0"},
    Row{"Q4_1", "q4_1"},
    Row{"", "mxfp4",
        "the number that Ollama gave MXFP4 in August 2025 (v0.11.0 to v0.11.7): "
        "byte i of a block holds elements 2i and 2i+1, not i and i+16 as in ggml's MXFP4"},
    Row{"", "", kUnknownTypeWarning},
    Row{"Q5_0", "q5_0"},
    Row{"Q5_1", "q5_1"},
    Row{"Q8_0", "q8_0"},
    Row{"Q8_1", "q8_1"},
    Row{"Q2_K", "q2_k"},
    Row{"Q3_K", "q3_k"},
    Row{"Q4_K", "q4_k"},
    Row{"Q5_K", "q5_k"},
    Row{"Q6_K", "q6_k"},
    Row{"Q8_K", "q8_k"},
    Row{"IQ2_XXS", "iq2_xxs"},
    Row{"IQ2_XS", "iq2_xs"},
    Row{"IQ3_XXS", "iq3_xxs"},
    Row{"IQ1_S", "iq1_s"},
    Row{"IQ4_NL", "iq4_nl"},
    Row{"IQ3_S", "iq3_s"},
    Row{"IQ2_S", "iq2_s"},
    Row{"IQ4_XS", "iq4_xs"},
    Row{"I8", "int8"},
    Row{"I16", "int16"},
    Row{"I32", "int32"},
    Row{"I64", "int64"},
    Row{"F64", "float64"},
    Row{"IQ1_M", "iq1_m"},
    Row{"BF16", "bfloat16"},
    Row{"Q4_0_4_4", "q4_0_4_4", kRemoved},
    Row{"Q4_0_4_8", "q4_0_4_8", kRemoved},
    Row{"Q4_0_8_8", "q4_0_8_8", kRemoved},
    Row{"TQ1_0", "tq1_0"},
    Row{"TQ2_0", "tq2_0"},
    Row{"IQ4_NL_4_4", "iq4_nl_4_4", kRemoved},
    Row{"IQ4_NL_4_8", "iq4_nl_4_8", kRemoved},
    Row{"IQ4_NL_8_8", "iq4_nl_8_8", kRemoved},
    Row{"MXFP4", "mxfp4"},
    Row{"NVFP4", "nvfp4"},
    Row{"Q1_0", "q1_0"},
    Row{"Q2_0", "q2_0"},
};

// llama.h, by number: LLAMA_FTYPE_MOSTLY_Q4_K_M and so on. 4 to 6 and 33 to 35 are removed types.
constexpr std::array<std::string_view, 42> kFileTypes = {
    "F32",   "F16",     "Q4_0",      "Q4_1",   "Q4_1_SOME_F16", "Q4_2",    "Q4_3",     "Q8_0",     "Q5_0",
    "Q5_1",  "Q2_K",    "Q3_K_S",    "Q3_K_M", "Q3_K_L",        "Q4_K_S",  "Q4_K_M",   "Q5_K_S",   "Q5_K_M",
    "Q6_K",  "IQ2_XXS", "IQ2_XS",    "Q2_K_S", "IQ3_XS",        "IQ3_XXS", "IQ1_S",    "IQ4_NL",   "IQ3_S",
    "IQ3_M", "IQ2_S",   "IQ2_M",     "IQ4_XS", "IQ1_M",         "BF16",    "Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8",
    "TQ1_0", "TQ2_0",   "MXFP4_MOE", "NVFP4",  "Q1_0",          "Q2_0",
};

// Those of ik_llama.cpp, a fork (its llama.h). Repacked types have 200 more than their own.
struct FileType {
  uint16_t number;
  std::string_view name;
};
constexpr std::array kForkFileTypes = {
    FileType{135, "Q6_0"},       FileType{136, "IQ1_BN"},    FileType{137, "IQ2_BN"},     FileType{138, "IQ2_K"},
    FileType{139, "IQ3_K"},      FileType{140, "IQ4_K"},     FileType{141, "IQ5_K"},      FileType{142, "IQ6_K"},
    FileType{145, "IQ4_KS"},     FileType{146, "IQ3_KL"},    FileType{147, "IQ2_KS"},     FileType{148, "IQ4_KSS"},
    FileType{149, "Q8_KV"},      FileType{150, "IQ5_KS"},    FileType{151, "IQ2_KT"},     FileType{152, "IQ3_KT"},
    FileType{153, "IQ4_KT"},     FileType{154, "IQ3_KS"},    FileType{155, "IQ2_KL"},     FileType{156, "IQ1_KT"},
    FileType{202, "Q4_0_R8"},    FileType{207, "Q8_0_R8"},   FileType{208, "Q5_0_R4"},    FileType{210, "Q2_K_R4"},
    FileType{211, "Q3_K_R4"},    FileType{214, "Q4_K_R4"},   FileType{216, "Q5_K_R4"},    FileType{218, "Q6_K_R4"},
    FileType{219, "IQ2_XXS_R4"}, FileType{220, "IQ2_XS_R4"}, FileType{223, "IQ3_XXS_R4"}, FileType{224, "IQ1_S_R4"},
    FileType{225, "IQ4_NL_R4"},  FileType{226, "IQ3_S_R4"},  FileType{229, "IQ2_M_R4"},   FileType{230, "IQ4_XS_R8"},
    FileType{231, "IQ1_M_R4"},   FileType{232, "BF16_R16"},  FileType{335, "Q6_0_R4"},    FileType{337, "IQ2_BN_R4"},
    FileType{338, "IQ2_K_R4"},   FileType{339, "IQ3_K_R4"},  FileType{340, "IQ4_K_R4"},   FileType{341, "IQ5_K_R4"},
    FileType{345, "IQ4_KS_R4"},  FileType{350, "IQ5_KS_R4"}, FileType{398, "Q8_KV_R8"},   FileType{399, "Q8_K_R8"},
};

constexpr size_t kMxfp4OfOllama = 4;

}  // namespace

TensorType tensor_type(uint32_t id) {
  static const auto dtypes = [] {
    std::array<const DType*, kTypes.size()> rows{};
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = dtype_named(kTypes[i].dtype);
    rows[kMxfp4OfOllama] = mxfp4_of_pairs();
    return rows;
  }();
  if (id >= kTypes.size() || dtypes[id] == nullptr) return {"", &kUnknownDType, kUnknownTypeWarning};
  return {kTypes[id].name, dtypes[id], kTypes[id].note};
}

std::string_view file_type_name(uint64_t number) {
  if (number < kFileTypes.size()) return kFileTypes[number];
  const auto row = std::ranges::find(kForkFileTypes, number, &FileType::number);
  return row == kForkFileTypes.end() ? "" : row->name;
}

std::vector<std::string_view> file_type_names() {
  std::vector<std::string_view> names(kFileTypes.begin(), kFileTypes.end());
  for (const FileType& row : kForkFileTypes) names.push_back(row.name);
  return names;
}

}  // namespace weightfs::gguf

namespace weightfs {

std::optional<uint32_t> gguf_type(const TensorView& tensor, std::endian order) {
  // The dtypes of a number; null if files have no tensors of it.
  struct Rows {
    const DType* little = nullptr;
    const DType* big = nullptr;
  };
  static const auto kOfNumbers = [] {
    std::array<Rows, gguf::kTypes.size()> rows;
    for (size_t i = 0; i < rows.size(); ++i)
      if (const gguf::Row& type = gguf::kTypes[i]; type.note.empty() && !type.dtype.empty())
        rows[i] = {dtype_named(type.dtype), big_endian(dtype_named(type.dtype))};
    return rows;
  }();
  const auto row = std::ranges::find(kOfNumbers, tensor.dtype, order == std::endian::big ? &Rows::big : &Rows::little);
  return row == kOfNumbers.end() ? std::nullopt : std::optional(static_cast<uint32_t>(row - kOfNumbers.begin()));
}

}  // namespace weightfs
