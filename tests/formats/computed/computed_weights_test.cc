// The weights that modules of quantised repositories compute with, held against a reader that goes bit by bit.
#include "formats/computed_weights.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/support/memory_folder.h"

namespace weightfs::computed_weights_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kGptq = R"({"quantization_config": {"quant_method": "gptq", "bits": %, "group_size": 32}})";

// A model of safetensors beside a config.json. The bytes of its tensors are random.
class Repository {
 public:
  explicit Repository(std::string config) {
    model_->format = "safetensors";
    model_->beside = std::make_shared<test::MemoryFolder>(test::Files{{"config.json", std::move(config)}});
  }

  Repository& add(std::string name, const char* dtype, Shape shape, std::string bytes) {
    return add(std::move(name), dtype, std::move(shape), in_memory(std::move(bytes)));
  }
  Repository& add(std::string name, const char* dtype, Shape shape, const SourcePtr& bytes) {
    const Slice all = slice(bytes, 0, bytes->size()).value();
    model_->tensors.push_back(Tensor{std::move(name), dtype_named(dtype), dtype, "", std::move(shape), all});
    return *this;
  }
  Repository& add_random(std::string name, const char* dtype, Shape shape) {
    std::string bytes(*size_in_bytes(*dtype_named(dtype), shape), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return add(std::move(name), dtype, std::move(shape), std::move(bytes));
  }
  Repository& add_scales(std::string name, Shape shape) {
    std::string bytes;
    for (uint64_t i = 0; i < *elements_of(shape); ++i) {
      const float scale = static_cast<float>(random_() % 1000) / 1024;
      bytes.append(reinterpret_cast<const char*>(&scale), sizeof(scale));
    }
    return add(std::move(name), "float32", std::move(shape), std::move(bytes));
  }

  ModelPtr model() const { return model_; }
  ComputedWeights weights() const { return computed_weights(*model_).value(); }
  std::string bytes(std::string_view name) const {
    for (const TensorView& tensor : model_->tensors)
      if (tensor.name == name) return read_text(tensor.source, 0, tensor.nbytes()).value();
    return "";
  }

 private:
  std::shared_ptr<Model> model_ = std::make_shared<Model>();
  std::mt19937 random_{1};
};

std::string config(std::string text, unsigned bits) {
  const size_t at = text.find('%');
  return text.replace(at, 1, std::to_string(bits));
}

std::vector<float> floats(const std::string& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::vector<float> values(const ComputedWeight& weight) {
  return floats(read_text(weight.values, 0, weight.values.size()).value());
}

bool bit_of(const std::string& words, uint64_t word, uint64_t bit) {
  return (static_cast<unsigned char>(words[word * 4 + bit / 8]) >> bit % 8 & 1) != 0;
}

// `bits` bits of the words at word(0), word(1), …, from bit `first` on.
template <class Word>
unsigned number_at(const std::string& words, uint64_t first, unsigned bits, const Word& word) {
  unsigned number = 0;
  for (unsigned i = 0; i < bits; ++i)
    number |= static_cast<unsigned>(bit_of(words, word((first + i) / 32), (first + i) % 32)) << i;
  return number;
}

// GPTQ of the first version, in groups of 32.
std::vector<float> gptq_weight(const Repository& from, unsigned bits, uint64_t inputs, uint64_t outputs) {
  const std::string weights = from.bytes("m.qweight"), zeros = from.bytes("m.qzeros");
  const std::vector<float> scales = floats(from.bytes("m.scales"));
  std::vector<float> out;
  for (uint64_t o = 0; o < outputs; ++o)
    for (uint64_t i = 0; i < inputs; ++i) {
      const unsigned code = number_at(weights, i * bits, bits, [&](uint64_t word) { return word * outputs + o; });
      const unsigned stored =
          number_at(zeros, o * bits, bits, [&](uint64_t word) { return i / 32 * (outputs * bits / 32) + word; });
      const int zero = static_cast<int>((stored + 1) % (1U << bits));
      out.push_back(scales[i / 32 * outputs + o] * static_cast<float>(static_cast<int>(code) - zero));
    }
  return out;
}

Repository gptq(unsigned bits, uint64_t inputs, uint64_t outputs) {
  Repository made(config(kGptq, bits));
  made.add_random("m.qweight", "int32", {inputs * bits / 32, outputs})
      .add_random("m.qzeros", "int32", {inputs / 32, outputs * bits / 32})
      .add_scales("m.scales", {inputs / 32, outputs});
  return made;
}

TEST(ComputedWeights, GptqOfEachNumberOfBitsIsThatOfAReaderOfBits) {
  for (const unsigned bits : {2U, 3U, 4U, 8U}) {
    const Repository from = gptq(bits, 128, 96);
    const ComputedWeights found = from.weights();
    ASSERT_EQ(found.weights.size(), 1u) << bits;
    EXPECT_EQ(found.weights[0].name, "m.weight");
    EXPECT_EQ(found.weights[0].shape, (Shape{96, 128}));
    EXPECT_EQ(found.weights[0].pieces, (std::vector<size_t>{0, 1, 2}));
    EXPECT_EQ(values(found.weights[0]), gptq_weight(from, bits, 128, 96)) << bits;
    EXPECT_THAT(found.warnings, IsEmpty());
  }
}

TEST(ComputedWeights, GptqOfModulesWithOwnRulesIsFoundByItsShapes) {
  Repository from(R"({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": false,
      "dynamic": {"+:.*m.*": {"bits": 8}, "+:.*k.*": {"desc_act": true}, "-:.*q.*": {}}}})");
  from.add_random("m.qweight", "int32", {128 * 8 / 32, 96})
      .add_random("m.qzeros", "int32", {4, 96 * 8 / 32})
      .add_scales("m.scales", {4, 96});
  EXPECT_EQ(values(from.weights().weights.at(0)), gptq_weight(from, 8, 128, 96));
  Repository several(R"({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 64,
      "dynamic": {"+:.*m.*": {"group_size": 48}}}})");
  several.add_random("m.qweight", "int32", {12, 96})
      .add_random("m.qzeros", "int32", {2, 12})
      .add_scales("m.scales", {2, 96});
  EXPECT_THAT(several.weights().warnings, ElementsAre(HasSubstr("several rules of dynamic fit its tensors")));
}

TEST(ComputedWeights, RangesOfSeveralTilesAreThoseOfTheWhole) {
  const Repository from = gptq(4, 1024, 1056);
  const ComputedWeight weight = from.weights().weights.at(0);
  const std::string whole = read_text(weight.values, 0, weight.values.size()).value();
  EXPECT_EQ(floats(whole), gptq_weight(from, 4, 1024, 1056));
  for (const uint64_t begin : {uint64_t{0}, uint64_t{1}, uint64_t{2'097'149}, uint64_t{4'000'000}}) {
    EXPECT_EQ(read_text(weight.values, begin, 20'003).value(), whole.substr(begin, 20'003));
  }
}

TEST(ComputedWeights, AwqHasOutputsInTheOrderOfItsKernel) {
  Repository from(R"({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 1}})");
  const std::string word = {'\x20', '\x64', '\x31', '\x75'};  // the outputs 0, 2, 4, 6, 1, 3, 5, 7
  from.add("m.qweight", "int32", {1, 1}, word).add("m.qzeros", "int32", {1, 1}, std::string(4, '\0'));
  std::string ones;
  for (int i = 0; i < 8; ++i) ones.append("\x00\x3C", 2);
  from.add("m.scales", "float16", {1, 8}, ones);
  EXPECT_THAT(values(from.weights().weights.at(0)), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(ComputedWeights, ScaledNumbersTakeThePlaceOfTheStoredOnes) {
  Repository from(R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [2, 2]}})");
  from.add("m.bias", "float32", {1}, std::string(4, '\0'));
  from.add("m.weight", "float8_e4m3fn", {3, 3}, std::string(9, '\x38'));  // ones
  from.add_scales("m.weight_scale_inv", {2, 2});
  const std::vector<float> s = floats(from.bytes("m.weight_scale_inv"));
  const ComputedWeights found = from.weights();
  const ModelPtr with = with_computed(from.model(), found.weights, Pieces::left_out).value();
  ASSERT_EQ(with->tensors.size(), 2u);
  EXPECT_EQ(with->tensors[1].name, "m.weight");
  EXPECT_EQ(with->tensors[1].dtype->name, "float32");
  EXPECT_EQ(floats(read_text(with->tensors[1].source, 0, 36).value()),
            (std::vector<float>{s[0], s[0], s[1], s[0], s[0], s[1], s[2], s[2], s[3]}));
}

TEST(ComputedWeights, NumbersThatContradictTheirRulesAreNoNumbers) {
  Repository from(R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [2, 2]}})");
  from.add("m.weight", "float8_e4m3fn", {3, 3}, std::string(9, '\x38')).add_scales("m.weight_scale_inv", {2, 1});
  const ComputedWeights found = from.weights();
  EXPECT_THAT(found.warnings, ElementsAre(HasSubstr("weight_scale_inv is float32 [2,1]; expected [2,2]")));
  const ModelPtr with = with_computed(from.model(), found.weights, Pieces::kept).value();
  EXPECT_EQ(with->tensors.dtype(0), &kUnknownDType);
}

TEST(ComputedWeights, SizesThatOverflowAreRefused) {
  const SourcePtr none = in_memory("");
  for (const Shape& shape :
       {Shape{0, 0}, Shape{uint64_t{1} << 62, 0}, Shape{0, uint64_t{1} << 62}, Shape{1}, Shape{}}) {
    Repository from(config(kGptq, 4));
    from.add("m.qweight", "int32", shape, none).add("m.scales", "float16", {0, 0}, none);
    EXPECT_THAT(from.weights().weights, IsEmpty());
    EXPECT_THAT(from.weights().warnings, ElementsAre(HasSubstr("qweight is int32")));
  }
  Repository words(R"({"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized",
      "config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 4, "group_size": 281474976710656}}}}})");
  words.add("m.weight_packed", "int32", {uint64_t{1} << 62, 0}, none)
      .add("m.weight_scale", "float16", {0, uint64_t{1} << 16}, none)
      .add("m.weight_shape", "int64", {2}, std::string(16, '\xFF'));
  EXPECT_THAT(words.weights().weights, IsEmpty());
  EXPECT_EQ(words.weights().warnings.size(), 1u);
}

TEST(ComputedWeights, ModulesThatShareTheirBytesAreNotMultiplied) {
  Repository from(config(kGptq, 2));
  const SourcePtr shared = in_memory(std::string(32 * 32 / 16 * 4, '\x55'));
  for (int i = 0; i < 100; ++i) {
    from.add(fmt::format("{}.qweight", i), "int32", {2, 32}, shared);
    from.add(fmt::format("{}.qzeros", i), "int32", {1, 2}, shared);
    from.add(fmt::format("{}.scales", i), "float16", {1, 32}, shared);
  }
  EXPECT_THAT(from.weights().weights, IsEmpty());
  EXPECT_THAT(from.weights().warnings, ElementsAre(HasSubstr("share their bytes")));
}

TEST(ComputedWeights, OtherMethodsHaveNone) {
  for (const char* const text : {"{}", "[]", "", R"({"quantization_config": 5})",
                                 R"({"quantization_config": {"quant_method": "hqq", "bits": 4, "group_size": 32}})"}) {
    Repository from(text);
    from.add_random("m.qweight", "int32", {4, 32}).add_scales("m.scales", {1, 32});
    EXPECT_THAT(from.weights().weights, IsEmpty());
    EXPECT_THAT(from.weights().warnings, IsEmpty());
    EXPECT_EQ(with_computed(from.model(), {}, Pieces::kept).value(), from.model());
  }
}

}  // namespace
}  // namespace weightfs::computed_weights_test
