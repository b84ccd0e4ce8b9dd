#include "formats/ollama/manifest.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/values/json.h"

namespace weightfs::ollama {
namespace {

// A layer has six, and annotations perhaps.
constexpr uint64_t kMaxValues = 1'000'000;

constexpr std::string_view kJsonSpaces = " \t\r\n";

// The end of the first JSON value of `text` by its brackets and quotes; the parser validates it. That of the text if it
// is nested too deep for the parser.
size_t end_of_value(std::string_view text) {
  const size_t first = std::min(text.find_first_not_of(kJsonSpaces), text.size());
  if (text.substr(first).starts_with("null")) return first + 4;
  int depth = 0;
  bool in_string = false;
  for (size_t i = first; i < text.size() && depth <= kMaxDepth; ++i) {
    const char c = text[i];
    if (in_string && c == '\\')
      ++i;
    else if (c == '"')
      in_string = !in_string;
    else if (in_string)
      continue;
    else if (c == '{' || c == '[')
      ++depth;
    else if ((c == '}' || c == ']') && --depth <= 0)
      return i + 1;
  }
  return text.size();
}

// Ollama hashes the bytes that its JSON decoder reads, which are whole buffers: 512 bytes, then twice as many and 512
// more each time, until the value ends. Following bytes (usually a newline) are not hashed if they begin a buffer.
std::string id_of(std::string_view text, size_t end) {
  size_t buffered = 512;
  while (buffered < end) buffered = 2 * buffered + 512;
  return sha256(text.substr(0, buffered)).hex().substr(0, 12);
}

bool is_same_key(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

// The fields of one object. `where` is its path in the manifest, for messages.
class Fields {
 public:
  Fields(const Map& map, std::string where) : map_(map), where_(std::move(where)) {}

  // The value of a key; the last one wins among keys that differ only in case. Null if there is none, or if it is null.
  const Value* find(std::string_view key) const {
    const Value* found = nullptr;
    for (const auto& [name, value] : map_)
      if (is_same_key(name, key)) found = &value;
    return found == nullptr || std::holds_alternative<std::nullptr_t>(*found) ? nullptr : found;
  }

  template <class T>
  Result<const T*> get(std::string_view key, std::string_view kind) const {
    const Value* const value = find(key);
    if (value == nullptr) return nullptr;
    if (const T* const typed = std::get_if<T>(value)) return typed;
    return failure(Code::corrupt, fmt::format("{}: {} expected, not {}", path(key), kind, kind_of(*value)));
  }

  Result<std::string> text(std::string_view key) const {
    const std::string* const text = TRY(get<std::string>(key, "a text"));
    return text == nullptr ? "" : *text;
  }

  Result<std::optional<int64_t>> number(std::string_view key) const {
    const int64_t* const number = TRY(get<int64_t>(key, "a whole number of 64 bits"));
    return number == nullptr ? std::nullopt : std::optional(*number);
  }

  std::string path(std::string_view key) const { return fmt::format("{}{}{}", where_, where_.empty() ? "" : ".", key); }

 private:
  static std::string_view kind_of(const Value& value) {
    constexpr std::array<std::string_view, 8> kKindsOfValues = {
        "null",   "true or false", "a number", "a larger number", "a number with a fraction or an exponent",
        "a text", "a list",        "an object"};
    return kKindsOfValues.at(value.index());
  }

  const Map& map_;
  std::string where_;
};

Result<Descriptor> descriptor_of(const Value& value, const std::string& where, Warnings& warnings) {
  if (std::holds_alternative<std::nullptr_t>(value)) return Descriptor{};
  const Map* const map = std::get_if<Map>(&value);
  if (map == nullptr) return failure(Code::corrupt, fmt::format("{}: not an object", where));
  const Fields fields(*map, where);
  Descriptor out;
  out.media_type = TRY(fields.text("mediaType"));
  out.digest_text = TRY(fields.text("digest"));
  out.name = TRY(fields.text("name"));
  out.from = TRY(fields.text("from"));
  out.digest = digest_named(out.digest_text);
  if (!out.digest && !out.digest_text.empty())
    warnings.miss_file(Code::corrupt, "{}: {} is not a SHA-256 of a blob", where, quoted(out.digest_text));
  const auto size = TRY(fields.number("size"));
  if (size && *size < 0)
    warnings.add("{}: a size of {} bytes", where, *size);
  else if (size)
    out.size = static_cast<uint64_t>(*size);
  return out;
}

Result<std::vector<Descriptor>> layers_of(const Fields& fields, Warnings& warnings) {
  std::vector<Descriptor> layers;
  const List* const list = TRY(fields.get<List>("layers", "a list"));
  if (list == nullptr) return layers;
  if (list->size() > kMaxLayers)
    return failure(Code::unsupported, fmt::format("{} layers, at most {} are read", list->size(), kMaxLayers));
  for (const Value& layer : *list) {
    const std::string where = fmt::format("layers[{}]", layers.size());
    layers.push_back(TRY(descriptor_of(layer, where, warnings)));
    if (layers.back().digest_text.empty()) warnings.miss_file(Code::corrupt, "{}: no digest, so no blob", where);
  }
  return layers;
}

// No release of Ollama reads lists of manifests: a wrong one does not make the manifest wrong.
std::vector<Descriptor> manifests_of(const Fields& fields, Warnings& warnings) {
  std::vector<Descriptor> manifests;
  const auto list = fields.get<List>("manifests", "a list");
  if (!list) warnings.add("{}", list.error().message);
  if (!list || *list == nullptr) return manifests;
  for (const Value& value : **list) {
    const std::string where = fmt::format("manifests[{}]", manifests.size());
    auto child = manifests.size() < kMaxLayers
                     ? descriptor_of(value, where, warnings)
                     : failure(Code::unsupported, fmt::format("more than {} manifests", kMaxLayers));
    if (!child) {
      warnings.add("{}", child.error().message);
      break;
    }
    if (const Map* const map = std::get_if<Map>(&value))
      child->runner = Fields(*map, where).text("runner").value_or("");
    manifests.push_back(std::move(*child));
  }
  return manifests;
}

Result<Map> parse(const std::string& text, size_t end, Budget& budget) {
  Value root = TRY(parse_json(*in_memory(text.substr(0, end)), 0, end, budget, kMaxValues));
  if (std::holds_alternative<std::nullptr_t>(root)) return Map{};
  if (Map* const map = std::get_if<Map>(&root)) return std::move(*map);
  return failure(Code::corrupt, "JSON, but not an object");
}

}  // namespace

Result<Manifest> read_manifest(const std::string& text, Warnings& warnings, Budget& budget) {
  const size_t end = end_of_value(text);
  const Map map = TRY(parse(text, end, budget));
  release(footprint(map), budget);  // it goes with this function
  const Fields fields(map, "");
  Manifest manifest;
  manifest.id = id_of(text, end);
  manifest.schema_version = TRY(fields.number("schemaVersion")).value_or(0);
  manifest.media_type = TRY(fields.text("mediaType"));
  if (const Value* const config = fields.find("config")) {
    manifest.config = TRY(descriptor_of(*config, "config", warnings));
    // Go writes a missing config as one without a digest.
    if (manifest.config->digest_text.empty()) manifest.config.reset();
  }
  manifest.layers = TRY(layers_of(fields, warnings));
  manifest.manifests = manifests_of(fields, warnings);
  return manifest;
}

std::optional<Digest> digest_named(std::string_view text) {
  constexpr std::string_view kFileName = "sha256-";
  return text.starts_with(kFileName) ? digest_of_hex(text.substr(kFileName.size())) : parse_digest(text);
}

}  // namespace weightfs::ollama
