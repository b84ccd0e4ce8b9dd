// Targets of the text readers: TOML, JSON, its rendering, names, the manifest of Ollama.
#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/budget.h"
#include "base/text.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "formats/common/json_outline.h"
#include "formats/format.h"
#include "formats/ollama/manifest.h"
#include "formats/ollama/media_type.h"
#include "formats/ollama/name.h"
#include "fs/names.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"
#include "tests/support/one_line.h"

namespace weightfs::test {
namespace {

void check_message(const Error& error) {
  if (!is_one_line(error.message)) complain("an error that is not one line: " + quoted(error.message));
}

// Lists and maps inside one another. Without recursion: what it measures may be deep.
int depth_of(const Value& root) {
  int depth = 0;
  std::vector<std::pair<const Value*, int>> open = {{&root, 0}};
  while (!open.empty()) {
    const auto [value, above] = open.back();
    open.pop_back();
    depth = std::max(depth, above);
    if (const auto* list = std::get_if<List>(value))
      for (const Value& each : *list) open.emplace_back(&each, above + 1);
    if (const auto* map = std::get_if<Map>(value))
      for (const auto& [key, each] : *map) open.emplace_back(&each, above + 1);
  }
  return depth;
}

void check_depth(const Value& value) {
  if (const int depth = depth_of(value); depth > kMaxDepth + 1) complain(fmt::format("values are read {} deep", depth));
}

void run_toml(std::string_view input) {
  Budget budget(input.size());
  auto map = parse_toml(input, budget);
  if (!map) return check_message(map.error());
  const uint64_t charged = budget.memory_used();
  const Footprint copy = footprint(*map);
  check_depth(std::move(*map));
  // All that remains in memory stays charged, but for the map itself.
  constexpr uint64_t kOneValue = 128;
  Budget fresh(input.size());
  if (charge(copy, fresh) && charged + kOneValue < fresh.memory_used())
    complain(fmt::format("a map of {} bytes is charged as {}", fresh.memory_used(), charged));
}

// Ignores every event.
class NoEvents final : public JsonEvents {
 public:
  bool scalar(Value) override { return true; }
  bool unsigned_integer(uint64_t) override { return true; }
  bool string(std::string&) override { return true; }
  bool key(std::string&) override { return true; }
  bool begin_object() override { return true; }
  bool end_object() override { return true; }
  bool begin_array() override { return true; }
  bool end_array() override { return true; }
};

void run_json(std::string_view input) {
  const SourcePtr source = counted_source(input);
  NoEvents events;
  const auto read = read_json(*source, 0, source->size(), events);
  const auto value = parse_json(*source, 0, source->size());
  if (!read) check_message(read.error());
  if (!value) check_message(value.error());
  if (!read && value) complain("JSON that is refused as events becomes a value");
  if (value) check_depth(*value);
  if (const auto map = outline(*source, source->size()); !map) check_message(map.error());
}

// A rendering is charged before it is built, and released by the caller.
void check_charged(const Result<std::string>& text, std::string_view expected, const Budget& budget) {
  if (!text) return check_message(text.error());
  if (*text != expected) complain("the charged rendering is another text");
  if (budget.memory_used() != text->size())
    complain(fmt::format("a text of {} bytes is charged as {}", text->size(), budget.memory_used()));
}

// Renders a value as JSON and as TOML; the rendering parses again and renders equally.
void run_render(std::string_view input) {
  const SourcePtr source = counted_source(input);
  Budget read(input.size());
  auto value = parse_json(*source, 0, source->size(), read);
  if (!value) {
    auto map = parse_toml(input, read);
    if (!map) return;
    value = Value(std::move(*map));
  }
  const std::string line = to_json_line(*value);
  const std::string json = to_json(*value);
  // Six characters for an escaped byte, and as many for the separators.
  if (line.size() > 64 + 12 * input.size()) complain(fmt::format("one line of JSON has {} bytes", line.size()));
  Budget budget(input.size());
  check_charged(to_json(*value, budget), json, budget);
  const auto again = parse_json(*in_memory(json), 0, json.size());
  if (!again) complain("rendered JSON cannot be read: " + again.error().message);
  if (to_json_line(*again) != line) complain("rendered JSON is another value");
  const auto* map = std::get_if<Map>(&*value);
  if (map == nullptr) return;
  const std::string toml = to_toml(*map);
  Budget other(input.size());
  check_charged(to_toml(*map, other), toml, other);
  Budget reading(toml.size());
  if (const auto map_again = parse_toml(toml, reading); !map_again && map_again.error().code != Code::unsupported)
    complain("rendered TOML cannot be read: " + map_again.error().message);
}

// Tensor names, one per line. Paths are unique, none runs through another, and each component is a file name.
void run_names(std::string_view input) {
  std::vector<TensorName> names;
  for (size_t begin = 0; begin <= input.size();) {
    const size_t end = std::min(input.find('\n', begin), input.size());
    const std::string_view line = input.substr(begin, end - begin);
    const size_t scope = line.starts_with('@') ? line.find(' ') : line.npos;
    names.push_back(scope == line.npos ? TensorName{"", line}
                                       : TensorName{line.substr(1, scope - 1), line.substr(scope + 1)});
    begin = end + 1;
  }
  for (const std::string_view suffix : {"", ".npy"}) {
    StringArena texts;
    const auto paths = paths_of(names, suffix, texts);
    if (paths.size() != names.size()) complain(fmt::format("{} names become {} paths", names.size(), paths.size()));
    for (size_t i = 0; i < paths.size(); ++i) {
      const std::string_view path = paths[i].path();
      for (size_t begin = 0; begin <= path.size();) {
        const size_t end = std::min(path.find('/', begin), path.size());
        if (!is_file_name(path.substr(begin, end - begin))) complain(quoted(path) + " is not a path");
        begin = end + 1;
      }
      if (i == 0) continue;
      const std::string_view before = paths[i - 1].path();
      if (!path_less(before, path)) complain(quoted(path) + " appears twice or in disorder");
      if (path.starts_with(before) && path.substr(before.size()).starts_with('/'))
        complain(quoted(path) + " runs through another");
    }
  }
}

// The short form means the same model. It has neither a scheme nor a digest.
void check_shortest(ollama::Name name) {
  const auto again = ollama::parse_name(name.shortest());
  name.scheme = ollama::Name().scheme;
  name.digest = std::nullopt;
  if (!again || !(*again == name)) complain(quoted(name.shortest()) + " means another model");
}

void run_ollama_manifest(std::string_view input) {
  Warnings warnings;
  Budget budget(input.size());
  if (const auto manifest = ollama::read_manifest(std::string(input), warnings, budget); !manifest)
    check_message(manifest.error());
  else
    for (const ollama::Descriptor& layer : manifest->layers)
      if (const auto type = ollama::parse_media_type(layer.media_type); !type) check_message(type.error());
  for (const std::string& warning : warnings.lines())
    if (!is_one_line(warning)) complain("a warning that is not one line: " + quoted(warning));
  const std::string_view line = input.substr(0, std::min(input.find('\n'), input.size()));
  if (const auto name = ollama::parse_name(line); !name)
    check_message(name.error());
  else
    check_shortest(*name);
  if (const auto name = ollama::name_of_path(line); name && !is_file_name(name->tag))
    complain(quoted(line) + " is not a path");
  if (const auto type = ollama::parse_media_type(line); !type) check_message(type.error());
}

}  // namespace

const Target kTomlTarget = {
    .name = "toml", .run = run_toml, .limits = {.memory = 200'000, .memory_per_byte = 400}, .mutate = mutate_text};
const Target kJsonTarget = {
    .name = "json", .run = run_json, .limits = {.memory = 200'000, .memory_per_byte = 200}, .mutate = mutate_text};
const Target kRenderTarget = {
    .name = "render", .run = run_render, .limits = {.memory = 300'000, .memory_per_byte = 1000}, .mutate = mutate_text};
const Target kNamesTarget = {
    .name = "names", .run = run_names, .limits = {.memory = 150'000, .memory_per_byte = 500}, .mutate = mutate_text};
const Target kOllamaManifestTarget = {.name = "ollama_manifest",
                                      .run = run_ollama_manifest,
                                      .limits = {.memory = 300'000, .memory_per_byte = 300},
                                      .mutate = mutate_text};

}  // namespace weightfs::test
