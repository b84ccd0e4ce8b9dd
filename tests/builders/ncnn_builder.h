// Builds networks of ncnn and Darknet for tests, right or wrong.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/builders/params_builder.h"

namespace weightfs::test::ncnn {

/// The text of a .param with these layers.
inline std::string param(const std::vector<std::string>& layers) {
  std::string text = fmt::format("7767517\n{} {}\n", layers.size(), layers.size());
  for (const std::string& layer : layers) text += layer + "\n";
  return text;
}

inline constexpr uint32_t kFloat16 = 0x01306B47, kInt8 = 0x000D4B38, kFloat32 = 0x0002C056;

/// A flagged array.
inline std::string flagged(uint32_t tag, std::string_view bytes) { return little(tag, 4) + std::string(bytes); }

inline std::string small_param() {
  return param({"Input in 0 1 a 0=4 1=3 2=2", "Convolution conv 1 1 a b 0=2 1=1 5=1 6=4", "ReLU relu 1 1 b c 0=0.1",
                "InnerProduct fc 1 1 c d 0=1 1=0 2=3 -23310=2,1,2 9=\"text\"", "PReLU p 1 1 d e 0=1"});
}

/// A float16 convolution with its bias, three int8 weights with padding, and a slope.
inline std::string small_bin() {
  return flagged(kFloat16, "aabbccdd") + "BIASbias" + flagged(kInt8, std::string("xyz\0", 4)) + "SLOP";
}

}  // namespace weightfs::test::ncnn

namespace weightfs::test::darknet {

inline constexpr std::string_view kSmallConfig =
    "[net]\nwidth=2\nheight = 2\nchannels=1\n# a comment\n[convolutional]\nbatch_normalize=1\nfilters=2\nsize=1\n"
    "[maxpool]\nsize=2\nstride=2\n[connected]\noutput=1\n[softmax]\n";

inline std::string header(int major = 0, int minor = 2) {
  const bool is_long = major * 10 + minor >= 2 && major < 1000 && minor < 1000;
  return little(static_cast<uint64_t>(major), 4) + little(static_cast<uint64_t>(minor), 4) + little(0, 4) +
         little(7, is_long ? 8 : 4);
}

/// The arrays of kSmallConfig: 2 biases, 2 scales, means and variances, 2 weights, a bias, 2 weights.
inline std::string small_weights() {
  return header() + "bia0bia1" + "sca0sca1" + "mea0mea1" + "var0var1" + "wei0wei1" + "BIAS" + "WEI0WEI1";
}

}  // namespace weightfs::test::darknet
