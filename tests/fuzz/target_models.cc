// Targets of the model readers: each format by itself, as a container in memory with files beside it.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "formats/format.h"
#include "formats/hdf5/fields.h"
#include "tests/builders/pickle_builder.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"

namespace weightfs::test {
namespace {

void run_gguf(std::string_view input) { read_checked(parse_input(input).named("m-00001-of-00003.gguf"), "gguf"); }
void run_rten(std::string_view input) { read_checked(parse_input(input).named("m.rten"), "rten"); }
void run_tflite(std::string_view input) { read_checked(parse_input(input).named("m.tflite"), "tflite"); }
void run_executorch(std::string_view input) { read_checked(parse_input(input).named("m.ptd"), "executorch"); }

// Chunks and texts are decoded when they are read, so some tensors are read, too.
void run_hdf5(std::string_view input) {
  constexpr size_t kMaxRead = 4;
  const Container container = parse_input(input).named("m.h5");
  read_checked(container, "hdf5");
  const auto model = read_model(container, format_named("hdf5"));
  if (!model) return;
  const auto check = [](const Error& error) {
    if (!is_about_the_bytes(error)) complain("read as no bytes can be: " + error.message);
  };
  std::array<std::byte, 4096> buffer;
  for (size_t i = 0; i < std::min(kMaxRead, model->tensors.size()); ++i) {
    const Slice source = model->tensors[i].source;
    for (const uint64_t offset : {uint64_t{0}, source.size() - std::min<uint64_t>(source.size(), 100)})
      if (const auto got = source.read(offset, buffer); !got) check(got.error());
  }
  for (const auto& [place, texts] : model->per_tensor->strings)
    if (const auto got = texts.get(); !got) check(got.error());
}

// Corrects the checksums of metadata blocks whose size is in their first bytes.
void repair_hdf5(std::string& input) {
  const auto correct = [&](size_t at, size_t size) {
    if (size < 4 || size > input.size() - at) return;
    const uint32_t sum = hdf5::lookup3(std::string_view(input).substr(at, size - 4));
    for (size_t i = 0; i < 4; ++i) input[at + size - 4 + i] = static_cast<char>(sum >> 8 * i & 0xFF);
  };
  if (input.size() > 48 && input.starts_with("\x89HDF\r\n\x1A\n") && input[8] >= 2) correct(0, 48);
  constexpr std::array<std::pair<std::string_view, size_t>, 5> kFixed = {
      {{"FRHP", 146}, {"BTHD", 38}, {"FAHD", 28}, {"EAHD", 72}, {"OHDR", 0}}};
  for (const auto& [signature, size] : kFixed)
    for (size_t at = input.find(signature); at != input.npos; at = input.find(signature, at + 4)) {
      const bool short_header = size == 0 && at + 10 <= input.size() && input[at + 5] == 2;
      const uint64_t claimed = short_header ? little_endian(std::string_view(input).substr(at + 6, 4)) : 0;
      correct(at, size == 0 ? (short_header ? claimed + 14 : 0) : size);
    }
}

void run_keras(std::string_view input) { read_checked(parse_input(input).named("m.keras"), "keras"); }
void run_nemo(std::string_view input) { read_checked(parse_input(input).named("m.nemo"), "nemo"); }
void run_oci_layout(std::string_view input) { read_checked(parse_input(input).named("m.tar"), "oci-layout"); }

// Digests need not match, so that mutated manifests and layers are read.
class TrustingBlobs final : public Blobs {
 public:
  SourcePtr blob(BlobProducer producer) override { return uncached_blobs()->blob(std::move(producer)); }
  Result<SourcePtr> materialize(BlobProducer producer) override {
    return uncached_blobs()->materialize(std::move(producer));
  }
  Result<ResolvedBlob> resolve(const BlobRef& ref) override {
    const SourcePtr bytes = TRY(ref.local_copy());
    if (ref.size && bytes->size() != *ref.size) return failure(Code::corrupt, ref.name + ": another size");
    return ResolvedBlob{bytes, bytes};
  }
};

void run_oci(std::string_view input) {
  Container container = parse_input(input).named("manifest");
  container.blobs = std::make_shared<TrustingBlobs>();
  read_checked(container, "oci");
}

void run_keras_sharded(std::string_view input) {
  read_checked(parse_input(input).named("m.weights.json"), "keras-sharded");
}
void run_safetensors(std::string_view input) { read_checked(parse_input(input).named("m.safetensors"), "safetensors"); }
void run_index(std::string_view input) {
  read_checked(parse_input(input).named("m.safetensors.index.json"), "safetensors-index");
}
void run_bintensors(std::string_view input) {
  const Container container = parse_input(input).named("m.bt");
  for (const char* layout : {"bintensors", "bintensors-release", "bintensors-legacy"}) read_checked(container, layout);
}
void run_onnx(std::string_view input) { read_checked(parse_input(input).named("m.onnx"), "onnx"); }
void run_coreml(std::string_view input) { read_checked(parse_input(input).named("m.mlmodel"), "coreml"); }
void run_paddle(std::string_view input) { read_checked(parse_input(input).named("m.pdiparams"), "paddle"); }
void run_ort(std::string_view input) { read_checked(parse_input(input).named("m.ort"), "ort"); }
void run_ncnn(std::string_view input) { read_checked(parse_input(input).named("m.param"), "ncnn"); }
void run_ctranslate2(std::string_view input) { read_checked(parse_input(input).named("model.bin"), "ctranslate2"); }
void run_nnef(std::string_view input) {
  const bool is_file = input.starts_with("\x4E\xEF");
  read_checked(parse_input(input).named(is_file ? "w.dat" : "m.tar"), is_file ? "nnef-tensor" : "nnef");
}
void run_darknet(std::string_view input) { read_checked(parse_input(input).named("m.weights"), "darknet"); }

// Numbers are converted when they are read, so the first and last of some arrays are read, too.
void run_trees(std::string_view input, std::string_view format) {
  constexpr size_t kMaxRead = 8;
  const Container container = parse_input(input).named("m.json");
  read_checked(container, format);
  const auto model = read_model(container, format_named(format));
  if (!model) return;
  std::array<std::byte, 256> buffer;
  for (size_t i = 0; i < std::min(kMaxRead, model->tensors.size()); ++i) {
    const Slice source = model->tensors[i].source;
    if (source.refused()) continue;
    for (const uint64_t offset : {uint64_t{0}, source.size() - std::min<uint64_t>(source.size(), 100)})
      if (const auto got = source.read(offset, buffer); !got)
        complain("an array cannot be read: " + got.error().message);
  }
  for (const Document& document : model->documents)
    if (const auto text = document.source.get(); !text && !is_about_the_bytes(text.error()))
      complain("a document cannot be read: " + text.error().message);
}
void run_xgboost(std::string_view input) { run_trees(input, "xgboost"); }
void run_lightgbm(std::string_view input) { run_trees(input, "lightgbm"); }
void run_openvino(std::string_view input) { read_checked(parse_input(input).named("m.xml"), "openvino"); }
void run_caffe(std::string_view input) { read_checked(parse_input(input).named("m.caffemodel"), "caffe"); }
void run_dcp(std::string_view input) { read_checked(parse_input(input).named(".metadata"), "dcp"); }
void run_pt2(std::string_view input) { read_checked(parse_input(input).named("m.pt2"), "pt2"); }
void run_tfjs(std::string_view input) { read_checked(parse_input(input).named("model.json"), "tfjs"); }
void run_mxnet(std::string_view input) { read_checked(parse_input(input).named("m.params"), "mxnet"); }
void run_mindspore(std::string_view input) { read_checked(parse_input(input).named("m.ckpt"), "mindspore"); }
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
// Arrays of joblib have files beside the pickle.
void run_python(std::string_view input) { read_checked(parse_input(input).named("m.pkl"), "pickle"); }
void run_pytorch_legacy(std::string_view input) { read_checked(parse_input(input).named("m.pt"), "pytorch-legacy"); }
void run_ollama(std::string_view input) { read_checked(parse_input(input).named("latest"), "ollama"); }

constexpr Limits kLimits = {.memory = 400'000, .memory_per_byte = 500, .read_per_byte = 32};
// The shortest layer of a manifest, "{},", takes 2 kB; the budget bounds all of them.
constexpr Limits kManifestLimits = {.memory = 400'000, .memory_per_byte = 700, .read_per_byte = 32};
// A window of zstd takes up to 8 MiB of memory.
constexpr Limits kPackedLimits = {.memory = 12'000'000, .memory_per_byte = 500, .read_per_byte = 32};
// A window of zstd, and members of a zip, which may share models.
constexpr Limits kZippedLimits = {.memory = 12'000'000, .memory_per_byte = 2'000, .read = 300'000, .read_per_byte = 64};
// Tables of a FlatBuffer may share others, each of which is read for every table.
constexpr Limits kSharedLimits = {.memory = 400'000, .memory_per_byte = 2'000, .read_per_byte = 32};
// Values of a pickle may be shared: a few hundred bytes can use all of a container's budget.
constexpr Limits kPickleLimits = {
    .memory = 80'000'000, .memory_per_byte = 500, .read_per_byte = 32, .time = 4'000'000'000};

// A message is read again for each level around it that is read in passes.
constexpr Limits kNestedLimits = {
    .memory = 400'000, .memory_per_byte = 500, .read = 200'000, .read_per_byte = 600, .time_per_byte = 60'000};

}  // namespace

const Target kGgufTarget = {.name = "gguf", .run = run_gguf, .limits = kLimits, .mutate = mutate_numbers};
const Target kRtenTarget = {.name = "rten", .run = run_rten, .limits = kSharedLimits, .mutate = mutate_flatbuffer};
const Target kTfliteTarget = {
    .name = "tflite", .run = run_tflite, .limits = kSharedLimits, .mutate = mutate_flatbuffer};
const Target kExecutorchTarget = {
    .name = "executorch", .run = run_executorch, .limits = kSharedLimits, .mutate = mutate_flatbuffer};
// A chunk of up to 16 MiB is decoded in memory, whatever the size of the file.
constexpr Limits kChunkLimits = {
    .memory = 100'000'000, .memory_per_byte = 500, .read_per_byte = 64, .time = 500'000'000};
const Target kHdf5Target = {
    .name = "hdf5", .run = run_hdf5, .limits = kChunkLimits, .mutate = mutate_numbers, .repair = repair_hdf5};
// A zip with an HDF5 file in it.
constexpr Limits kKerasLimits = {
    .memory = 100'000'000, .memory_per_byte = 2'000, .read = 300'000, .read_per_byte = 128};
const Target kKerasTarget = {
    .name = "keras", .run = run_keras, .limits = kKerasLimits, .mutate = mutate_zip, .repair = repair_zip};
// A tar, which may be compressed, with a pickle in a zip in it.
constexpr Limits kNemoLimits = {
    .memory = 180'000'000, .memory_per_byte = 1'000, .read_per_byte = 64, .time = 4'000'000'000};
const Target kNemoTarget = {
    .name = "nemo", .run = run_nemo, .limits = kNemoLimits, .mutate = mutate_tar, .repair = repair_tar};
const Target kOciTarget = {.name = "oci", .run = run_oci, .limits = kNemoLimits, .mutate = mutate_text};
const Target kOciLayoutTarget = {
    .name = "oci_layout", .run = run_oci_layout, .limits = kNemoLimits, .mutate = mutate_tar, .repair = repair_tar};
const Target kKerasShardedTarget = {
    .name = "keras_sharded", .run = run_keras_sharded, .limits = kLimits, .mutate = mutate_text};
const Target kSafetensorsTarget = {
    .name = "safetensors", .run = run_safetensors, .limits = kLimits, .mutate = mutate_headed};
const Target kSafetensorsIndexTarget = {
    .name = "safetensors_index", .run = run_index, .limits = kLimits, .mutate = mutate_text};
const Target kBintensorsTarget = {
    .name = "bintensors", .run = run_bintensors, .limits = kLimits, .mutate = mutate_headed};
const Target kOnnxTarget = {.name = "onnx", .run = run_onnx, .limits = kNestedLimits, .mutate = mutate_protobuf};
const Target kCoremlTarget = {.name = "coreml", .run = run_coreml, .limits = kNestedLimits, .mutate = mutate_protobuf};
const Target kPaddleTarget = {.name = "paddle", .run = run_paddle, .limits = kLimits, .mutate = mutate_numbers};
const Target kOrtTarget = {.name = "ort", .run = run_ort, .limits = kSharedLimits, .mutate = mutate_flatbuffer};
const Target kNcnnTarget = {.name = "ncnn", .run = run_ncnn, .limits = kLimits, .mutate = mutate_text};
const Target kDarknetTarget = {.name = "darknet", .run = run_darknet, .limits = kLimits, .mutate = mutate_text};
const Target kCtranslate2Target = {
    .name = "ctranslate2", .run = run_ctranslate2, .limits = kLimits, .mutate = mutate_numbers};
const Target kNnefTarget = {
    .name = "nnef", .run = run_nnef, .limits = kNemoLimits, .mutate = mutate_tar, .repair = repair_tar};
const Target kXgboostTarget = {.name = "xgboost", .run = run_xgboost, .limits = kLimits, .mutate = mutate_text};
const Target kLightgbmTarget = {.name = "lightgbm", .run = run_lightgbm, .limits = kLimits, .mutate = mutate_text};
const Target kOpenvinoTarget = {.name = "openvino", .run = run_openvino, .limits = kLimits, .mutate = mutate_text};
const Target kCaffeTarget = {.name = "caffe", .run = run_caffe, .limits = kNestedLimits, .mutate = mutate_protobuf};
const Target kTfjsTarget = {.name = "tfjs", .run = run_tfjs, .limits = kLimits, .mutate = mutate_text};
const Target kMxnetTarget = {.name = "mxnet", .run = run_mxnet, .limits = kLimits, .mutate = mutate_numbers};
const Target kMindsporeTarget = {
    .name = "mindspore", .run = run_mindspore, .limits = kLimits, .mutate = mutate_protobuf};
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
const Target kOllamaTarget = {.name = "ollama", .run = run_ollama, .limits = kManifestLimits, .mutate = mutate_text};
const Target kPythonTarget = {.name = "python", .run = run_python, .limits = kPickleLimits};
const Target kPickleTarget = {.name = "pickle", .run = run_pickle, .limits = kPickleLimits};
const Target kPytorchLegacyTarget = {
    .name = "pytorch_legacy", .run = run_pytorch_legacy, .limits = kPickleLimits, .mutate = mutate_numbers};

// A pickle, and zips beside it.
constexpr Limits kDcpLimits = {
    .memory = 180'000'000, .memory_per_byte = 1'000, .read = 300'000, .read_per_byte = 128, .time = 4'000'000'000};
const Target kDcpTarget = {.name = "dcp", .run = run_dcp, .limits = kDcpLimits};
const Target kPt2Target = {
    .name = "pt2", .run = run_pt2, .limits = kZippedLimits, .mutate = mutate_zip, .repair = repair_zip};

}  // namespace weightfs::test
