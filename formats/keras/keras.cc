#include "formats/keras/keras.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/archive/archive_formats.h"
#include "formats/archive/zip.h"
#include "formats/code/keras.h"
#include "formats/common/flat.h"
#include "formats/directory/statements.h"
#include "formats/keras/quantization.h"

namespace weightfs::keras {
namespace {

constexpr std::string_view kConfig = "config.json";
constexpr std::string_view kMetadata = "metadata.json";
constexpr std::string_view kWeights = "model.weights.h5";
constexpr std::string_view kArrays = "model.weights.npz";

// The maximum size of the configuration and of the metadata.
constexpr uint64_t kMaxConfigSize = 64 << 20;

// Reads a .keras file, or the directory that it was unpacked into.
class KerasReader {
 public:
  KerasReader(archive::Archive archive, const Container& container)
      : archive_(std::move(archive)), container_(container) {}

  Result<Model> read() {
    model_.format = "keras";
    model_.metadata = TRY(json_of(kMetadata));
    if (const std::string* const version = model_.metadata.find_as<std::string>("keras_version"))
      model_.version = *version;
    const bool has_config = TRY(read_config());
    if (!has_config && archive_.find(kWeights) == nullptr)
      return failure(Code::corrupt, "keras: neither a configuration nor weights");
    TRY_VOID(read_weights());
    flat::add_facts(model_.metadata, "keras", std::move(facts_));
    archive_.warnings.append(warnings_, "");
    // Other members, such as assets, may be containers.
    std::vector<bool> is_read;
    for (const Part& part : archive_.parts)
      is_read.push_back(part.path == kConfig || part.path == kMetadata || part.path == kWeights);
    archive::add_members(model_, std::move(archive_), container_, std::move(is_read));
    return std::move(model_);
  }

 private:
  // A JSON object; an empty one and a warning if there is none.
  Result<Map> json_of(std::string_view path) {
    const auto text = archive_.text(path, kMaxConfigSize);
    auto json =
        text ? parse_json(*in_memory(*text), 0, text->size(), *container_.budget) : tl::unexpected(text.error());
    if (!json && !is_about_the_bytes(json.error()) && json.error().code != Code::not_found)
      return tl::unexpected(json.error());
    if (Map* const map = json ? std::get_if<Map>(&*json) : nullptr) return std::move(*map);
    warnings_.add("{}: {}", path, json ? "no JSON object" : json.error().message);
    return Map{};
  }

  // The configuration is in files/; here are its name and its Lambda layers.
  Result<bool> read_config() {
    const Value config = TRY(json_of(kConfig));
    const Map& map = std::get<Map>(config);
    const std::string* const class_name = map.find_as<std::string>("class_name");
    if (class_name != nullptr) facts_.append("class_name", *class_name);
    const Value* const fields = map.find("config");
    const Map* const inner = fields == nullptr ? nullptr : std::get_if<Map>(fields);
    const std::string* const name = inner == nullptr ? nullptr : inner->find_as<std::string>("name");
    if (name != nullptr) model_.common.append("name", *name);
    List lambdas;
    CodeList code;
    code::add_keras(config, kConfig, code);
    std::move(code).move_to(model_.common);
    for (const std::string& layer : code::lambda_layers(config)) {
      warnings_.add("{}: Lambda layer {} has Python code, which is not run", kConfig, quoted(layer));
      lambdas.push_back(layer);
    }
    if (!lambdas.empty()) facts_.append("lambda_layers", std::move(lambdas));
    const auto modes = quantization_modes(config);
    if (!modes.empty()) facts_.append("quantization", List(modes.begin(), modes.end()));
    release(footprint(config), *container_.budget);
    return !map.empty();
  }

  Result<void> read_weights() {
    if (archive_.find(kArrays) != nullptr)
      warnings_.miss_file(Code::unsupported, "{}: its arrays are pickled objects, which are not read", kArrays);
    const Part* const part = archive_.resolve(kWeights);
    if (part == nullptr) return {};
    auto weights = read_file(*part);
    if (!weights && !is_about_the_bytes(weights.error())) return tl::unexpected(weights.error());
    if (!weights) {
      warnings_.miss_file(weights.error().code, "{}: {}; its tensors are missing", kWeights, weights.error().message);
      return {};
    }
    Map metadata;
    add_weights(model_, std::move(*weights), kWeights, metadata, warnings_);
    facts_.append("weights", std::move(metadata));
    return {};
  }

  // Decoding is charged while the file is parsed, but not when a user reads from it later.
  Result<Model> read_file(const Part& part) {
    const auto charge = std::make_shared<codec::DecodeCharge>(container_.budget);
    const SourcePtr member = TRY(part.source.get());
    const SourcePtr bytes = TRY(archive::bytes_to_parse(member, charge));
    const codec::DecodeCharge::Active active(charge);
    return read_as("hdf5", Container{.name = std::string(kWeights),
                                     .bytes = bytes,
                                     .folder = nullptr,
                                     .blobs = container_.blobs,
                                     .depth = container_.depth + 1,
                                     .budget = container_.budget});
  }

  archive::Archive archive_;
  const Container& container_;
  Model model_;
  Warnings warnings_;
  Map facts_;
};

}  // namespace

void add_weights(Model& model, Model file, std::string_view name, Map& weights, Warnings& warnings) {
  constexpr std::string_view kFolder = "metadata/";
  const size_t before = model.tensors.size();
  model.tensors.append(file.tensors);
  directory::move_statements(file, model, before);
  model.string_pool.splice(model.string_pool.end(), file.string_pool);
  for (Document& document : file.documents) {
    document.path.insert(kFolder.size(), fmt::format("{}/", percent_escaped(name)));
    model.documents.push_back(std::move(document));
  }
  warnings.append(file, printable(name) + ": ");
  weights = std::move(file.metadata);
}

}  // namespace weightfs::keras

namespace weightfs {

Result<bool> matches_keras(const archive::Archive& archive) {
  if (archive.find(keras::kConfig) == nullptr) return false;
  return archive.find(keras::kWeights) != nullptr || archive.find(keras::kArrays) != nullptr;
}

Result<Model> read_keras(archive::Archive archive, const Container& container) {
  return keras::KerasReader(std::move(archive), container).read();
}

Match matches_keras_config(const Probe& entry) { return entry.name == keras::kConfig ? Match::maybe : Match::no; }

}  // namespace weightfs
