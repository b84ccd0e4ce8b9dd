#include "formats/other_files/unsupported.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/other_files/companions.h"
#include "formats/other_files/texts.h"

namespace weightfs::other_files {
namespace {

using namespace std::string_view_literals;

// A row: the bytes at a place, and a suffix of the name where these alone do not identify the format.
struct Known {
  std::string_view bytes;
  size_t at;
  std::string_view suffix;
  std::string_view what;
  std::string_view advice = {};
};

constexpr std::string_view kCompiled = "it is compiled for one device; open the model that it was built from";
constexpr std::string_view kConverted =
    "its weights are compressed in a way of its own; open the model that it was "
    "converted from";
constexpr std::string_view kTrees = "it has decision trees, not tensors";
constexpr std::string_view kKaldi = "convert it with Kaldi's nnet3-copy, or to ONNX";
constexpr std::string_view kExport = "export it with the library that wrote it, for example as safetensors";

constexpr auto kModels = std::to_array<Known>({
    {"model_checkpoint_path:"sv, 0, "checkpoint", "the list of TensorFlow checkpoints"},
    {"bs64\t"sv, 0, "", "an XGBoost model in base64"},
    {"CBM1"sv, 0, "", "a CatBoost model", kTrees},
    {"ftrt"sv, 0, "", "a TensorRT engine", kCompiled},
    {"ptrt"sv, 0, "", "a TensorRT engine", kCompiled},
    {"MSL1"sv, 4, "", "a MindSpore Lite model"},
    {"MSL2"sv, 4, "", "a MindSpore Lite model"},
    {"PTMF"sv, 4, "", "a PyTorch Mobile model"},
    {"IMOD"sv, 0, "", "an Ascend model (.om)"},
    {"RKNN"sv, 0, "", "an RKNN model"},
    {"\xDD\x85\x76\0"sv, 0, "", "the structure of an ncnn model (.param.bin)"},
    {"\x01HEF"sv, 0, "", "a Hailo model (.hef)"},
    {"24ka"sv, 0, "", "a llama2.c model"},
    {"B\0C\0N\0"sv, 0, "", "a CNTK model"},
    {"\4\0\0\0\1\0\0\0"sv, 0, ".t7", "a Lua Torch model"},
    {""sv, 0, ".mnn", "an MNN model", kConverted},
    {""sv, 0, ".tmfile", "a Tengine model"},
    {""sv, 0, ".nb", "a Paddle Lite model"},
    {""sv, 0, ".nexa", "a NexaML model"},
    {""sv, 0, ".pbtxt", "a graph of TensorFlow as text (.pbtxt)"},
    {"LITERTLM"sv, 0, "", "a LiteRT-LM bundle (.litertlm)", "its TFLite models cannot be taken out"},
    {"\0B<TransitionModel>"sv, 0, "", "a Kaldi model", kKaldi},
    {"\0B<Nnet"sv, 0, "", "a Kaldi model", kKaldi},
    {"<TransitionModel>"sv, 0, "", "a Kaldi model", kKaldi},
    {"<Nnet"sv, 0, "", "a Kaldi model", kKaldi},
    {"\x0C\xDB\x3A\x2A"sv, 0, "", "a file of an OCDBT database, in which Orbax stores checkpoints", kExport},
    {"{"sv, 0, "_METADATA", "the metadata of an Orbax checkpoint", kExport},
});

constexpr auto kData = std::to_array<Known>({
    {"PAR1"sv, 0, "", "a Parquet table"},
    {"ARROW1"sv, 0, "", "an Arrow table"},
    {"FEA1"sv, 0, "", "a Feather table"},
    {"Obj\x01"sv, 0, "", "an Avro file"},
    {"SQLite format 3\0"sv, 0, "", "an SQLite database"},
    {"\xDE\xC0\xEF\xBE"sv, 16, "", "an LMDB database"},
});

// The metadata that Ultralytics puts in front of an engine of TensorRT: their length, then JSON.
bool has_engine_after_json(std::string_view begin, uint64_t size) {
  if (begin.size() < 5 || begin[4] != '{') return false;
  const uint64_t length = little_endian(begin.substr(0, 4));
  return length < size && length + 4 < begin.size() &&
         (begin.substr(length + 4).starts_with("ftrt") || begin.substr(length + 4).starts_with("ptrt"));
}

// The length of the first record, whose CRC follows; the name tells, because any number may be the length.
bool is_tfrecord(std::string_view begin, std::string_view name, uint64_t size) {
  if (begin.size() < 16 || name.find(".tfrecord") == name.npos) return false;
  return little_endian(begin.substr(0, 8)) <= size - 16;
}

// "model.ckpt.data-00000-of-00001"
bool is_checkpoint_data(std::string_view name) {
  const size_t at = name.rfind(".data-");
  return at != name.npos && name.size() == at + 20 && name.substr(at + 11, 4) == "-of-";
}

bool matches(const Known& row, std::string_view name, std::string_view begin) {
  return name.ends_with(row.suffix) && row.at <= begin.size() && begin.substr(row.at).starts_with(row.bytes);
}

}  // namespace

std::optional<Error> unsupported(const Container& container, std::string_view begin) {
  if (is_checkpoint_data(container.name)) return other("the data of a TensorFlow checkpoint; open its .index");
  if (auto found = companion(container, begin)) return found;
  const auto refused = [](std::string_view what, std::string_view advice) {
    return other(fmt::format("{}: not supported{}{}", what, advice.empty() ? "" : "; ", advice));
  };
  const auto* const model =
      std::ranges::find_if(kModels, [&](const Known& known) { return matches(known, container.name, begin); });
  if (model != kModels.end()) return refused(model->what, model->advice);
  if (has_engine_after_json(begin, container.bytes->size())) return refused("a TensorRT engine", kCompiled);
  const auto* const row =
      std::ranges::find_if(kData, [&](const Known& known) { return matches(known, container.name, begin); });
  if (row != kData.end()) return other(fmt::format("{}, not a model", row->what), "data");
  if (is_tfrecord(begin, container.name, container.bytes->size())) return other("TFRecord data, not a model", "data");
  return std::nullopt;
}

}  // namespace weightfs::other_files
