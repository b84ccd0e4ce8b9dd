// Builds the model files of whisper.cpp for tests, right or wrong.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/builders/params_builder.h"

namespace weightfs::test {

class GgmlBuilder {
 public:
  std::string magic = "lmgg";
  std::array<int32_t, 11> fields = {3, 4, 4, 1, 1, 4, 4, 1, 1, 2, 1};  ///< n_vocab, …, n_mels, ftype
  int32_t mels = 2, ffts = 1;
  int32_t tokens = 2;  ///< the stated number; there are two

  /// Adds a tensor; `dims` innermost first, as on disk.
  GgmlBuilder& tensor(std::string_view name, const std::vector<int32_t>& dims, int32_t type, std::string_view data) {
    return record(static_cast<int32_t>(dims.size()), static_cast<int32_t>(name.size()), name, dims, type, data);
  }
  /// A tensor with these counts in its record.
  GgmlBuilder& record(int32_t dimensions, int32_t name_size, std::string_view name, const std::vector<int32_t>& dims,
                      int32_t type, std::string_view data) {
    tensors_ += number(dimensions) + number(name_size) + number(type);
    for (const int32_t size : dims) tensors_ += number(size);
    tensors_.append(name).append(data);
    return *this;
  }

  std::string build() const {
    std::string out = magic;
    for (const int32_t field : fields) out += number(field);
    out += number(mels) + number(ffts) + std::string(8, 'f') + number(tokens);
    for (const std::string_view token : {"a", "bc"}) out.append(little(token.size(), 4)).append(token);
    return out + tensors_;
  }

 private:
  static std::string number(int32_t n) { return little(static_cast<uint32_t>(n), 4); }

  std::string tensors_;
};

inline std::string small_ggml() {
  GgmlBuilder b;
  b.tensor("encoder.w", {2, 1}, 0, "12345678").tensor("decoder.q", {32}, 8, std::string(34, 'q'));
  return b.build();
}

}  // namespace weightfs::test
