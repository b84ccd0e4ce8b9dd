#include "sources/disk/model_runner.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "base/values/json.h"

namespace weightfs {
namespace {

constexpr const char* kModels = "models.json";
constexpr uint64_t kMaxModelsSize = 16 << 20;
constexpr const char* kRunnerManifests = "manifests/sha256";
constexpr const char* kBlobs = "blobs/sha256";

// "index.docker.io/ai/smollm2:135M" → "ai/smollm2/135M"; empty if it is no name.
std::string path_of_tag(std::string_view tag) {
  for (const std::string_view host : {"index.docker.io/", "docker.io/"})
    if (tag.starts_with(host)) tag.remove_prefix(host.size());
  const size_t colon = tag.rfind(':');
  const bool has_tag = colon != tag.npos && tag.find('/', colon) == tag.npos;
  const std::string name(tag.substr(0, has_tag ? colon : tag.npos));
  std::string path = fmt::format("{}/{}", name, has_tag ? tag.substr(colon + 1) : "latest");
  const bool is_text = is_visible_ascii(path);
  return is_text && is_plain_path(path) ? path : "";
}

// Digests of manifests by the paths of their tags.
using Digests = std::map<std::string, std::string, std::less<>>;

bool is_directory_of(const Digests& found, const std::string& path) {
  const auto below = found.lower_bound(path + "/");
  return below != found.end() && below->first.starts_with(path + "/");
}

// The first digits, or all if another model has these.
void add_by_digest(const std::string& hex, Digests& found) {
  constexpr size_t kShortDigest = 12;
  const std::string digits = hex.substr(0, kShortDigest);
  const auto known = found.find(digits);
  const bool is_free = known == found.end() ? !is_directory_of(found, digits) : known->second == hex;
  if (is_free || !is_directory_of(found, hex)) found.emplace(is_free ? digits : hex, hex);
}

void add_model(const Map& model, Digests& found) {
  const auto digest = parse_digest(text_in(model, "id"));
  if (!digest) return;
  const Value* const tags = model.find("tags");
  const auto* const list = tags == nullptr ? nullptr : std::get_if<List>(tags);
  const std::string hex = digest->hex();
  bool has_tag = false;
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const auto* const text = std::get_if<std::string>(&(*list)[i]);
    const std::string path = text == nullptr ? "" : path_of_tag(*text);
    if (!path.empty()) has_tag |= found.emplace(path, hex).second;
  }
  if (!has_tag) add_by_digest(hex, found);
}

// A name cannot be a directory and a model: of NAME/a and NAME/a/b the first gets the name of its digest.
void rename_directories(Digests& found) {
  std::vector<std::string> digests;
  for (auto each = found.begin(); each != found.end();) {
    const bool has_models = is_directory_of(found, each->first);
    if (has_models) digests.push_back(each->second);
    each = has_models ? found.erase(each) : std::next(each);
  }
  std::set<std::string_view> named;
  for (const auto& [path, digest] : found) named.insert(digest);
  for (const std::string& digest : digests)
    if (!named.contains(digest)) add_by_digest(digest, found);
}

}  // namespace

bool is_model_runner_store(const Location& directory) {
  const auto models = (directory / kModels).examine();
  return models && S_ISREG(models->st_mode) && is_directory(directory / kRunnerManifests) &&
         is_directory(directory / kBlobs);
}

std::optional<Location> blobs_of_model_runner(const Location& manifest) {
  const std::string& path = manifest.name;
  const std::string prefix = std::string(kRunnerManifests) + "/";
  if (!path.starts_with(prefix) || !digest_of_hex(std::string_view(path).substr(prefix.size()))) return std::nullopt;
  Location blobs{manifest.root, kBlobs};
  return is_directory(blobs) ? std::optional(std::move(blobs)) : std::nullopt;
}

Result<std::vector<TaggedModel>> read_model_runner_store(const Location& store) {
  const SourcePtr bytes = TRY((store / kModels).open());
  if (bytes->size() > kMaxModelsSize)
    return failure(Code::unsupported, fmt::format("{}: more than {} bytes", kModels, kMaxModelsSize));
  Budget budget(bytes->size());
  const Value value = TRY(parse_json(*bytes, 0, bytes->size(), budget).map_error([](const Error& error) {
    return with_message(error, fmt::format("{}: {}", kModels, error.message));
  }));
  const auto* const fields = std::get_if<Map>(&value);
  const Value* const models = fields == nullptr ? nullptr : fields->find("models");
  const auto* const list = models == nullptr ? nullptr : std::get_if<List>(models);
  if (list == nullptr) return failure(Code::corrupt, fmt::format("{}: not a list of models", kModels));
  Digests digests;
  for (const Value& model : *list)
    if (const auto* const map = std::get_if<Map>(&model)) add_model(*map, digests);
  rename_directories(digests);
  std::vector<TaggedModel> found;
  for (const auto& [path, digest] : digests)
    found.push_back({path, store / fmt::format("{}/{}", kRunnerManifests, digest)});
  return found;
}

}  // namespace weightfs
