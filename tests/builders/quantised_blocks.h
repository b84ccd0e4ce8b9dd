// Blocks of the quantised types of ggml, and what ggml makes of them.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "formats/model.h"

namespace weightfs {

/// A quantised type with blocks that were converted by the scalar dequantize_row functions of ggml d99724f2, compiled
/// without fused multiply-add.
struct QuantisedSample {
  std::string_view dtype;
  std::vector<size_t> exponents;  ///< offsets in a block of the bytes that have the exponents of float16 scales
  std::string_view digest;        ///< SHA-256 of the values of quantised_blocks(), as little-endian float32
};

inline const std::vector<QuantisedSample>& quantised_samples() {
  static const std::vector<QuantisedSample> samples = {
      {"q4_0", {1}, "b50d49ace83af87df9e67ff8d8b0c9f688cf02cb1b0a8488688e57c63ffc011f"},
      {"q4_1", {1, 3}, "50ea7c3892ca0c5531a62f4e2fcb124ba45dc4854ba6a8dc5285f179455f1d69"},
      {"q5_0", {1}, "062b54c8c6d197c8bbab36aac19d13b58239223e1b57d274c02ea774fce2a6ce"},
      {"q5_1", {1, 3}, "bfdd38123951e802608729b0298fe4ed62481985a562e374616020e44fa4f6e4"},
      {"q8_0", {1}, "e2205dbf9778186574eecd5198dbd110eeecfbf590e637bb0263f7b7cf81876d"},
      {"q2_k", {81, 83}, "ced7c8801ab609f0e418af50b67ea649f4c9ae0e18f6218820e88b2a8dd64104"},
      {"q3_k", {109}, "9322dbca6100296e3e6352e1235ef9a90e126eb193c1a2e94d150aae21142a57"},
      {"q4_k", {1, 3}, "80c3e18d35afaa03509a1cc999e415a8c0c30238cafb4a88901019478c3a11f4"},
      {"q5_k", {1, 3}, "fc752c3a9d605b4cb0ae410602222038fab17171ded2866c94258c36c142bc89"},
      {"q6_k", {209}, "17b4472153f8b931f0957c6f08cc3365237bf624c94248b52205ab6244816665"},
      {"q8_k", {3}, "06d79dda1353052069195019ee4322e30c1e8ce7c7d1b2e8f166fbf3e425dd7a"},
      {"iq2_xxs", {1}, "2c59143efeb656d69baf4c399b9a80ad63377c1cf533eb66d801552beb98f8f7"},
      {"iq2_xs", {1}, "23e2eb0b449d0d763696c78a9087f4d866f261ca500ca3cb578d3ee26d989a2b"},
      {"iq3_xxs", {1}, "115fda85c7a4e9f624dd03484963216aa38fa46b0d36b2b0747a5dc167791211"},
      {"iq1_s", {1}, "cf01a7312a7781b9229bfa7da33cf3be145dc981f044278fa03813aedd65bfb4"},
      {"iq4_nl", {1}, "b0b92ec75262638951596f6a4541728525aab62f3cf49dde9d58d23ead6cd33b"},
      {"iq3_s", {1}, "74ec86d8def112faafcf5977b4a45f9f765df548408e2040754b521579286d9a"},
      {"iq2_s", {1}, "fbe46951cd3cf2016e1e885b3d06a7d7251a52b655e81a5cfe2b8e6941a3707f"},
      {"iq4_xs", {1}, "320808f9e967aaec464adc524ed138bcceb695e7fbfe2f49d7aec0f9ea901275"},
      {"iq1_m", {55}, "e28faecc4fb14035c3b2dd865cbc76c9ed8163024d4ab6029b2a21c3d94f057d"},
      {"tq1_0", {53}, "0c52b29e29180f5c7cba0bc2c18878a19c404dd037aafbf485ccaafcd89d85f2"},
      {"tq2_0", {65}, "443452138e247c0a98b8763e903ffba0cc85fc180e6dc326652336df4ddaf670"},
      {"mxfp4", {}, "9abaf2498819509d35f61816288165107c3b410f734605a861ddec992eee51f8"},
      {"nvfp4", {}, "2335d2a5277a89c2cd217d6b36afccdfdeebe37e80e563cf4deff9f9d6e74851"},
      {"q1_0", {1}, "921d5208838ff3e96671f8831f9bb25e66816b475cb54a8871cc9d6952d081b1"},
      {"q2_0", {1}, "9ae0f38c2940135e5ea059f8da4772c4f1ffddee6ebf87b02a82deb726213d33"},
  };
  return samples;
}

/// The number of blocks of quantised_blocks().
inline constexpr uint64_t kSampleBlocks = 64;

/// Blocks of random bits, with finite values: every fourth block has scales that are subnormal or zero.
inline std::string quantised_blocks(const QuantisedSample& sample) {
  const size_t block_bytes = dtype_named(sample.dtype)->block_bytes;
  std::string bytes;
  for (size_t i = 0; bytes.size() < kSampleBlocks * block_bytes; ++i) {
    const Digest random = sha256(std::string(sample.dtype) + " " + std::to_string(i));
    for (const std::byte byte : random.bytes) bytes += static_cast<char>(byte);
  }
  bytes.resize(kSampleBlocks * block_bytes);
  for (size_t i = 0; i < kSampleBlocks; ++i)
    for (const size_t offset : sample.exponents) {
      char& exponent = bytes[i * block_bytes + offset];
      exponent = static_cast<char>(exponent & (i % 4 == 3 ? 0x83 : 0xBF));
    }
  return bytes;
}

/// A tensor of these bytes with one row; `dtype` may be any row.
inline Tensor tensor_of(const DType* dtype, uint64_t elements, std::string bytes) {
  Tensor tensor;
  tensor.name = "w";
  tensor.dtype = dtype;
  tensor.shape = {elements};
  const uint64_t size = bytes.size();
  tensor.source = slice(in_memory(std::move(bytes)), 0, size).value();
  return tensor;
}

}  // namespace weightfs
