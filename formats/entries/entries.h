// The metadata of a model as a flat list: a row for each value that a person looks for, whatever its format. Long lists
// are opened page by page.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/values/value.h"
#include "formats/entries/document_page.h"
#include "formats/model.h"

namespace weightfs::metadata {

/// What an entry has to be opened for.
enum class Opens { nothing, text, list, object };

struct Entry {
  std::string key;    ///< "general.name", "rope_scaling.factor": names of nested objects joined by a point
  std::string from;   ///< "gguf", "safetensors", "config.json"; "model" for the fields that all formats have
  std::string type;   ///< of GGUF: "uint32", "array of string"; else of JSON: "text", "number", "list", …
  std::string shown;  ///< the value, if it is short, else the begin of a text
  Opens opens = Opens::nothing;
  uint64_t count = 0;                  ///< of the items, or the bytes of a text
  const Value* value = nullptr;        ///< null if a document has it
  const Document* document = nullptr;  ///< of JSON
};

/// Callable from any thread.
class Entries {
 public:
  static constexpr uint64_t kMaxPage = 1000;

  /// Those of metadata.json, and of the small files beside the model, as far as they can be read. At most 100,000.
  static std::shared_ptr<const Entries> of(const ModelPtr& model);

  const std::vector<Entry>& all() const { return all_; }

  /// The places of the entries whose key, type or value has all words (in lower case), and that are from `from`, if it
  /// is not empty.
  std::vector<uint32_t> find(const std::vector<std::string>& words, std::string_view from) const;

  /// The items [offset, offset + limit) of an entry. Fails with unsupported beyond kMaxPage, and as reading does.
  Result<Page> open(uint64_t entry, uint64_t offset, uint64_t limit) const;

 private:
  explicit Entries(ModelPtr model) : model_(std::move(model)) {}

  void add(std::string key, std::string_view from, const Value& value, int depth);
  void add_map(const std::string& before, std::string_view from, const Map& map, int depth);
  bool add_note(const std::string& key, std::string_view from, const Map& note);
  void add_files();
  void set_types();

  ModelPtr model_;
  Map metadata_;
  std::vector<std::unique_ptr<const Map>> files_;
  std::vector<Entry> all_;
};

}  // namespace weightfs::metadata
