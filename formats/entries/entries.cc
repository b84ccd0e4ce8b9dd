#include "formats/entries/entries.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/common/lenient_json.h"
#include "formats/format.h"
#include "formats/gguf/stored_keys.h"

namespace weightfs::metadata {
namespace {

constexpr size_t kMaxEntries = 100'000;
constexpr int kMaxNested = 8;       // objects in objects that are taken apart
constexpr size_t kMaxMembers = 64;  // of such an object; a larger one is opened
constexpr size_t kMaxShown = 400;   // bytes of a value
constexpr size_t kMaxListShown = 8;

// The files beside a model that describe it, by what people look for.
constexpr auto kFiles = std::to_array<const char*>({"config.json", "generation_config.json", "tokenizer_config.json",
                                                    "special_tokens_map.json", "adapter_config.json",
                                                    "preprocessor_config.json", "model_index.json"});

std::string_view type_of(const Value& value) {
  constexpr auto kNames =
      std::to_array<std::string_view>({"null", "boolean", "integer", "integer", "number", "text", "list", "object"});
  return kNames.at(value.index());
}

bool has_word(std::string_view text, std::string_view word) { return lower_case(text).find(word) != std::string::npos; }

// The keys of the GGUF in the metadata of an Ollama model.
bool is_gguf_inside(const Model& model, std::string_view key) {
  return key == "gguf" && traits_of(model.format).has_prompt_layers;
}

}  // namespace

std::shared_ptr<const Entries> Entries::of(const ModelPtr& model) {
  std::shared_ptr<Entries> out(new Entries(model));
  out->add_map("", "model", model->common, 0);
  out->metadata_ = metadata_with_facts(*model);
  for (const auto& [key, value] : out->metadata_) {
    const auto* const map = std::get_if<Map>(&value);
    if (map != nullptr && is_gguf_inside(*model, key))
      out->add_map("", "gguf", *map, 0);
    else
      out->add(key, model->format, value, 0);
  }
  out->set_types();
  out->add_files();
  return out;
}

void Entries::add_map(const std::string& before, std::string_view from, const Map& map, int depth) {
  for (const auto& [key, value] : map) add(before + key, from, value, depth);
}

void Entries::add(std::string key, std::string_view from, const Value& value, int depth) {
  if (all_.size() >= kMaxEntries) return;
  const auto* const map = std::get_if<Map>(&value);
  if (map != nullptr && add_note(key, from, *map)) return;
  if (map != nullptr && !map->empty() && map->size() <= kMaxMembers && depth < kMaxNested)
    return add_map(key + ".", from, *map, depth + 1);
  Entry entry;
  entry.key = std::move(key);
  entry.from = from;
  entry.type = type_of(value);
  entry.value = &value;
  const auto* const text = std::get_if<std::string>(&value);
  const auto* const list = std::get_if<List>(&value);
  if (text != nullptr) {
    entry.count = text->size();
    entry.shown = begin_of_text(*text, kMaxShown);
    if (entry.shown.size() < text->size() || text->find('\n') != text->npos) entry.opens = Opens::text;
  } else {
    entry.count = list != nullptr ? list->size() : map != nullptr ? map->size() : 0;
    const bool may_be_short = entry.count <= kMaxListShown;
    if (may_be_short) entry.shown = to_json_line(value);
    if (!may_be_short || entry.shown.size() > kMaxShown) {
      entry.shown.clear();
      entry.opens = list != nullptr ? Opens::list : Opens::object;
    }
  }
  all_.push_back(std::move(entry));
}

// A value that is a document: {"count" or "nbytes", "type", "path"}.
bool Entries::add_note(const std::string& key, std::string_view from, const Map& note) {
  const std::string_view path = text_in(note, "path");
  const auto* const count = note.find_as<uint64_t>("count");
  const auto* const bytes = note.find_as<uint64_t>("nbytes");
  if (path.empty() || (count == nullptr && bytes == nullptr)) return false;
  const auto document = std::ranges::find(model_->documents, path, &Document::path);
  if (document == model_->documents.end()) return false;
  Entry entry;
  entry.key = key;
  entry.from = from;
  entry.type = count == nullptr ? "text" : "list";
  entry.opens = count == nullptr ? Opens::text : Opens::list;
  entry.count = count == nullptr ? *bytes : *count;
  entry.document = &*document;
  all_.push_back(std::move(entry));
  return true;
}

void Entries::set_types() {
  if (model_->gguf_keys == nullptr) return;
  uint64_t bytes = 0;
  for (const GgufKeys::Entries& entries : model_->gguf_keys->entries) bytes += entries.bytes.size();
  Budget budget(bytes);
  const auto types = gguf::types_of_keys(*model_->gguf_keys, budget);
  if (!types) return;
  for (Entry& entry : all_)
    if (const auto type = types->find(entry.key); type != types->end() && entry.from == "gguf")
      entry.type = type->second;
}

void Entries::add_files() {
  if (model_->beside == nullptr) return;
  for (const char* const path : kFiles) {
    const auto file = model_->beside->open(path);
    if (!file) continue;
    Budget budget((*file)->size());
    auto value = parse_small_json(**file, budget);
    auto* const map = value ? std::get_if<Map>(&*value) : nullptr;
    if (map == nullptr) continue;
    files_.push_back(std::make_unique<const Map>(std::move(*map)));
    add_map("", path, *files_.back(), 0);
  }
}

std::vector<uint32_t> Entries::find(const std::vector<std::string>& words, std::string_view from) const {
  std::vector<uint32_t> out;
  for (uint32_t place = 0; place < all_.size(); ++place) {
    const Entry& entry = all_[place];
    const auto has = [&](const std::string& word) {
      return has_word(entry.key, word) || has_word(entry.type, word) || has_word(entry.shown, word);
    };
    if ((from.empty() || entry.from == from) && std::ranges::all_of(words, has)) out.push_back(place);
  }
  return out;
}

Result<Page> Entries::open(uint64_t entry, uint64_t offset, uint64_t limit) const {
  if (entry >= all_.size()) return failure(Code::not_found, "the model has no such entry");
  if (limit > kMaxPage) return failure(Code::unsupported, "a page has at most 1000 items");
  const Entry& opened = all_[static_cast<size_t>(entry)];
  if (opened.document != nullptr) return page_of_document(*TRY(opened.document->source.get()), offset, limit);
  return page_of_value(*opened.value, offset, limit);
}

}  // namespace weightfs::metadata
