#include "serve/registry/made.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/text.h"
#include "base/values/value.h"
#include "formats/directory/weight_files.h"
#include "formats/one_model.h"
#include "formats/summary/summary.h"
#include "fs/tree/listing.h"
#include "report/text/map_of.h"

namespace weightfs::distribution {
namespace {

constexpr size_t kMaxFiles = 10'000;

struct Layer {
  std::string path;  // below files/
  std::string media_type;
  size_t part;  // its index
  Blob blob = {};
};

std::string text_of(const Digest& digest) { return "sha256:" + digest.hex(); }

Map descriptor_of(std::string_view media_type, const Blob& blob) {
  return map_of({{"mediaType", media_type}, {"digest", text_of(blob.digest)}, {"size", blob.size}});
}

// "1.2B": the thousands, millions, … of a number of parameters.
std::string short_count(uint64_t number) {
  constexpr std::array<std::pair<double, char>, 4> kUnits = {{{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}}};
  for (const auto& [unit, letter] : kUnits)
    if (static_cast<double>(number) >= unit) return fmt::format("{:.1f}{}", static_cast<double>(number) / unit, letter);
  return fmt::format("{}", number);
}

// By the name, as the writers of ModelPack sort files (modctl, pkg/modelfile/constants.go).
std::string class_of(const std::string& path, bool is_weights) {
  if (is_weights) return "weight";
  const std::string lower = lower_case(path);
  const auto ends = [&](const auto& endings) {
    return std::ranges::any_of(endings, [&](std::string_view ending) { return lower.ends_with(ending); });
  };
  if (ends(std::to_array<std::string_view>({".md", ".txt", ".pdf", "license", "readme", "notice"}))) return "doc";
  if (ends(std::to_array<std::string_view>({".py", ".sh", ".ipynb", ".js", ".c", ".cc", ".cpp"}))) return "code";
  if (ends(std::to_array<std::string_view>(
          {".json", ".jsonl", ".yaml", ".yml", ".toml", ".jinja", ".model", ".tiktoken", ".ini", ".cfg", ".xml"})))
    return "weight.config";
  return "weight";
}

Blob blob_of(std::string text) { return {sha256(text), text.size(), std::move(text), std::nullopt}; }

// The index of the first file that is a GGUF by its first bytes, of a model that is one.
std::optional<size_t> gguf_of(const Model& model) {
  if (model.gguf_keys == nullptr) return std::nullopt;
  for (size_t i = 0; i < model.parts.size(); ++i) {
    const Part& part = model.parts[i];
    const auto file = part.link_target.empty() ? part.source.get() : Result<SourcePtr>(failure(Code::not_found, ""));
    const auto magic = file ? read_text(**file, 0, 4) : tl::unexpected(file.error());
    if (magic && *magic == "GGUF") return i;
  }
  return std::nullopt;
}

size_t count_of_weights(const Model& model) {
  return static_cast<size_t>(std::ranges::count_if(
      model.parts, [](const Part& part) { return is_named_as_weights(part.path) && part.link_target.empty(); }));
}

class Maker {
 public:
  Maker(const Model& model, const std::string& name, digests::FileDigests& digests, const digests::Patience* patience)
      : model_(model), name_(name), digests_(digests), patience_(patience) {}

  Result<MadePtr> modelpack() {
    StringArena texts;
    const auto paths = in_order_of_parts(part_paths(model_, texts));
    if (paths.size() > kMaxFiles)
      return failure(Code::unsupported, fmt::format("{} files; a manifest has at most {}", paths.size(), kMaxFiles));
    const auto weights = weight_files_of(model_);
    const std::unordered_set<std::string> are_weights(weights.begin(), weights.end());
    std::vector<Layer> layers;
    for (size_t i = 0; i < paths.size(); ++i) {
      const Part& part = model_.parts[i];
      if (!part.link_target.empty()) continue;
      const std::string type = class_of(std::string(paths[i]), are_weights.contains(part.path));
      layers.push_back({std::string(paths[i]), fmt::format("application/vnd.cncf.model.{}.v1.raw", type), i});
    }
    if (layers.empty()) return failure(Code::unsupported, "the model has no files");
    TRY_VOID(find_blobs(layers));
    std::ranges::sort(layers, {}, &Layer::path);
    const Blob config = blob_of(to_json_line(config_of_modelpack(layers)));
    return finish(kOciManifest, "application/vnd.cncf.model.manifest.v1+json",
                  "application/vnd.cncf.model.config.v1+json", config, layers);
  }

  Result<MadePtr> ollama() {
    const auto part = gguf_of(model_);
    if (!part || count_of_weights(model_) > 1)
      return failure(Code::unsupported, "Ollama reads models that are one GGUF; this one is not");
    std::vector<Layer> layers = {{"", "application/vnd.ollama.image.model", *part}};
    TRY_VOID(find_blobs(layers));
    const Blob config = blob_of(to_json_line(config_of_ollama(layers.front())));
    return finish(kDockerManifest, "", "application/vnd.docker.container.image.v1+json", config, layers);
  }

 private:
  // All digests that are not known are begun before the first is waited for.
  Result<void> find_blobs(std::vector<Layer>& layers) {
    std::vector<size_t> unknown;
    for (size_t i = 0; i < layers.size(); ++i) {
      const Part& part = model_.parts[layers[i].part];
      const SourcePtr bytes = TRY(part.source.get());
      const Digest* const stated = part.checksums.get<Digest>();
      const auto digest = stated != nullptr ? std::optional(*stated) : digests_.known(bytes);
      layers[i].blob = {digest.value_or(Digest{}), bytes->size(), "", layers[i].part};
      if (digest) continue;
      if (patience_ == nullptr)
        return failure(Code::not_found, "the digests of the files are not known yet; request the manifest by its tag");
      digests_.begin(bytes, part.path);
      unknown.push_back(i);
    }
    for (const size_t i : unknown) {
      const Part& part = model_.parts[layers[i].part];
      const SourcePtr bytes = TRY(part.source.get());
      layers[i].blob.digest = TRY(digests_.get(bytes, part.path, *patience_));
    }
    return {};
  }

  // config.md of model-spec.
  Value config_of_modelpack(const std::vector<Layer>& layers) const {
    const summary::Summary summary = summary::summarise(model_).summary;
    Map config;
    const auto add = [&](const char* key, const std::string& text) {
      if (!text.empty()) config.append(key, to_utf8(text));
    };
    add("architecture", summary.architecture);
    add("format", model_.format);
    if (summary.parameters) add("paramSize", lower_case(short_count(*summary.parameters)));
    add("precision", summary.dtype);
    if (summary.quantisation) add("quantization", summary.quantisation->name);
    List digests;
    for (const Layer& layer : layers) digests.emplace_back(text_of(layer.blob.digest));
    return map_of({{"descriptor", map_of({{"name", to_utf8(name_)}})},
                   {"config", std::move(config)},
                   {"modelfs", map_of({{"type", "layers"}, {"diffIds", std::move(digests)}})}});
  }

  // types/model/config.go of Ollama.
  Value config_of_ollama(const Layer& layer) const {
    const summary::Summary summary = summary::summarise(model_).summary;
    const std::string family = to_utf8(summary.architecture);
    const std::string type = summary.quantisation ? to_utf8(summary.quantisation->name) : to_utf8(summary.dtype);
    List families, digests;
    families.emplace_back(family);
    digests.emplace_back(text_of(layer.blob.digest));
    return map_of({{"model_format", "gguf"},
                   {"model_family", family},
                   {"model_families", std::move(families)},
                   {"model_type", summary.parameters ? short_count(*summary.parameters) : ""},
                   {"file_type", type},
                   {"architecture", "amd64"},
                   {"os", "linux"},
                   {"rootfs", map_of({{"type", "layers"}, {"diff_ids", std::move(digests)}})}});
  }

  static Result<MadePtr> finish(const char* media_type, std::string_view artifact_type, std::string_view config_type,
                                const Blob& config, const std::vector<Layer>& layers) {
    auto made = std::make_shared<MadeManifest>(MadeManifest{{}, {}, media_type, {config}});
    List shown;
    for (const Layer& layer : layers) {
      Map descriptor = descriptor_of(layer.media_type, layer.blob);
      if (!layer.path.empty())
        descriptor.append("annotations", map_of({{"org.cncf.model.filepath", layer.path},
                                                 {"org.opencontainers.image.title", layer.path}}));
      shown.emplace_back(std::move(descriptor));
      made->blobs.push_back(layer.blob);
    }
    Map manifest = map_of({{"schemaVersion", 2}, {"mediaType", media_type}});
    if (!artifact_type.empty()) manifest.append("artifactType", artifact_type);
    manifest.append("config", descriptor_of(config_type, config));
    manifest.append("layers", std::move(shown));
    made->text = to_json_line(std::move(manifest));
    if (made->text.size() > kMaxManifest)
      return failure(Code::unsupported, "the manifest would be larger than registries permit");
    made->digest = sha256(made->text);
    return made;
  }

  const Model& model_;
  const std::string& name_;
  digests::FileDigests& digests_;
  const digests::Patience* patience_;
};

}  // namespace

bool is_possible(const Model& model, Dialect dialect) {
  if (dialect == Dialect::modelpack) return !model.parts.empty();
  return gguf_of(model) && count_of_weights(model) <= 1;
}

Result<MadePtr> make_manifest(const Model& model, const std::string& name, Dialect dialect,
                              digests::FileDigests& digests, const digests::Patience* patience) {
  Maker maker(model, name, digests, patience);
  return dialect == Dialect::modelpack ? maker.modelpack() : maker.ollama();
}

Result<SourcePtr> open_made(const Model& model, const MadeManifest& made, const Digest& digest) {
  if (made.digest == digest) return in_memory(made.text);
  const auto blob = std::ranges::find(made.blobs, digest, &Blob::digest);
  if (blob == made.blobs.end()) return failure(Code::not_found, "no such blob");
  return blob->part ? model.parts[*blob->part].source.get() : Result<SourcePtr>(in_memory(blob->text));
}

}  // namespace weightfs::distribution
