// XGBoost's models: JSON, UBJSON (both the document of doc/model.schema) and the binary form of versions before 3.1.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <utility>

#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/format.h"
#include "formats/trees/arrays.h"
#include "formats/trees/binary.h"
#include "formats/trees/document.h"
#include "formats/trees/long_list.h"

namespace weightfs {
namespace trees {
namespace {

// The lengths of the arrays of a tree.
enum class Length : uint8_t { nodes, leaf_vectors, any };

struct ArrayKey {
  std::string_view key;
  Element element;
  Length length = Length::nodes;
};

// RegTree::SaveModel and MultiTargetTree::SaveModel.
constexpr auto kTreeArrays = std::to_array<ArrayKey>({
    {"base_weights", Element::float32, Length::leaf_vectors},
    {"categories", Element::int32, Length::any},
    {"categories_nodes", Element::int32, Length::any},
    {"categories_segments", Element::int64, Length::any},
    {"categories_sizes", Element::int64, Length::any},
    {"default_left", Element::uint8},
    {"leaf_weights", Element::float32, Length::any},
    {"left_children", Element::int32},
    {"loss_changes", Element::float32},
    {"parents", Element::int32},
    {"right_children", Element::int32},
    {"split_conditions", Element::float32},
    {"split_indices", Element::int32},
    {"split_type", Element::uint8},
    {"sum_hessian", Element::float32},
});

// GBTreeModel::SaveModel, Dart::SaveModel and GBLinearModel::SaveModel.
constexpr auto kModelArrays = std::to_array<ArrayKey>({
    {"iteration_indptr", Element::int32},
    {"tree_info", Element::int32},
    {"weights", Element::float32},
});
constexpr ArrayKey kWeightDrop = {"weight_drop", Element::float32};

// The document of Booster.serialize and the objects in it.
constexpr int kMaxWrapped = 4;

template <size_t size>
const ArrayKey* find_array(const std::array<ArrayKey, size>& keys, std::string_view key) {
  const auto found = std::ranges::find(keys, key, &ArrayKey::key);
  return found == keys.end() ? nullptr : &*found;
}

class DocumentReader {
 public:
  enum class Form { json, ubjson };

  DocumentReader(const Container& container, Form form)
      : container_(container),
        form_(form),
        document_(open(form, *container.bytes, 0, container.budget.get())),
        arrays_(model_, warnings_, *container.budget),
        facts_(*container.budget) {}

  Result<Model> read() {
    TRY_VOID(container_.budget->charge(Cost::input, container_.bytes->size()));
    if (TRY(document_->kind()) != Document::Kind::object) return failure(Code::unsupported, "not an object");
    Map metadata = TRY(read_root(0));
    if (!has_booster_) return failure(Code::unsupported, "no model of XGBoost: the learner has no gradient_booster");
    TRY_VOID(arrays_.finish(container_.bytes));
    if (const uint64_t stated = stated_trees_.value_or(trees_); trees_ != stated)
      warnings_.miss_tensors(0, Code::corrupt, "{} trees, num_trees is {}", trees_, stated);
    if (unknown_arrays_ > 0)
      warnings_.add("{} arrays of trees are unknown, and not shown; the first one is {}", unknown_arrays_,
                    quoted(unknown_array_));
    if (facts_.omitted() > 0) warnings_.add("{} values of the metadata are not shown", facts_.omitted());
    model_.format = "xgboost";
    model_.version = version_of(metadata);
    model_.metadata = std::move(metadata);
    model_.parts.push_back({container_.name, Later<SourcePtr>::of(container_.bytes)});
    std::move(warnings_).move_to(model_);
    return std::move(model_);
  }

 private:
  static std::unique_ptr<Document> open(Form form, const Source& source, uint64_t begin, Budget* budget) {
    return form == Form::json ? open_json(source, begin, budget) : open_ubjson(source, begin);
  }

  static std::string version_of(const Map& metadata) {
    std::string text;
    const auto* const version = metadata.find_as<List>("version");
    for (const Value& number : version == nullptr ? List() : *version)
      text += (text.empty() ? "" : ".") + to_json_line(number);
    return text.substr(0, 50);
  }

  // Reads an object; `take(key)` reads the value of a key and returns whether it is a fact, which it then left to be
  // read.
  template <class Take>
  Result<Map> read_object(const Take& take) {
    Map facts;
    if (TRY(document_->kind()) != Document::Kind::object)
      return failure(Code::corrupt, fmt::format("an object expected at byte {}", document_->position()));
    TRY_VOID(document_->enter());
    while (const auto key = TRY(document_->next_key())) {
      std::optional<Value> value = TRY(take(*key));
      if (!value) continue;
      TRY_VOID(container_.budget->charge(Cost::value));
      TRY_VOID(container_.budget->charge(Cost::kept, key->size()));
      facts.append(*key, std::move(*value));
    }
    facts.keep_last_of_each_key();
    return facts;
  }

  using Taken = Result<std::optional<Value>>;

  Taken fact() {
    const bool is_omitted = facts_.is_full();
    Value value = TRY(facts_.read(*document_));
    return is_omitted ? std::nullopt : std::optional(std::move(value));
  }

  Result<Map> read_root(int depth) {
    return read_object([&](const std::string& key) -> Taken {
      if (key == "learner") return std::optional<Value>(TRY(read_learner()));
      if (key == "Model" && depth < kMaxWrapped) return std::optional<Value>(TRY(read_root(depth + 1)));
      return fact();
    });
  }

  Result<Map> read_learner() {
    return read_object([&](const std::string& key) -> Taken {
      if (key == "gradient_booster") return std::optional<Value>(TRY(read_booster(0)));
      if (key == "feature_names" || key == "feature_types") return read_names(key);
      return fact();
    });
  }

  // A list of texts, which may be long.
  Taken read_names(const std::string& key) {
    if (TRY(document_->kind()) != Document::Kind::array) return fact();
    const uint64_t begin = document_->position();
    MetadataReader reader(*container_.budget);
    Value names = TRY(reader.read(*document_));
    if (reader.omitted() == 0) return std::optional(std::move(names));
    release(footprint(names), *container_.budget);
    return std::optional(
        long_list(model_, key, container_, [form = form_, begin](const Source& file, const TakeText& take) {
          return each_text(*open(form, file, begin, nullptr), take);
        }));
  }

  static Result<void> each_text(Document& list, const TakeText& take) {
    TRY_VOID(list.enter());
    while (TRY(list.next_element())) {
      if (TRY(list.kind()) != Document::Kind::text) {
        TRY_VOID(skip(list));
        continue;
      }
      const std::string text = TRY(list.text());
      TRY_VOID(take(text));
    }
    return {};
  }

  // The trees of dart are in a booster inside of the booster.
  Result<Map> read_booster(int depth) {
    has_booster_ = true;
    return read_object([&](const std::string& key) -> Taken {
      if (key == "model") return std::optional<Value>(TRY(read_model()));
      if (key == "gbtree" && depth < kMaxWrapped) return std::optional<Value>(TRY(read_booster(depth + 1)));
      if (key == kWeightDrop.key) return read_array(std::string(key), kWeightDrop);
      return fact();
    });
  }

  Result<Map> read_model() {
    return read_object([&](const std::string& key) -> Taken {
      if (key == "trees") return read_trees();
      if (const ArrayKey* const array = find_array(kModelArrays, key)) return read_array(key, *array);
      auto value = TRY(fact());
      if (value && key == "gbtree_model_param") stated_trees_ = number_in(*value, "num_trees");
      return value;
    });
  }

  // Parameters are numbers as text.
  static std::optional<uint64_t> number_in(const Value& parameters, std::string_view key) {
    const auto* const map = std::get_if<Map>(&parameters);
    return map == nullptr ? std::nullopt : parse_number<uint64_t>(text_in(*map, key));
  }

  Taken read_array(std::string name, const ArrayKey& array) {
    const auto run = TRY(read_numbers(*document_, array.element, arrays_.runs(), arrays_.budget()));
    TRY_VOID(arrays_.add(std::move(name), array.element, run));
    return std::nullopt;
  }

  Taken read_trees() {
    if (TRY(document_->kind()) != Document::Kind::array) return fact();
    TRY_VOID(document_->enter());
    for (; TRY(document_->next_element()); ++trees_) TRY_VOID(read_tree());
    return std::nullopt;
  }

  Result<void> read_tree() {
    const size_t first = model_.tensors.size();
    std::vector<Length> lengths;
    std::optional<uint64_t> nodes, leaf_vector;
    TRY_VOID(container_.budget->charge(Cost::step));
    const auto take = [&](const std::string& key) -> Taken {
      if (const ArrayKey* const array = find_array(kTreeArrays, key)) {
        lengths.push_back(array->length);
        return read_array(fmt::format("trees.{}.{}", trees_, key), *array);
      }
      if (key != "tree_param") {
        if (TRY(document_->kind()) == Document::Kind::array) note_unknown(key);
        TRY_VOID(skip(*document_));
        return std::nullopt;
      }
      MetadataReader parameters(*container_.budget);
      const Value value = TRY(parameters.read(*document_));
      nodes = number_in(value, "num_nodes");
      leaf_vector = number_in(value, "size_leaf_vector");
      release(footprint(value), *container_.budget);
      return std::nullopt;
    };
    TRY(read_object(take));
    if (nodes) check_arrays(first, leaf_vector.value_or(0));
    for (size_t i = 0; nodes && i < lengths.size(); ++i)
      check_length(first + i, lengths[i], *nodes, leaf_vector.value_or(0));
    return {};
  }

  // An array of a version that is not known here.
  void note_unknown(const std::string& key) {
    if (unknown_arrays_++ == 0) unknown_array_ = key;
  }

  // The arrays that RegTree::LoadModel and MultiTargetTree::LoadModel need; only the former needs the statistics.
  void check_arrays(size_t first, uint64_t leaf_vector) {
    constexpr auto kNeeded =
        std::to_array<std::string_view>({"base_weights", "default_left", "left_children", "parents", "right_children",
                                         "split_conditions", "split_indices", "loss_changes", "sum_hessian"});
    constexpr size_t kStatistics = 2;
    const size_t needed = kNeeded.size() - (leaf_vector > 1 ? kStatistics : 0);
    std::set<std::string_view> found;
    const std::string prefix = fmt::format("trees.{}.", trees_);
    for (size_t i = first; i < model_.tensors.size(); ++i) found.insert(model_.tensors.name(i).substr(prefix.size()));
    for (const std::string_view key : std::span(kNeeded).first(needed))
      if (!found.contains(key)) warnings_.miss_tensors(1, Code::corrupt, "trees.{}: {} is missing", trees_, key);
  }

  // The writer's array lengths follow from the number of nodes.
  void check_length(size_t tensor, Length length, uint64_t nodes, uint64_t leaf_vector) {
    if (length == Length::any || model_.tensors.shape(tensor).empty()) return;
    const uint64_t count = model_.tensors.shape(tensor)[0];
    const uint64_t factor = length == Length::leaf_vectors ? std::max<uint64_t>(leaf_vector, 1) : 1;
    if (count != nodes && (count % factor != 0 || count / factor != nodes))
      warnings_.add("tensor {}: {} elements, but num_nodes is {}", quoted(model_.tensors.name(tensor)), count, nodes);
  }

  const Container& container_;
  Form form_;
  std::unique_ptr<Document> document_;
  Model model_;
  Warnings warnings_;
  Arrays arrays_;
  MetadataReader facts_;
  uint64_t trees_ = 0;
  uint64_t unknown_arrays_ = 0;
  std::string unknown_array_;  // the key of the first one
  std::optional<uint64_t> stated_trees_;
  bool has_booster_ = false;
};

// The first key of an object in UBJSON.
std::string_view first_key(std::string_view head) {
  if (!head.starts_with('{') || head.size() < 2) return "";
  const size_t width = bytes_of_marker(head[1]).value_or(0);
  if (width == 0 || head.size() < 2 + width) return "";
  const Number length = number_of_marker(head[1], head.substr(2, width));
  constexpr int64_t kLongest = 32;
  if (!length.is_integer || length.integer < 1 || length.integer > kLongest) return "";
  return head.substr(2 + width, static_cast<size_t>(length.integer));
}

bool is_ubjson(std::string_view head) {
  const std::string_view key = first_key(head);
  return key == "learner" ||
         (head.find("learner") != head.npos && (key == "Config" || key == "Model" || key == "version"));
}

// Whether it begins with the key of a model, or has the keys of one.
Match matches_json(const Probe& probe) {
  if (!probe.begins_json_object()) return Match::no;
  const size_t quote = probe.head.find('"');
  const std::string_view begin = quote == probe.head.npos ? "" : probe.head.substr(quote);
  if (begin.starts_with("\"learner\"")) return Match::yes;
  // Booster.serialize writes the configuration of the learner first.
  constexpr std::string_view kConfig = "\"Config\"";
  const size_t next = begin.starts_with(kConfig) ? begin.find('"', kConfig.size()) : begin.npos;
  if (next != begin.npos && begin.substr(next).starts_with("\"learner\"")) return Match::yes;
  const bool is_wrapped = begin.starts_with("\"Config\"") || begin.starts_with("\"version\"");
  return is_wrapped && probe.head_contains("\"learner\"") ? Match::maybe : Match::no;
}

}  // namespace
}  // namespace trees

Match matches_xgboost(const Probe& probe) {
  if (trees::is_ubjson(probe.head) || trees::is_binary(probe.head)) return Match::yes;
  return trees::matches_json(probe);
}

Result<Model> read_xgboost(const Container& container) {
  using Reader = trees::DocumentReader;
  const uint64_t shown = std::min<uint64_t>(container.bytes->size(), kHeadSize);
  const std::string head = TRY(read_text(*container.bytes, 0, shown));
  if (trees::is_ubjson(head)) return Reader(container, Reader::Form::ubjson).read();
  if (trees::is_binary(head)) return trees::read_binary(container);  // its first number may begin like JSON
  if (head.find_first_not_of(" \t\r\n{") != 0) return Reader(container, Reader::Form::json).read();
  return trees::read_binary(container);
}

}  // namespace weightfs
