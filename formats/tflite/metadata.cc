#include "formats/tflite/metadata.h"

#include <fmt/core.h>

#include <map>

#include "base/text.h"
#include "formats/code/operators.h"
#include "formats/common/limits.h"
#include "formats/tflite/types.h"

namespace weightfs::tflite {
namespace {

using flatbuffer::Slot;
using flatbuffer::Table;

// A named buffer up to this size is shown as text if it is one.
constexpr uint64_t kMaxText = 4096;

// The maximum length of the description of a model.
constexpr uint64_t kMaxDescription = uint64_t{1} << 20;

// The maximum size of names and shapes of inputs and outputs in metadata.json; larger ones are only in graph.json.
constexpr size_t kMaxEnds = size_t{1} << 16;

class MetadataReader {
 public:
  MetadataReader(Model& model, const File& file, const std::vector<std::string>& operators, Budget& budget,
                 Warnings& warnings)
      : model_(model), file_(file), operators_(operators), budget_(budget), warnings_(warnings) {}

  Result<void> add_all() {
    Map& metadata = model_.metadata;
    const auto version = TRY(file_.model.number<uint32_t>(0));
    metadata.append("schema_version", version);
    std::string description = TRY(file_.model.text(3, kMaxDescription));
    TRY_VOID(kept(description));
    if (!description.empty()) model_.common.append("description", std::move(description));
    metadata.append("subgraphs", file_.subgraphs.size());
    metadata.append("buffers", file_.buffers.size());
    TRY_VOID(add(metadata, "operators", operators()));
    if (file_.subgraphs.size() > 0) {
      const Graph main = TRY(read_graph(file_, 0));
      TRY_VOID(add(metadata, "inputs", ends(main, main.inputs)));
      TRY_VOID(add(metadata, "outputs", ends(main, main.outputs)));
    }
    if (const auto signatures = TRY(file_.model.tables(7)); signatures.size() > 0)
      TRY_VOID(add(metadata, "signatures", signatures_of(signatures)));
    if (const auto entries = TRY(file_.model.tables(6)); entries.size() > 0)
      TRY_VOID(add(metadata, "entries", named_buffers(entries)));
    return {};
  }

 private:
  template <class T>
  static Result<void> add(Map& map, const char* key, Result<T> value) {
    return std::move(value).map([&](T found) { map.append(key, Value(std::move(found))); });
  }

  Result<void> kept(std::string_view text) {
    TRY_VOID(budget_.charge(Cost::value));
    return budget_.charge(Cost::kept, text.size());
  }

  // How often each operator is used, by its name.
  Result<Map> operators() {
    std::map<std::string_view, uint64_t> counts;
    for (uint64_t i = 0; i < file_.subgraphs.size(); ++i) {
      const Graph graph = TRY(read_graph(file_, i));
      for (uint64_t id = 0; id < graph.operators.size(); ++id) {
        const Call call = TRY(read_call(graph.operators, id));
        if (call.code < operators_.size())
          ++counts[operators_[call.code]];
        else
          warnings_.add("operator {} of subgraph {}: has operator code {}, and the file has {}", id, i, call.code,
                        operators_.size());
      }
    }
    Map out;
    CodeList code;
    for (const auto& [name, count] : counts) {
      constexpr std::string_view kOfName = "CUSTOM:";
      const std::string_view custom = name.starts_with(kOfName) ? name.substr(kOfName.size()) : "";
      if (code::is_of_tflite(custom))
        code::add_tensorflow(custom, "", code);
      else if (!custom.empty())
        code::add_custom_operator(custom, code);
      TRY_VOID(kept(name));
      out.append(std::string(name), count);
    }
    std::move(code).move_to(model_.common);
    return out;
  }

  // The tensors that the main subgraph starts from or ends in.
  Result<Value> ends(const Graph& graph, const flatbuffer::List& ids) {
    const auto too_many = [&] { return Value(fmt::format("{} tensors: see graph.json", ids.size())); };
    if (ids.size() > kMaxInlineList) return too_many();
    const auto indices = TRY(ids.numbers<int32_t>(kMaxInlineList));
    List out;
    size_t size = 0;
    for (const int32_t id : indices) {
      if (id < 0 || static_cast<uint64_t>(id) >= graph.tensors.size()) continue;
      const Entry entry = TRY(read_entry(graph.tensors, static_cast<uint64_t>(id)));
      size += entry.name.size() + sizeof(uint64_t) * entry.shape.size();
      if (size > kMaxEnds || entry.shape.size() > kMaxDimensions) return too_many();
      TRY_VOID(kept(entry.name));
      TRY_VOID(budget_.charge(Cost::value, 8 + entry.shape.size()));
      const auto dimensions = TRY(entry.shape.numbers<int32_t>(kMaxDimensions));
      Map end;
      end.append("name", entry.name);
      end.append("dtype", dtype_of(kTensorTypes.find(entry.type))->name);
      end.append("shape", List(dimensions.begin(), dimensions.end()));
      out.push_back(std::move(end));
    }
    return Value(std::move(out));
  }

  // [{"key": "serving_default", "subgraph": 0, "inputs": {"x": 0}, "outputs": {"y": 7}}]
  Result<List> signatures_of(const flatbuffer::List& signatures) {
    List out;
    for (uint64_t i = 0; i < signatures.size(); ++i) {
      const Table signature = TRY(signatures.table(i));
      TRY_VOID(budget_.charge(Cost::value, 8));
      std::string key = TRY(signature.text(2, kMaxNameLength));
      TRY_VOID(kept(key));
      Map line;
      line.append("key", std::move(key));
      TRY_VOID(add(line, "subgraph", signature.number<uint32_t>(4)));
      TRY_VOID(add(line, "inputs", tensor_map(signature, 0)));
      TRY_VOID(add(line, "outputs", tensor_map(signature, 1)));
      out.push_back(std::move(line));
    }
    return out;
  }

  Result<Map> tensor_map(const Table& signature, Slot slot) {
    const auto entries = TRY(signature.tables(slot));
    Map out;
    for (uint64_t i = 0; i < entries.size(); ++i) {
      const Table entry = TRY(entries.table(i));
      std::string name = TRY(entry.text(0, kMaxNameLength));
      TRY_VOID(kept(name));
      const auto id = TRY(entry.number<uint32_t>(1));
      out.append(std::move(name), id);
    }
    out.keep_last_of_each_key();
    return out;
  }

  // The metadata table: names of buffers, which become parts too.
  Result<List> named_buffers(const flatbuffer::List& entries) {
    List out;
    for (uint64_t i = 0; i < entries.size(); ++i) {
      const Table entry = TRY(entries.table(i));
      const std::string name = TRY(entry.text(0, kMaxNameLength));
      const auto buffer = TRY(entry.number<uint32_t>(1));
      TRY_VOID(budget_.charge(Cost::member));
      TRY_VOID(budget_.charge(Cost::value, 8));
      TRY_VOID(budget_.charge(Cost::kept, 2 * name.size()));
      const auto bytes = bytes_of_buffer(file_, buffer);
      if (!bytes && !is_about_the_bytes(bytes.error())) return tl::unexpected(bytes.error());
      if (!bytes) warnings_.add("metadata {}: {}", quoted(name), bytes.error().message);
      Map line;
      line.append("name", name);
      line.append("buffer", buffer);
      if (bytes && *bytes) TRY_VOID(add_part(line, name, **bytes));
      out.push_back(std::move(line));
    }
    return out;
  }

  Result<void> add_part(Map& line, const std::string& name, const Slice& bytes) {
    line.append("nbytes", bytes.size());
    auto text = TRY(text_of(bytes));
    if (text) line.append("text", std::move(*text));
    model_.parts.push_back({.path = "metadata/" + name,
                            .source = Later<SourcePtr>::of(std::make_shared<Slice>(bytes)),
                            .is_structure = true});
    return {};
  }

  // The bytes without the zeros at their end, if they are a short text.
  Result<std::optional<std::string>> text_of(const Slice& bytes) {
    if (bytes.size() > kMaxText) return std::nullopt;
    TRY_VOID(budget_.charge(Cost::input, bytes.size()));
    TRY_VOID(budget_.charge(Cost::kept, bytes.size()));
    std::string text = TRY(read_text(bytes, 0, bytes.size()));
    text.erase(text.find_last_not_of('\0') + 1);
    const auto is_control_code = [](char c) { return static_cast<uint8_t>(c) < 0x20 && c != '\n' && c != '\t'; };
    if (text.empty() || !is_utf8(text) || std::any_of(text.begin(), text.end(), is_control_code)) return std::nullopt;
    return text;
  }

  Model& model_;
  const File& file_;
  const std::vector<std::string>& operators_;
  Budget& budget_;
  Warnings& warnings_;
};

}  // namespace

Result<void> add_metadata(Model& model, const File& file, const std::vector<std::string>& operators, Budget& budget,
                          Warnings& warnings) {
  return MetadataReader(model, file, operators, budget, warnings).add_all();
}

}  // namespace weightfs::tflite
