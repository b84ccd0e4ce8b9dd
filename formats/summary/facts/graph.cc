#include "formats/summary/facts/graph.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "formats/format.h"
#include "formats/summary/fields.h"

namespace weightfs::summary {
namespace {

constexpr size_t kMaxEnds = 1000;
constexpr size_t kMaxOperators = 1000;

std::string size_text(const Value& size) {
  const auto* const name = std::get_if<std::string>(&size);
  if (name != nullptr) return name->empty() ? "?" : *name;
  const auto* const number = std::get_if<int64_t>(&size);
  return number != nullptr && *number < 0 ? "?" : to_json_line(size);
}

// "image float32 [batch,3,224,224]"
std::string end_text(const Map& end) {
  std::string out(text_in(end, "name"));
  if (const std::string_view dtype = text_in(end, "dtype"); !dtype.empty()) out += fmt::format(" {}", dtype);
  const auto* const shape = end.find_as<List>("shape");
  if (shape == nullptr) return out;
  std::string sizes;
  for (const Value& size : *shape) sizes += (sizes.empty() ? "" : ",") + size_text(size);
  return fmt::format("{} [{}]", out, sizes);
}

std::vector<std::string> ends_in(const Map& metadata, std::string_view key) {
  std::vector<std::string> out;
  const auto* const list = metadata.find_as<List>(key);
  for (const Value& end : list == nullptr ? List() : *list)
    if (const auto* const map = std::get_if<Map>(&end); map != nullptr && out.size() < kMaxEnds)
      out.push_back(end_text(*map));
  return out;
}

void add_operators(const Map& counts, Summary& out) {
  for (const auto& [name, value] : counts)
    if (const Number count = number_of(value)) out.operators.push_back({name, *count});
  std::ranges::sort(out.operators, [](const Operator& a, const Operator& b) {
    return a.count != b.count ? a.count > b.count : a.name < b.name;
  });
  if (out.operators.size() > kMaxOperators) out.operators.resize(kMaxOperators);
}

// The opset of ONNX itself, then those of other domains.
std::string opset_text(const Map& opsets) {
  std::string out;
  for (const auto& [domain, value] : opsets) {
    const Number version = number_of(value);
    if (!version) continue;
    const bool is_own = domain.empty() || domain == "ai.onnx";
    const std::string text = is_own ? fmt::format("{}", *version) : fmt::format("{} {}", domain, *version);
    out = out.empty() ? text : is_own ? fmt::format("{}, {}", text, out) : fmt::format("{}, {}", out, text);
    if (out.size() > 200) break;
  }
  return out;
}

// ExecuTorch: delegates have weights of their own, which are not visible.
void describe_methods(const Map& metadata, Summary& out) {
  const auto* const methods = metadata.find_as<List>("methods");
  for (const Value& value : methods == nullptr ? List() : *methods) {
    const auto* const method = std::get_if<Map>(&value);
    const auto* const delegates = method == nullptr ? nullptr : method->find_as<List>("delegates");
    for (const Value& delegate : delegates == nullptr ? List() : *delegates) {
      const auto* const name = std::get_if<std::string>(&delegate);
      const auto* const entry = std::get_if<Map>(&delegate);
      const std::string_view id = name != nullptr    ? std::string_view(*name)
                                  : entry != nullptr ? text_in(*entry, "id")
                                                     : "";
      if (!id.empty() && out.delegates.size() < 200 && out.delegates.find(id) == std::string::npos)
        out.delegates += fmt::format("{}{}", out.delegates.empty() ? "" : ", ", id);
    }
  }
}

}  // namespace

bool is_graph_format(const Model& model) {
  if (traits_of(model.format).content == Traits::graph) return true;
  const auto* const facts = model.metadata.find_as<Map>("pytorch");
  const auto* const is_script = facts == nullptr ? nullptr : facts->find_as<bool>("torchscript");
  return is_script != nullptr && *is_script;
}

void describe_graph(const Model& model, Summary& out) {
  const Map& metadata = model.metadata;
  out.inputs = ends_in(metadata, "inputs");
  out.outputs = ends_in(metadata, "outputs");
  for (const char* const key : {"operators", "operations"})
    if (const auto* const counts = metadata.find_as<Map>(key)) add_operators(*counts, out);
  if (const auto* const opsets = metadata.find_as<Map>("opset_import")) out.opset = opset_text(*opsets);
  out.producer = text_in(metadata, "producer_name");
  if (const std::string_view version = text_in(metadata, "producer_version"); !out.producer.empty() && !version.empty())
    out.producer += fmt::format(" {}", version);
  describe_methods(metadata, out);
}

}  // namespace weightfs::summary
