// The contents of a model's blobs: its tensors, its config and parameters, the common fields.
#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "base/text.h"
#include "base/values/json.h"
#include "base/values/rendering.h"
#include "formats/common/flat.h"
#include "formats/ollama/ollama.h"
#include "formats/ollama/tensors.h"

namespace weightfs::ollama {
namespace {

// A config of 3,000 layers takes 250 kB, most of it for their digests.
constexpr uint64_t kMaxJsonSize = 1 << 20;

// Longer messages are only in files/, not in metadata.json, in bytes.
constexpr uint64_t kMaxMessagesSize = 16 << 10;

// Likewise licenses that are longer than a name.
constexpr uint64_t kMaxLicenseLength = 100;

Result<Value> parse(const Source& bytes, Budget& budget) {
  if (bytes.size() > kMaxJsonSize)
    return failure(Code::unsupported, fmt::format("JSON of {} bytes, at most {} are read", bytes.size(), kMaxJsonSize));
  return parse_json(bytes, 0, bytes.size(), budget, flat::kMaxMetadataValues);
}

bool is_short(const Item& item, uint64_t most) {
  return item.layer.descriptor.size && *item.layer.descriptor.size <= most;
}

// The config.json of the model that this model was created from.
bool is_own_config(const Item& item) { return item.layer.kind == LayerKind::json && item.layer.name == "config.json"; }

class Contents {
 public:
  Contents(const Package& package, Model& model, Warnings& warnings)
      : package_(package), model_(model), warnings_(warnings) {}

  Result<void> add() {
    TRY_VOID(add_json("config", LayerKind::config));
    TRY_VOID(add_json("parameters", LayerKind::params));
    TRY_VOID(add_json("messages", LayerKind::messages));
    TRY_VOID(add_tensors());
    add_common();
    TRY_VOID(add_architecture());
    TRY_VOID(add_license());
    TRY_VOID(verify_small_layers());
    warn_of_repeated_names();
    return {};
  }

 private:
  // Several models each have theirs.
  void warn_of_repeated_names() {
    const auto has_scope = [](const TensorView& tensor) { return !tensor.scope.empty(); };
    if (std::any_of(model_.tensors.begin(), model_.tensors.end(), has_scope)) return;
    for (const size_t place : flat::repeated_names(model_.tensors))
      warnings_.add("tensor {}: duplicate name", quoted(model_.tensors[place].name));
  }

  // The first item of a kind with an available blob; null if there is none.
  const Item* first(LayerKind kind) const {
    const auto found = std::find_if(package_.items.begin(), package_.items.end(),
                                    [&](const Item& item) { return item.layer.kind == kind && item.blob != nullptr; });
    return found == package_.items.end() ? nullptr : &*found;
  }

  // Short texts are verified first, as they are shown directly.
  Result<void> add_json(const char* key, LayerKind kind) {
    const Item* const item = first(kind);
    if (item == nullptr || (kind == LayerKind::messages && !is_short(*item, kMaxMessagesSize))) return {};
    auto value = item->blob->bytes.get().and_then(
        [&](const SourcePtr& bytes) { return parse(*bytes, *package_.container.budget); });
    read_.insert(item->blob.get());
    if (value)
      model_.metadata.append(key, std::move(*value));
    else if (is_about_the_bytes(value.error()))
      miss(*item, value.error());
    else
      return tl::unexpected(value.error());
    return {};
  }

  void miss(const Item& item, const Error& error) {
    warnings_.miss_file(error.code, "{}: {}", quoted(item.layer.path), error.message);
    warnings_.lose(error, {});
  }

  // Layers such as the template change what a model answers. They are small, so they are compared with their digests
  // when the model is opened. Nothing is downloaded only for that.
  Result<void> verify_small_layers() {
    for (const Item& item : package_.items) {
      const bool is_tensors = item.layer.is_container() || item.layer.kind == LayerKind::tensor;
      if (item.blob == nullptr || !item.blob->is_local || is_tensors || !is_short(item, kMaxJsonSize)) continue;
      if (!read_.insert(item.blob.get()).second) continue;
      const auto compared =
          item.blob->bytes.get().and_then([&](const SourcePtr& bytes) { return compare(*bytes, item); });
      if (compared) continue;
      const Error& error = compared.error();
      if (!is_about_the_bytes(error) && !is_about_the_network(error)) return tl::unexpected(error);
      miss(item, error);
    }
    return {};
  }

  // The store compares a blob when a byte of it is read; it has none to compare if the blob is empty.
  static Result<void> compare(const Source& bytes, const Item& item) {
    std::byte first{};
    if (bytes.size() > 0) return bytes.read(0, std::span(&first, 1)).map([](size_t) {});
    const auto& digest = item.layer.descriptor.digest;
    if (!digest || *digest == sha256("")) return {};
    return failure(Code::mismatch, fmt::format("no bytes, whose digest is not {}", digest->hex()));
  }

  Result<void> add_tensors() {
    Tensors tensors(model_, warnings_, package_.container.budget);
    for (const Item& item : package_.items) {
      if (item.blob == nullptr) continue;
      if (item.layer.kind == LayerKind::model) TRY_VOID(tensors.add_model(item));
      if (item.layer.kind == LayerKind::tensor) TRY_VOID(tensors.add_tensor(item));
    }
    Map quantization = tensors.take_quantization();
    if (quantization.size() > kMaxInlineList)
      set_apart("quantization", std::move(quantization));
    else if (!quantization.empty())
      model_.metadata.append("quantization", std::move(quantization));
    return {};
  }

  void set_apart(const std::string& key, Map map) {
    Map note;
    note.append("count", map.size());
    const std::string path = fmt::format("metadata/{}.json", key);
    note.append("path", path);
    model_.metadata.append(key, std::move(note));
    std::erase_if(model_.documents, [&](const Document& document) { return document.path == path; });
    const auto kept = std::make_shared<const Value>(std::move(map));
    model_.documents.push_back(
        {path, Later<SourcePtr>([kept, budget = package_.container.budget]() -> Result<SourcePtr> {
           return charged_text(TRY(to_json(*kept, *budget)), budget);
         })});
  }

  // The model's own header takes precedence over the config, which Ollama derived from it.
  void add_common() {
    const Value* const value = model_.metadata.find("config");
    const Map* const config = value == nullptr ? nullptr : std::get_if<Map>(value);
    if (config == nullptr) return;
    const bool by_ollama = config->find("model_format") != nullptr || config->find("model_family") != nullptr;
    if (!by_ollama) return add_common("architecture", config->find("model_type"));  // a config.json of transformers
    add_common("architecture", config->find("model_family"));
    add_common("size_label", config->find("model_type"));
    add_common("file_type", config->find("file_type"));
    add_remote(*config);
  }

  // A model that runs on another host: `ollama pull NAME:cloud` stores only where.
  void add_remote(const Map& config) {
    constexpr std::string_view kHttps = "https://";
    std::string_view host = text_in(config, "remote_host");
    const std::string_view name = text_in(config, "remote_model");
    if (host.empty() || !model_.tensors.empty()) return;
    add_common("remote_host", config.find("remote_host"));
    add_common("remote_model", config.find("remote_model"));
    if (host.starts_with(kHttps)) host.remove_prefix(kHttps.size());
    const std::string as = name.empty() ? "" : fmt::format(" as {}", printable(name));
    warnings_.pass_over_numbers("the model runs at {}{}; nothing of it is stored here", printable(host), as);
  }

  void add_common(const char* key, const Value* value) {
    const std::string* const text = value == nullptr ? nullptr : std::get_if<std::string>(value);
    if (text != nullptr && !text->empty() && model_.common.find(key) == nullptr) model_.common.append(key, *text);
  }

  // For a model of tensor layers the architecture is in its own config.json, not in Ollama's config. Errors in it are
  // ignored here.
  Result<void> add_architecture() {
    if (model_.common.find("architecture") != nullptr) return {};
    const auto item = std::find_if(package_.items.begin(), package_.items.end(), is_own_config);
    if (item == package_.items.end() || item->blob == nullptr) return {};
    const auto value = item->blob->bytes.get().and_then(
        [&](const SourcePtr& bytes) { return parse(*bytes, *package_.container.budget); });
    if (!value && !is_about_the_bytes(value.error())) return tl::unexpected(value.error());
    const Map* const config = value ? std::get_if<Map>(&*value) : nullptr;
    if (config != nullptr) add_common("architecture", config->find("model_type"));
    return {};
  }

  // A license that is a line is the name of one.
  Result<void> add_license() {
    const Item* const item = first(LayerKind::license);
    if (item == nullptr || !is_short(*item, kMaxLicenseLength) || model_.common.find("license") != nullptr) return {};
    const auto text = item->blob->bytes.get().and_then(
        [](const SourcePtr& bytes) { return read_text(*bytes, 0, std::min(bytes->size(), kMaxLicenseLength)); });
    if (!text && !is_about_the_bytes(text.error())) return tl::unexpected(text.error());
    if (!text) return {};
    const std::string line = text->substr(0, text->find_last_not_of(" \r\n") + 1);
    const Value license(line);
    if (line.find('\n') == line.npos && is_utf8(line)) add_common("license", &license);
    return {};
  }

  const Package& package_;
  Model& model_;
  Warnings& warnings_;
  std::set<const LayerBlob*> read_;  // small blobs that were read, and compared
};

}  // namespace

bool needs_fetch(const Item& item) {
  if (item.blob == nullptr || item.blob->is_local) return false;
  switch (item.layer.kind) {
    case LayerKind::config:
    case LayerKind::params:
    case LayerKind::model:
      return true;
    case LayerKind::tensor:  // a bare tensor is recognized by its media type
      return !item.layer.dtype || !item.layer.descriptor.size;
    case LayerKind::json:
      return is_own_config(item);
    case LayerKind::messages:
      return is_short(item, kMaxMessagesSize);
    case LayerKind::license:
      return is_short(item, kMaxLicenseLength);
    default:
      return false;
  }
}

Result<void> add_contents(const Package& package, Model& model, Warnings& warnings) {
  return Contents(package, model, warnings).add();
}

}  // namespace weightfs::ollama
