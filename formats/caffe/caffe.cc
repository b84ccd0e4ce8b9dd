// Caffe's .caffemodel: a network with its weights, without a magic number. As caffe.proto, blob.cpp and
// upgrade_proto.cpp of BVLC Caffe 1.0 describe it.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "formats/caffe/fields.h"
#include "formats/caffe/net.h"
#include "formats/format.h"

namespace weightfs {
namespace caffe {
namespace {

constexpr std::string_view kSuffix = ".caffemodel";

// Fields of a network before its layers.
bool is_of_net(uint64_t tag) {
  switch (tag) {
    case net::kName:
    case net::kInput:
    case net::kInputShape:
    case varint(net::kInputDim):
    case bytes(net::kInputDim):
    case varint(5):  // force_backward
    case bytes(6):   // state
    case varint(7):  // debug_info
      return true;
    default:
      return false;
  }
}

// The structure as a text, beside the model. It may be missing.
Result<void> add_structure(const Container& container, Model& model) {
  if (container.folder == nullptr || !container.name.ends_with(kSuffix)) return {};
  const std::string name = container.name.substr(0, container.name.size() - kSuffix.size()) + ".prototxt";
  auto bytes = open_below(container, name);
  if (!bytes) return may_pass(bytes.error()) ? Result<void>(tl::unexpected(bytes.error())) : Result<void>();
  model.parts.push_back({.path = name, .source = Later<SourcePtr>::of(std::move(*bytes)), .is_structure = true});
  return {};
}

Result<Model> read(const Container& container) {
  Model model;
  Warnings warnings;
  TRY_VOID(read_net(container, model, warnings));
  model.format = "caffe";
  model.parts.push_back({container.name, Later<SourcePtr>::of(container.bytes)});
  TRY_VOID(add_structure(container, model));
  std::move(warnings).move_to(model);
  return model;
}

// Whether a message has a name and a type, as far as it is in `head`: those of a layer of today, or of one before 2015.
bool begins_layer(protobuf::Scanner& scanner, const protobuf::Range& range, uint64_t end, bool is_old) {
  bool has_name = false;
  const uint64_t last = std::min(range.end, end);
  for (uint64_t at = range.begin; at < last;) {
    const auto tag = scanner.number(at, last, protobuf::WireType::varint);
    const auto value = tag ? scanner.number(at, last, protobuf::WireType::varint) : tag;
    if (!value) return false;
    const bool is_varint = (*tag & 7) == 0;
    if (!is_varint && ((*tag & 7) != 2 || *value > range.end - at)) return false;
    if (is_old && (*tag == old_layer::kOldest || (*tag == old_layer::kType && has_name))) return true;
    if (!is_old && *tag == layer::kType && has_name) return true;
    has_name = has_name || *tag == (is_old ? old_layer::kName : layer::kName);
    if (!is_varint) at += *value;
  }
  return false;
}

}  // namespace
}  // namespace caffe

Match matches_caffe(const Probe& probe) {
  using protobuf::WireType;
  if (probe.name.ends_with(caffe::kSuffix)) return Match::maybe;
  const SourcePtr head = in_memory(std::string(probe.head));
  protobuf::Scanner scanner(*head, nullptr);
  const uint64_t end = probe.head.size();
  for (uint64_t at = 0; at < end;) {
    const auto tag = scanner.number(at, end, WireType::varint);
    const auto value = tag ? scanner.number(at, end, WireType::varint) : tag;
    if (!value) return Match::no;
    const bool is_message = (*tag & 7) == 2;
    if (is_message && *value > probe.size - at) return Match::no;
    if (*tag == caffe::net::kLayer || *tag == caffe::net::kOldLayers) {
      const bool is_old = *tag == caffe::net::kOldLayers;
      return caffe::begins_layer(scanner, {at, at + *value}, end, is_old) ? Match::maybe : Match::no;
    }
    if (!caffe::is_of_net(*tag)) return Match::no;
    if (is_message) at += *value;
  }
  return Match::no;
}

Result<Model> read_caffe(const Container& container) { return caffe::read(container); }

}  // namespace weightfs
