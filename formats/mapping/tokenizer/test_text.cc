#include "formats/mapping/tokenizer/test_text.h"

#include <algorithm>
#include <array>

namespace weightfs::mapping {
namespace {

// The sizes of the parts of the text, in bytes, as each pre-tokenizer splits it.
constexpr uint8_t kLlama3[] = {
    34, 4, 2, 6, 1, 15, 2, 8, 7, 13, 1, 4, 9, 1, 1, 1, 2, 1, 3, 1, 3, 1, 1, 3,  2, 1, 3, 3, 1, 3,  3, 1, 1,  3,
    3,  2, 1, 1, 1, 1,  1, 1, 2, 1,  1, 1, 3, 1, 4, 6, 6, 6, 6, 9, 6, 4, 2, 20, 3, 3, 1, 3, 3, 14, 9, 5, 19, 36,
    2,  3, 5, 2, 4, 3,  2, 6, 1, 2,  2, 4, 5, 1, 2, 1, 4, 5, 2, 3, 5, 3, 1, 2,  1, 4, 5, 5, 4, 1,  3, 3, 2,  3,
};

constexpr uint8_t kQwen2[] = {
    34, 4, 2, 6, 1, 15, 2, 8, 7, 13, 1, 4, 9, 1, 1,  1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1, 1, 1,  1,  1, 1, 1,
    1,  1, 1, 1, 1, 1,  1, 1, 1, 1,  1, 1, 1, 1, 1,  1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1, 1, 1,  1,  1, 1, 2,
    1,  1, 1, 3, 1, 4,  6, 6, 6, 6,  9, 6, 4, 2, 20, 1, 1, 1, 1, 1, 1, 1, 3, 3, 14, 9, 5, 19, 36, 2, 3, 5,
    2,  4, 3, 2, 6, 1,  2, 2, 4, 5,  1, 2, 1, 4, 5,  2, 3, 5, 3, 1, 2, 1, 4, 5, 5,  4, 1, 3,  3,  2, 3,
};

constexpr uint8_t kQwen35[] = {
    34, 4, 2, 6, 1, 12, 3, 2, 8,  7, 13, 1,  4, 9, 1, 1, 1, 1, 1, 1, 1, 1,  1, 1, 1,  1,  1, 1, 1, 1, 1,
    1,  1, 1, 1, 1, 1,  1, 1, 1,  1, 1,  1,  1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1, 1, 1,  1,  1, 1, 1, 1, 1,
    1,  1, 2, 1, 1, 1,  3, 1, 43, 4, 2,  20, 1, 1, 1, 1, 1, 1, 1, 3, 3, 14, 9, 5, 19, 36, 2, 3, 5, 2, 4,
    3,  2, 6, 1, 2, 2,  4, 5, 1,  2, 1,  4,  5, 2, 3, 5, 3, 1, 2, 1, 4, 5,  5, 4, 1,  3,  3, 2, 3,
};

constexpr uint8_t kDeepseekV3[] = {
    34, 4, 2, 6, 1, 5, 3, 4, 3, 2, 8, 7, 13, 1, 4, 9, 1, 1,  1, 2, 1, 3, 1, 3, 1, 1, 3, 2, 1,  3, 3, 1,  3,  3,
    1,  1, 3, 3, 2, 1, 1, 1, 1, 1, 1, 2, 1,  1, 1, 3, 1, 43, 4, 2, 9, 5, 6, 3, 3, 1, 3, 3, 14, 9, 5, 19, 36, 2,
    3,  5, 2, 4, 3, 2, 6, 1, 2, 2, 4, 5, 1,  2, 1, 4, 5, 2,  3, 5, 3, 1, 2, 1, 4, 5, 5, 4, 1,  3, 3, 2,  3,
};

constexpr uint8_t kGpt4o[] = {
    34, 4, 2, 6, 1, 15, 2, 8, 7, 13, 1, 4, 9, 1, 1, 1, 2, 1,  3, 1, 3,  1, 1, 3, 2, 1, 3,  3, 1, 3,  3,
    1,  1, 3, 3, 2, 1,  1, 1, 1, 1,  1, 2, 1, 1, 1, 3, 1, 43, 4, 2, 20, 3, 3, 1, 3, 3, 14, 9, 5, 19, 36,
    5,  5, 2, 4, 5, 6,  1, 2, 2, 4,  5, 1, 2, 1, 4, 5, 5, 5,  3, 1, 2,  1, 4, 5, 5, 4, 1,  6, 5,
};

constexpr uint8_t kTekken[] = {
    34, 4, 2, 6, 1, 15, 2, 8,  7, 13, 1,  4, 9, 1, 1, 1, 1, 1, 1, 1, 1,  1, 1, 1,  1,  1, 1, 1, 1, 1, 1,
    1,  1, 1, 1, 1, 1,  1, 1,  1, 1,  1,  1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1, 1, 1,  1,  1, 1, 1, 1, 1, 1,
    1,  2, 1, 1, 1, 3,  1, 43, 4, 2,  20, 1, 1, 1, 1, 1, 1, 1, 3, 3, 14, 9, 5, 19, 36, 2, 3, 5, 2, 4, 3,
    2,  6, 1, 2, 2, 4,  5, 1,  2, 1,  4,  5, 2, 3, 5, 3, 1, 2, 1, 4, 5,  5, 4, 1,  3,  3, 2, 2, 1,
};

constexpr uint8_t kGpt2[] = {
    33, 1, 4, 2, 6, 1, 15, 2, 8, 7, 13, 1, 4, 9, 2, 3,  4, 5, 6, 7,  8, 9, 2,  1,  1, 2, 2, 1, 2, 3, 1,
    4,  3, 3, 3, 3, 3, 3,  3, 3, 3, 6,  3, 3, 4, 2, 20, 7, 3, 3, 14, 9, 5, 19, 36, 2, 3, 5, 2, 4, 3, 2,
    6,  1, 2, 2, 4, 5, 1,  2, 1, 4, 5,  2, 3, 5, 3, 1,  2, 1, 4, 5,  5, 4, 1,  3,  1, 2, 2, 1, 2,
};

constexpr uint8_t kStarcoder[] = {
    33, 1, 4, 2, 6, 1, 15, 2, 8, 7, 13, 1, 4, 9, 1, 1, 1, 1,  1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1, 1, 1,  1,  1, 1,
    1,  1, 1, 1, 1, 1, 1,  1, 1, 1, 1,  1, 1, 1, 1, 1, 1, 1,  1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1, 1, 2,  1,  1, 1,
    3,  1, 4, 3, 3, 3, 3,  3, 3, 3, 3,  3, 6, 3, 3, 4, 2, 20, 1, 1, 1, 1, 1, 1, 1, 3, 3, 14, 9, 5, 19, 36, 2, 3,
    5,  2, 4, 3, 2, 6, 1,  2, 2, 4, 5,  1, 2, 1, 4, 5, 2, 3,  5, 3, 1, 2, 1, 4, 5, 5, 4, 1,  3, 1, 2,  2,  1, 2,
};

struct PartsRow {
  std::string_view family;
  std::span<const uint8_t> sizes;
};

constexpr auto kParts = std::to_array<PartsRow>({
    {"llama-bpe", kLlama3},
    {"qwen2", kQwen2},
    {"qwen35", kQwen35},
    {"deepseek-v3", kDeepseekV3},
    {"gpt-4o", kGpt4o},
    {"tekken", kTekken},
    {"gpt-2", kGpt2},
    {"refact", kStarcoder},
    {"seed-coder", kQwen2},
    {"minicpm5", kLlama3},
});

struct DigestRow {
  uint64_t digest;
  std::string_view name;
};

// The first 64 bits of the SHA-256 of the ids, as a list in Python prints, and the name (llama.cpp v0.5.0).
constexpr auto kDigests = std::to_array<DigestRow>({
    {0xb6e8e1518dc4305b, "chatglm-bpe"},
    {0x81d72c7348a9f0eb, "chatglm-bpe"},
    {0xa1336059768a55c9, "glm4"},
    {0x9ca2dd618e8afaf0, "glm4"},
    {0xcdf5f35325780597, "glm4"},
    {0x1431a23e583c9743, "minerva-7b"},
    {0x7e57df22b1fe23a7, "hunyuan"},
    {0xbba3b3366b646dbd, "hunyuan-dense"},
    {0xe6ddf9c6686791c1, "hy_v4"},
    {0xa6b57017d60e6edb, "falcon-h1"},
    {0x60476e1243776c4f, "falcon-h1"},
    {0x3eda48b4c4dc7de7, "falcon-h1"},
    {0x48f8e02c0359c0bb, "falcon-h1"},
    {0x81212dc7cdb7e0c1, "kimi-k2"},
    {0xd4540891389ea895, "qwen2"},
    {0x1444df51289cfa80, "qwen35"},
    {0x66b8d4e19ab16c3b, "grok-2"},
    {0xb3d1dd861f1d4c5c, "jina-v2-de"},
    {0x0fe1cf6eda062318, "gpt-2"},
    {0x9e454714343b69b9, "lfm2"},
    {0x846deafc5b0fa786, "gemma4"},
    {0x0a766d034107bc73, "spark2_5"},
    {0x0ef9807a4087ebef, "llama-bpe"},
    {0x049ecf7629871e30, "deepseek-llm"},
    {0x347715f544604f91, "deepseek-coder"},
    {0x8aeee3860c56296a, "falcon"},
    {0x9d032fcbd5501f4a, "falcon3"},
    {0xb6dc8df998e1cfbd, "olmo"},
    {0x35d91631860c815f, "starcoder"},
    {0x3ce83efda5659b07, "gpt-2"},
    {0x32d85c31273f8019, "stablelm2"},
    {0x6221ad2852e85ce9, "refact"},
    {0x9c2227e4dd922002, "command-r"},
    {0xd772b220ace2baec, "tiny_aya"},
    {0x52df12b4c8d4176e, "cohere2moe"},
    {0xe636dc30a262dcc0, "qwen2"},
    {0xa8594e3edff7c29c, "dbrx"},
    {0xc7699093ba4255a9, "jina-v1-en"},
    {0x171aeeedd6fb548d, "jina-v2-es"},
    {0x27949a2493fc4a9f, "jina-v2-de"},
    {0xa023e9fdc5a11f03, "jina-v5-nano"},
    {0xc136ed14d01c2745, "smaug-bpe"},
    {0xc7ea5862a53e4272, "poro-chat"},
    {0x7967bfa498ade6b7, "jina-v2-code"},
    {0x7fc505bd3104ca10, "viking"},
    {0xb53802fb28e26d64, "jais"},
    {0xbc5108ee1eb6a3d6, "jais-2"},
    {0x7b3e7548e4308f52, "codeshell"},
    {0x63b97e4253352e6f, "tekken"},
    {0x855059429035d75a, "smollm"},
    {0x3c30d3ad1d6b6420, "bloom"},
    {0xbc01ce58980e1db4, "gpt3-finnish"},
    {0x4e2b24cc4770243d, "exaone"},
    {0xfcace8b9cac38ce8, "phi-2"},
    {0x60824e3c0d9401f8, "chameleon"},
    {0x8b5a93ed70405748, "roberta-bpe"},
    {0xad851be1dba641f2, "gigachat"},
    {0xd4c8f286ea6b520b, "megrez"},
    {0x877081d19cf6996e, "deepseek-v3"},
    {0xb3f499bb4255f8ca, "deepseek-r1-qwen"},
    {0xccc2ef013c104be7, "gpt-4o"},
    {0x7dec86086fcc38b6, "superbpe"},
    {0x1994ffd01900cfb3, "trillion"},
    {0x96a5f08be6259352, "bailingmoe"},
    {0xd353350c764d8c3b, "llama4"},
    {0x0e9433cbbb161f89, "pixtral"},
    {0xd5f1dd6f980fec56, "seed-coder"},
    {0xb0a6b1c0bd5998eb, "a.x-4.0"},
    {0xf6791d196f87ce6b, "midm-2.0"},
    {0x169bf0296a13c4d9, "lfm2"},
    {0x2085e1638f6c377a, "exaone4"},
    {0xa1e163ecab2e718a, "mellum"},
    {0xa0b64b4385f12366, "modern-bert"},
    {0x49fc0303c9e0d2c2, "afmoe"},
    {0x9b1be57e70d20d95, "bailingmoe2"},
    {0x53e325976a6e1423, "granite-docling"},
    {0xf4f37b6c8eb9ea29, "minimax-m2"},
    {0x4a2e2abae11ca2b8, "kormo"},
    {0x9d70134b369a70e5, "youtu"},
    {0x16389f0a1f51ee53, "solar-open"},
    {0x6c81ce329e080288, "exaone-moe"},
    {0xd30d75d9059f1aa2, "qwen35"},
    {0xb4b8ca1f9769494f, "joyai-llm"},
    {0xe4d54df1ebc1f2b9, "kanana2"},
    {0x862f827721df9560, "f2llmv2"},
    {0x62f6fb0a6fd5098c, "sarvam-moe"},
    {0xf728162c1315c26e, "talkie"},
    {0x36f3066e97b7f399, "minicpm5"},
    {0xf241072145675bf8, "granite-embed-multi-97m"},
    {0x789696f5946cc0fc, "granite-embed-multi-311m"},
    {0x9dcf830ee9990cdb, "mellum2"},
    {0x972da7b59cec44d1, "laguna"},
    {0x653660222fb704f6, "ufakzeka"},
});

}  // namespace

const std::string_view kTestText =
    "\n \n\n \n\n\n \t \t\t \t\n  \n   \n    \n     \n🚀 (normal) 😶‍🌫️ (multiple emojis conc"
    "atenated) ✅ 🦙🦙 3 33 333 3333 33333 333333 3333333 33333333 3.3 3..3 3...3 "
    "កាន់តែពិសេសអាច"
    "😁 ?我想在apple工作1314151天～ ------======= нещо на Български ''''''```````\"\"\"\"......!!!!"
    "!!?????? I've been 'told he's there, 'RE you sure? 'M not sure I'll make it, 'D you li"
    "ke some tea? We'Ve a'lL";

std::span<const uint8_t> parts_of_test_text(std::string_view family) {
  const auto* const row = std::ranges::find(kParts, family, &PartsRow::family);
  return row == kParts.end() ? std::span<const uint8_t>() : row->sizes;
}

std::string_view name_of_digest(uint64_t digest) {
  const auto* const row = std::ranges::find(kDigests, digest, &DigestRow::digest);
  return row == kDigests.end() ? std::string_view() : row->name;
}

}  // namespace weightfs::mapping
