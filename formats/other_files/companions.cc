#include "formats/other_files/companions.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/text.h"
#include "formats/common/warnings.h"
#include "formats/other_files/texts.h"
#include "formats/tfjs/manifest.h"

namespace weightfs::other_files {
namespace {

// A file and its main file, which have the same name but for the suffix.
struct Pair {
  std::string_view suffix, begin;  // of the file
  std::string_view main_suffix;
  std::string_view main_text;  // in the first bytes of the main file
  std::string_view what;
  std::string_view without_main =
      {};  // for the message if there is no main file; empty: the file is not recognised then
  bool (*is_one)(std::string_view begin) = nullptr;  // without its main file
};

// A layer in a text of protobuf: `layer {`, `layers{`, `layer: {`.
bool has_layers(std::string_view text) {
  constexpr std::string_view kLayer = "layer";
  const auto is_space = [](char c) { return std::string_view(" \t\r\n}").find(c) != std::string_view::npos; };
  for (size_t at = text.find(kLayer); at != text.npos; at = text.find(kLayer, at + 1)) {
    const std::string_view behind = text.substr(at + kLayer.size());
    const size_t end = behind.find_first_not_of(behind.starts_with('s') ? "s: \t\r\n" : ": \t\r\n");
    const bool is_word = at == 0 || is_space(text[at - 1]);
    if (is_word && end != behind.npos && behind[end] == '{') return true;
  }
  return false;
}

constexpr auto kPairs = std::to_array<Pair>({
    {".bin", "", ".xml", "<net ", "the weights of an OpenVINO model"},
    {".bin", "", ".param", "7767517", "the weights of an ncnn model"},
    {".cfg", "[net]", ".weights", "", "the configuration of a Darknet model", "its weights are in a .weights file"},
    {".cfg", "[network]", ".weights", "", "the configuration of a Darknet model", "its weights are in a .weights file"},
    {".prototxt", "", ".caffemodel", "", "the structure of a Caffe model", "its weights are in a .caffemodel file",
     has_layers},
});

std::optional<std::string_view> without_suffix(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return std::nullopt;
  return name.substr(0, name.size() - suffix.size());
}

Error opened_by(std::string_view what, const std::string& name) {
  return other(fmt::format("{}; open {}", what, printable(name)));
}

bool has_file(const Container& container, const std::string& name, std::string_view text) {
  constexpr uint64_t kShown = 512;
  const auto file = container.folder == nullptr ? failure(Code::not_found, "") : container.folder->open(name);
  if (!file) return false;
  const auto begin = read_text(**file, 0, std::min((*file)->size(), kShown));
  return begin && begin->find(text) != begin->npos;
}

// The arrays of "net-symbol.json" are in "net-0000.params", where the number is that of the epoch.
std::optional<std::string> mxnet_arrays(const Container& container) {
  constexpr size_t kDigits = 4;
  constexpr std::string_view kParams = ".params";
  const auto stem = without_suffix(container.name, "-symbol.json");
  if (!stem || container.folder == nullptr) return std::nullopt;
  const std::string begin = std::string(*stem) + "-";
  std::string first = begin + "0000" + std::string(kParams);
  if (has_file(container, first, "")) return first;
  const auto names = container.folder->lists_files() ? container.folder->names() : std::vector<std::string>();
  if (!names) return std::nullopt;
  const auto found = std::ranges::find_if(*names, [&](std::string_view name) {
    if (!name.starts_with(begin) || name.size() != begin.size() + kDigits + kParams.size()) return false;
    return name.ends_with(kParams) && name.substr(begin.size(), kDigits).find_first_not_of("0123456789") == name.npos;
  });
  return found == names->end() ? std::nullopt : std::optional(*found);
}

// Whether a manifest of TensorFlow.js lists this file.
bool lists(const Value& manifest, std::string_view name) {
  const auto* const groups = std::get_if<List>(&manifest);
  if (groups == nullptr) return false;
  const auto is_it = [&](const Value& path) {
    const auto* const text = std::get_if<std::string>(&path);
    return text != nullptr && (*text == name || *text == "./" + std::string(name));
  };
  return std::ranges::any_of(*groups, [&](const Value& group) {
    const auto* const map = std::get_if<Map>(&group);
    const auto* const paths = map == nullptr ? nullptr : map->find_as<List>("paths");
    return paths != nullptr && std::ranges::any_of(*paths, is_it);
  });
}

// A shard of TensorFlow.js. A model.json that is too large for the budget of this file is not read.
bool is_tfjs_shard(const Container& container) {
  constexpr const char* kModelJson = "model.json";
  if (container.folder == nullptr || container.name.ends_with(".json")) return false;
  const auto file = container.folder->open(kModelJson);
  if (!file) return false;
  Warnings ignored;
  const auto json = tfjs::read_model_json(**file, *container.budget, ignored);
  return json && lists(json->manifest, container.name);
}

}  // namespace

std::optional<Error> companion(const Container& container, std::string_view begin) {
  std::optional<Error> alone;
  for (const Pair& pair : kPairs) {
    const auto stem = without_suffix(container.name, pair.suffix);
    if (!stem || !begin.starts_with(pair.begin)) continue;
    const std::string name = std::string(*stem) + std::string(pair.main_suffix);
    if (has_file(container, name, pair.main_text)) return opened_by(pair.what, name);
    const bool is_one = pair.is_one == nullptr || pair.is_one(begin);
    if (!pair.without_main.empty() && is_one) alone = other(fmt::format("{}; {}", pair.what, pair.without_main));
  }
  if (alone) return alone;
  if (const auto arrays = mxnet_arrays(container)) return opened_by("the graph of an MXNet model", *arrays);
  if (is_tfjs_shard(container)) return opened_by("weights of a TensorFlow.js model", "model.json");
  return std::nullopt;
}

}  // namespace weightfs::other_files
