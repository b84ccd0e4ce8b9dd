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

// Digests need not match, so that mutated manifests and layers are read; compressed ones are compared while decoded.
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

void run_bintensors(std::string_view input) {
  const Container container = parse_input(input).named("m.bt");
  for (const char* layout : {"bintensors", "bintensors-release", "bintensors-legacy"}) read_checked(container, layout);
}
void run_nnef(std::string_view input) {
  const bool is_file = input.starts_with("\x4E\xEF");
  read_checked(parse_input(input).named(is_file ? "w.dat" : "m.tar"), is_file ? "nnef-tensor" : "nnef");
}

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
void run_numpy(std::string_view input) {
  const bool is_zip = input.starts_with("PK");
  read_checked(parse_input(input).named(is_zip ? "m.npz" : "m.npy"), is_zip ? "npz" : "npy");
}
void run_pickle(std::string_view input) {
  PytorchBuilder storages;
  storages.bytes(std::string(64, 's'));
  storages.bytes("short");
  const std::string zip = storages.members_of(input).build();
  read_checked(parse_input(zip).named("m.pt"), "pytorch");
}
// Arrays of joblib have files beside the pickle.

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

// A chunk of up to 16 MiB is decoded in memory, whatever the size of the file.
constexpr Limits kChunkLimits = {
    .memory = 100'000'000, .memory_per_byte = 500, .read_per_byte = 64, .time = 500'000'000};
// A zip with an HDF5 file in it.
constexpr Limits kKerasLimits = {
    .memory = 100'000'000, .memory_per_byte = 2'000, .read = 300'000, .read_per_byte = 128};
// A tar, which may be compressed, with a pickle in a zip in it.
constexpr Limits kNemoLimits = {
    .memory = 180'000'000, .memory_per_byte = 1'000, .read_per_byte = 64, .time = 4'000'000'000};
// A pickle, and zips beside it.
constexpr Limits kDcpLimits = {
    .memory = 180'000'000, .memory_per_byte = 1'000, .read = 300'000, .read_per_byte = 128, .time = 4'000'000'000};

constexpr std::array kModelTargets = {
    Target{.name = "gguf", .reads = {"m-00001-of-00003.gguf", "gguf"}, .limits = kLimits, .mutate = mutate_numbers},
    Target{.name = "rten", .reads = {"m.rten", "rten"}, .limits = kSharedLimits, .mutate = mutate_flatbuffer},
    Target{.name = "tflite", .reads = {"m.tflite", "tflite"}, .limits = kSharedLimits, .mutate = mutate_flatbuffer},
    Target{
        .name = "executorch", .reads = {"m.ptd", "executorch"}, .limits = kSharedLimits, .mutate = mutate_flatbuffer},
    Target{.name = "hdf5", .run = run_hdf5, .limits = kChunkLimits, .mutate = mutate_numbers, .repair = repair_hdf5},
    Target{.name = "keras",
           .reads = {"m.keras", "keras"},
           .limits = kKerasLimits,
           .mutate = mutate_zip,
           .repair = repair_zip},
    Target{
        .name = "nemo", .reads = {"m.nemo", "nemo"}, .limits = kNemoLimits, .mutate = mutate_tar, .repair = repair_tar},
    Target{.name = "oci", .run = run_oci, .limits = kNemoLimits, .mutate = mutate_text},
    Target{.name = "oci_layout",
           .reads = {"m.tar", "oci-layout"},
           .limits = kNemoLimits,
           .mutate = mutate_tar,
           .repair = repair_tar},
    Target{.name = "keras_sharded",
           .reads = {"m.weights.json", "keras-sharded"},
           .limits = kLimits,
           .mutate = mutate_text},
    Target{
        .name = "safetensors", .reads = {"m.safetensors", "safetensors"}, .limits = kLimits, .mutate = mutate_headed},
    Target{.name = "safetensors_index",
           .reads = {"m.safetensors.index.json", "safetensors-index"},
           .limits = kLimits,
           .mutate = mutate_text},
    Target{.name = "bintensors", .run = run_bintensors, .limits = kLimits, .mutate = mutate_headed},
    Target{.name = "onnx", .reads = {"m.onnx", "onnx"}, .limits = kNestedLimits, .mutate = mutate_protobuf},
    Target{.name = "coreml", .reads = {"m.mlmodel", "coreml"}, .limits = kNestedLimits, .mutate = mutate_protobuf},
    Target{.name = "paddle", .reads = {"m.pdiparams", "paddle"}, .limits = kLimits, .mutate = mutate_numbers},
    Target{.name = "ort", .reads = {"m.ort", "ort"}, .limits = kSharedLimits, .mutate = mutate_flatbuffer},
    Target{.name = "ncnn", .reads = {"m.param", "ncnn"}, .limits = kLimits, .mutate = mutate_text},
    Target{.name = "darknet", .reads = {"m.weights", "darknet"}, .limits = kLimits, .mutate = mutate_text},
    Target{.name = "ctranslate2", .reads = {"model.bin", "ctranslate2"}, .limits = kLimits, .mutate = mutate_numbers},
    Target{.name = "nnef", .run = run_nnef, .limits = kNemoLimits, .mutate = mutate_tar, .repair = repair_tar},
    Target{.name = "xgboost",
           .run = [](std::string_view input) { run_trees(input, "xgboost"); },
           .limits = kLimits,
           .mutate = mutate_text},
    Target{.name = "lightgbm",
           .run = [](std::string_view input) { run_trees(input, "lightgbm"); },
           .limits = kLimits,
           .mutate = mutate_text},
    Target{.name = "openvino", .reads = {"m.xml", "openvino"}, .limits = kLimits, .mutate = mutate_text},
    Target{.name = "caffe", .reads = {"m.caffemodel", "caffe"}, .limits = kNestedLimits, .mutate = mutate_protobuf},
    Target{.name = "tfjs", .reads = {"model.json", "tfjs"}, .limits = kLimits, .mutate = mutate_text},
    Target{.name = "mxnet", .reads = {"m.params", "mxnet"}, .limits = kLimits, .mutate = mutate_numbers},
    Target{.name = "mindspore", .reads = {"m.ckpt", "mindspore"}, .limits = kLimits, .mutate = mutate_protobuf},
    Target{.name = "tvm_params", .reads = {"m.params", "tvm-params"}, .limits = kLimits, .mutate = mutate_numbers},
    Target{.name = "ggml", .reads = {"ggml-m.bin", "ggml"}, .limits = kLimits, .mutate = mutate_numbers},
    Target{.name = "flax", .reads = {"m.msgpack", "flax"}, .limits = kLimits, .mutate = mutate_numbers},
    Target{.name = "numpy", .run = run_numpy, .limits = kZippedLimits, .mutate = mutate_any, .repair = repair_any},
    Target{.name = "dduf",
           .reads = {"m.dduf", "dduf"},
           .limits = kZippedLimits,
           .mutate = mutate_zip,
           .repair = repair_zip},
    Target{.name = "llamafile",
           .reads = {"m.llamafile", "llamafile"},
           .limits = kZippedLimits,
           .mutate = mutate_zip,
           .repair = repair_zip},
    Target{.name = "tensor_cache",
           .reads = {"tensor-cache.json", "tensor-cache"},
           .limits = kLimits,
           .mutate = mutate_text},
    Target{.name = "mlf", .reads = {"metadata.json", "tvm-mlf"}, .limits = kPackedLimits, .mutate = mutate_text},
    Target{.name = "carton", .reads = {"carton.toml", "carton"}, .limits = kLimits, .mutate = mutate_text},
    Target{.name = "ollama", .reads = {"latest", "ollama"}, .limits = kManifestLimits, .mutate = mutate_text},
    Target{.name = "python", .reads = {"m.pkl", "pickle"}, .limits = kPickleLimits},
    Target{.name = "pickle", .run = run_pickle, .limits = kPickleLimits},
    Target{.name = "pytorch_legacy",
           .reads = {"m.pt", "pytorch-legacy"},
           .limits = kPickleLimits,
           .mutate = mutate_numbers},
    Target{.name = "dcp", .reads = {".metadata", "dcp"}, .limits = kDcpLimits},
    Target{
        .name = "pt2", .reads = {"m.pt2", "pt2"}, .limits = kZippedLimits, .mutate = mutate_zip, .repair = repair_zip},
};

}  // namespace

std::span<const Target> model_targets() { return kModelTargets; }

}  // namespace weightfs::test
