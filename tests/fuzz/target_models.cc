// Targets of the model readers: each format by itself, as a container in memory with files beside it.
#include "formats/format.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"
#include "tests/support/pickle_builder.h"

namespace weightfs::test {
namespace {

void run_gguf(std::string_view input) { read_checked(parse_input(input).named("m-00001-of-00003.gguf"), "gguf"); }
void run_rten(std::string_view input) { read_checked(parse_input(input).named("m.rten"), "rten"); }
void run_tflite(std::string_view input) { read_checked(parse_input(input).named("m.tflite"), "tflite"); }
void run_executorch(std::string_view input) { read_checked(parse_input(input).named("m.ptd"), "executorch"); }
void run_safetensors(std::string_view input) { read_checked(parse_input(input).named("m.safetensors"), "safetensors"); }
void run_index(std::string_view input) {
  read_checked(parse_input(input).named("m.safetensors.index.json"), "safetensors-index");
}
void run_bintensors(std::string_view input) {
  const Container container = parse_input(input).named("m.bt");
  for (const char* layout : {"bintensors", "bintensors-release", "bintensors-legacy"}) read_checked(container, layout);
}
void run_tvm_params(std::string_view input) { read_checked(parse_input(input).named("m.params"), "tvm-params"); }
void run_ggml(std::string_view input) { read_checked(parse_input(input).named("ggml-m.bin"), "ggml"); }
void run_flax(std::string_view input) { read_checked(parse_input(input).named("m.msgpack"), "flax"); }
void run_numpy(std::string_view input) {
  const bool is_zip = input.starts_with("PK");
  read_checked(parse_input(input).named(is_zip ? "m.npz" : "m.npy"), is_zip ? "npz" : "npy");
}
void run_dduf(std::string_view input) { read_checked(parse_input(input).named("m.dduf"), "dduf"); }
void run_llamafile(std::string_view input) { read_checked(parse_input(input).named("m.llamafile"), "llamafile"); }
void run_tensor_cache(std::string_view input) {
  read_checked(parse_input(input).named("tensor-cache.json"), "tensor-cache");
}
void run_mlf(std::string_view input) { read_checked(parse_input(input).named("metadata.json"), "tvm-mlf"); }
void run_carton(std::string_view input) { read_checked(parse_input(input).named("carton.toml"), "carton"); }
void run_pickle(std::string_view input) {
  PytorchBuilder storages;
  storages.bytes(std::string(64, 's'));
  storages.bytes("short");
  const std::string zip = storages.members_of(input).build();
  read_checked(parse_input(zip).named("m.pt"), "pytorch");
}
void run_pytorch_legacy(std::string_view input) { read_checked(parse_input(input).named("m.pt"), "pytorch-legacy"); }
void run_ollama(std::string_view input) { read_checked(parse_input(input).named("latest"), "ollama"); }

constexpr Limits kLimits = {.memory = 400'000, .memory_per_byte = 500, .read_per_byte = 32};
// A window of zstd takes up to 8 MiB of memory.
constexpr Limits kPackedLimits = {.memory = 12'000'000, .memory_per_byte = 500, .read_per_byte = 32};
// A window of zstd, and members of a zip, which may share models.
constexpr Limits kZippedLimits = {.memory = 12'000'000, .memory_per_byte = 2'000, .read = 300'000, .read_per_byte = 64};
// Tables of a FlatBuffer may share others, each of which is read for every table.
constexpr Limits kSharedLimits = {.memory = 400'000, .memory_per_byte = 2'000, .read_per_byte = 32};
// Values of a pickle may be shared: a few hundred bytes can use all of a container's budget.
constexpr Limits kPickleLimits = {
    .memory = 80'000'000, .memory_per_byte = 500, .read_per_byte = 32, .time = 4'000'000'000};

}  // namespace

const Target kGgufTarget = {.name = "gguf", .run = run_gguf, .limits = kLimits, .mutate = mutate_numbers};
const Target kRtenTarget = {.name = "rten", .run = run_rten, .limits = kSharedLimits, .mutate = mutate_flatbuffer};
const Target kTfliteTarget = {
    .name = "tflite", .run = run_tflite, .limits = kSharedLimits, .mutate = mutate_flatbuffer};
const Target kExecutorchTarget = {
    .name = "executorch", .run = run_executorch, .limits = kSharedLimits, .mutate = mutate_flatbuffer};
const Target kSafetensorsTarget = {
    .name = "safetensors", .run = run_safetensors, .limits = kLimits, .mutate = mutate_headed};
const Target kSafetensorsIndexTarget = {
    .name = "safetensors_index", .run = run_index, .limits = kLimits, .mutate = mutate_text};
const Target kBintensorsTarget = {
    .name = "bintensors", .run = run_bintensors, .limits = kLimits, .mutate = mutate_headed};
const Target kTvmParamsTarget = {
    .name = "tvm_params", .run = run_tvm_params, .limits = kLimits, .mutate = mutate_numbers};
const Target kGgmlTarget = {.name = "ggml", .run = run_ggml, .limits = kLimits, .mutate = mutate_numbers};
const Target kFlaxTarget = {.name = "flax", .run = run_flax, .limits = kLimits, .mutate = mutate_numbers};
const Target kNumpyTarget = {
    .name = "numpy", .run = run_numpy, .limits = kZippedLimits, .mutate = mutate_any, .repair = repair_any};
const Target kDdufTarget = {
    .name = "dduf", .run = run_dduf, .limits = kZippedLimits, .mutate = mutate_zip, .repair = repair_zip};
const Target kLlamafileTarget = {
    .name = "llamafile", .run = run_llamafile, .limits = kZippedLimits, .mutate = mutate_zip, .repair = repair_zip};
const Target kTensorCacheTarget = {
    .name = "tensor_cache", .run = run_tensor_cache, .limits = kLimits, .mutate = mutate_text};
const Target kMlfTarget = {.name = "mlf", .run = run_mlf, .limits = kPackedLimits, .mutate = mutate_text};
const Target kCartonTarget = {.name = "carton", .run = run_carton, .limits = kLimits, .mutate = mutate_text};
const Target kOllamaTarget = {.name = "ollama", .run = run_ollama, .limits = kLimits, .mutate = mutate_text};
const Target kPickleTarget = {.name = "pickle", .run = run_pickle, .limits = kPickleLimits};
const Target kPytorchLegacyTarget = {
    .name = "pytorch_legacy", .run = run_pytorch_legacy, .limits = kPickleLimits, .mutate = mutate_numbers};

}  // namespace weightfs::test
