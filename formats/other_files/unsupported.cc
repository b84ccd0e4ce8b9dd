#include "formats/other_files/unsupported.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/other_files/pickles.h"
#include "formats/other_files/texts.h"

namespace weightfs::other_files {
namespace {

using namespace std::string_view_literals;

constexpr size_t kAtEnd = std::string_view::npos;

// A row: the bytes at a place, and a suffix of the name where these alone do not identify the format.
struct Known {
  std::string_view bytes;
  size_t at;
  std::string_view suffix;
  std::string_view what;
};

constexpr auto kModels = std::to_array<Known>({
    {"\x57\xFB\x80\x8B\x24\x75\x47\xDB"sv, kAtEnd, "", "the index of a TensorFlow checkpoint"},
    {"model_checkpoint_path:"sv, 0, "checkpoint", "the list of TensorFlow checkpoints"},
    {"{\"learner\""sv, 0, "", "an XGBoost model"},
    {"{L\0\0\0\0\0\0\0\x07learner"sv, 0, "", "an XGBoost model"},
    {"binf"sv, 0, "", "an XGBoost model"},
    {"tree\nversion="sv, 0, "", "a LightGBM model"},
    {"tree\r\nversion="sv, 0, "", "a LightGBM model"},
    {"CBM1"sv, 0, "", "a CatBoost model"},
    {"ftrt"sv, 0, "", "a TensorRT engine"},
    {"ptrt"sv, 0, "", "a TensorRT engine"},
    {"MSL1"sv, 4, "", "a MindSpore Lite model"},
    {"MSL2"sv, 4, "", "a MindSpore Lite model"},
    {"ORTM"sv, 4, "", "an ONNX Runtime model (.ort)"},
    {"PTMF"sv, 4, "", "a PyTorch Mobile model"},
    {"IMOD"sv, 0, "", "an Ascend model (.om)"},
    {"RKNN"sv, 0, "", "an RKNN model"},
    {"7767517"sv, 0, "", "the structure of an ncnn model (.param)"},
    {"\xDD\x85\x76\0"sv, 0, "", "the structure of an ncnn model (.param.bin)"},
    {"\x01HEF"sv, 0, "", "a Hailo model (.hef)"},
    {"24ka"sv, 0, "", "a llama2.c model"},
    {"B\0C\0N\0"sv, 0, "", "a CNTK model"},
    {"\x12\x01\0\0\0\0\0\0"sv, 0, "", "MXNet parameters"},
    {"\4\0\0\0\1\0\0\0"sv, 0, ".t7", "a Lua Torch model"},
    {"\0\0\0\0"sv, 0, ".weights", "Darknet weights"},
    {"\1\0\0\0"sv, 0, ".weights", "Darknet weights"},
    {"\2\0\0\0"sv, 0, ".weights", "Darknet weights"},
    {"[net]"sv, 0, ".cfg", "a Darknet configuration"},
    {""sv, 0, ".mnn", "an MNN model"},
    {""sv, 0, ".tmfile", "a Tengine model"},
    {""sv, 0, ".nb", "a Paddle Lite model"},
    {""sv, 0, ".nexa", "a NexaML model"},
    {""sv, 0, ".prototxt", "the structure of a Caffe model"},
    {""sv, 0, ".caffemodel", "a Caffe model"},
    {"\x12"sv, 0, ".pb", "a frozen graph of TensorFlow"},
    {"{"sv, 0, "_METADATA", "the metadata of an Orbax checkpoint"},
    {"\x08\x01\x12"sv, 0, "", "a TensorFlow SavedModel"},
    {""sv, 0, "saved_model.pb", "a TensorFlow SavedModel"},
});

constexpr auto kData = std::to_array<Known>({
    {"PAR1"sv, 0, "", "a Parquet table"},
    {"ARROW1"sv, 0, "", "an Arrow table"},
    {"FEA1"sv, 0, "", "a Feather table"},
    {"Obj\x01"sv, 0, "", "an Avro file"},
    {"SQLite format 3\0"sv, 0, "", "an SQLite database"},
    {"\xDE\xC0\xEF\xBE"sv, 16, "", "an LMDB database"},
});

// A message of protobuf that begins with a text or message as its field 1; what follows it.
struct FirstField {
  std::string_view value;
  std::string_view rest;
};
std::optional<FirstField> first_field(std::string_view bytes) {
  if (!bytes.starts_with('\x0A')) return std::nullopt;
  uint64_t length = 0;
  size_t at = 1;
  for (unsigned shift = 0; shift < 32 && at < bytes.size(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes[at++]);
    length |= uint64_t{byte & 0x7FU} << shift;
    if ((byte & 0x80) == 0)
      return FirstField{bytes.substr(at, length), bytes.substr(std::min(bytes.size(), at + length))};
  }
  return std::nullopt;
}

// NodeDef of a GraphDef: a name, then an operator.
// https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/framework/node_def.proto
bool is_frozen_graph(std::string_view begin) {
  const auto node = first_field(begin);
  const auto name = node ? first_field(node->value) : std::nullopt;
  if (!name || name->value.empty() || !is_visible_ascii(name->value)) return false;
  const std::string_view op = name->rest;
  return op.size() > 2 && op[0] == '\x12' && op[2] >= 'A' && op[2] <= 'Z';
}

// NetParameter: a name, then the layers. Field 100 is that of today.
// https://github.com/BVLC/caffe/blob/master/src/caffe/proto/caffe.proto
bool is_caffe(std::string_view begin) {
  const auto name = first_field(begin);
  return name && is_utf8(name->value) && name->rest.starts_with("\xA2\x06");
}

// The metadata that Ultralytics puts in front of an engine of TensorRT: their length, then JSON.
bool has_engine_after_json(std::string_view begin, uint64_t size) {
  if (begin.size() < 5 || begin[4] != '{') return false;
  const uint64_t length = little_endian(begin.substr(0, 4));
  return length < size && length + 4 < begin.size() &&
         (begin.substr(length + 4).starts_with("ftrt") || begin.substr(length + 4).starts_with("ptrt"));
}

// The version of the format, then the length and the text of the name of a Spec.
bool is_ctranslate2(std::string_view begin) {
  constexpr uint64_t kNewest = 100;
  if (begin.size() < 8 || little_endian(begin.substr(0, 4)) > kNewest) return false;
  const auto length = little_endian(begin.substr(4, 2));
  return begin.substr(6, length).ends_with("Spec\0"sv);
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

// "model.bin" beside "model.xml"
bool is_openvino_weights(const Container& container) {
  constexpr std::string_view kSuffix = ".bin";
  if (container.folder == nullptr || !container.name.ends_with(kSuffix)) return false;
  const auto stem = std::string_view(container.name).substr(0, container.name.size() - kSuffix.size());
  const auto structure = container.folder->open(fmt::format("{}.xml", stem));
  if (!structure) return false;
  constexpr uint64_t kShown = 512;
  const auto text = read_text(**structure, 0, std::min((*structure)->size(), kShown));
  return text && text->find("<net ") != text->npos;
}

bool matches(const Known& row, std::string_view name, std::string_view begin, std::string_view tail) {
  if (!name.ends_with(row.suffix)) return false;
  return row.at == kAtEnd ? tail.ends_with(row.bytes)
                          : row.at <= begin.size() && begin.substr(row.at).starts_with(row.bytes);
}

std::string_view model_format(const Container& container, std::string_view begin, std::string_view tail) {
  const std::string_view name = container.name;
  const auto* const row =
      std::ranges::find_if(kModels, [&](const Known& known) { return matches(known, name, begin, tail); });
  if (row != kModels.end()) return row->what;
  if (is_checkpoint_data(name)) return "the data of a TensorFlow checkpoint";
  if (is_caffe(begin)) return "a Caffe model";
  if (is_frozen_graph(begin)) return "a frozen graph of TensorFlow";
  if (has_engine_after_json(begin, container.bytes->size())) return "a TensorRT engine";
  if (is_ctranslate2(begin)) return "a CTranslate2 model";
  if (is_openvino_weights(container)) return "the weights of an OpenVINO model (.bin)";
  return "";
}

}  // namespace

std::optional<Error> unsupported(const Container& container, std::string_view begin, std::string_view tail) {
  if (const std::string_view what = model_format(container, begin, tail); !what.empty())
    return other(fmt::format("{}: not supported", what));
  if (const auto pickle = identify_pickle(begin)) return other(fmt::format("{}: not supported", *pickle));
  const auto* const row =
      std::ranges::find_if(kData, [&](const Known& known) { return matches(known, container.name, begin, tail); });
  if (row != kData.end()) return other(fmt::format("{}, not a model", row->what), "data");
  if (is_tfrecord(begin, container.name, container.bytes->size())) return other("TFRecord data, not a model", "data");
  return std::nullopt;
}

}  // namespace weightfs::other_files
