#include "formats/tfjs/manifest.h"

#include <fmt/core.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/values/json.h"
#include "formats/code/keras.h"
#include "formats/code/operators.h"

namespace weightfs::tfjs {
namespace {

// A weight takes some ten values: more than 100,000 fit.
constexpr uint64_t kMaxManifestValues = 2'000'000;
constexpr uint64_t kMaxFactValues = 65'536;

// Counts operators while it passes over a topology: "op" of the nodes in a list "node" of a graph, "class_name" of the
// layers in any list "layers".
class Topology {
 public:
  /// `out` outlives it.
  Topology(Budget& budget, ModelJson& out) : budget_(budget), counts_(out.operators), code_(out.code) {}

  void key(std::string_view name) {
    open_.back().key = name == "node"         ? Key::node
                       : name == "layers"     ? Key::layers
                       : name == "op"         ? Key::op
                       : name == "class_name" ? Key::class_name
                                              : Key::other;
  }
  Result<void> text(const std::string& text) {
    if (open_.empty()) return {};
    const Open& inner = open_.back();
    const bool is_counted = !inner.is_list && ((inner.list == Key::node && inner.key == Key::op) ||
                                               (inner.list == Key::layers && inner.key == Key::class_name));
    if (!is_counted) return {};
    const auto known = counts_.find(text);
    if (known != counts_.end()) {
      ++known->second;
      return {};
    }
    TRY_VOID(budget_.charge(Cost::value, 2));
    TRY_VOID(budget_.charge(Cost::kept, text.size()));
    counts_.emplace(text, 1);
    if (inner.list == Key::layers)
      code::add_layer_class(text, "", code_);
    else
      code::add_tensorflow(text, "", code_);
    return {};
  }
  void begin(bool is_list) {
    const Open outer = open_.empty() ? Open() : open_.back();
    Open& inner = open_.emplace_back();
    inner.is_list = is_list;
    if (outer.is_list) inner.list = outer.key;  // an object in a list
    if (is_list) inner.key = outer.key;
  }
  void end() { open_.pop_back(); }

 private:
  enum class Key : uint8_t { other, node, layers, op, class_name };

  struct Open {
    Key key = Key::other;   // of the next value; of a list its own
    Key list = Key::other;  // of an object: the key of the list that it is in
    bool is_list = false;
  };

  Budget& budget_;
  std::map<std::string, uint64_t>& counts_;
  CodeList& code_;
  std::vector<Open> open_;
};

class Reader final : public JsonEvents {
 public:
  explicit Reader(Budget& budget)
      : topology_(budget, out_), manifest_(kMaxManifestValues, budget), facts_(kMaxFactValues, budget) {}

  bool scalar(Value value) override {
    return pass([&](JsonEvents& builder) { return builder.scalar(std::move(value)); });
  }
  bool unsigned_integer(uint64_t n) override {
    return pass([&](JsonEvents& builder) { return builder.unsigned_integer(n); });
  }
  bool string(std::string& text) override {
    if (in_ == In::topology && depth_ > 1) return check(topology_.text(text));
    return pass([&](JsonEvents& builder) { return builder.string(text); });
  }
  bool key(std::string& text) override {
    if (depth_ != 1 || in_ == In::bare) {
      if (in_ == In::topology) topology_.key(text);
      return in_ == In::topology || pass([&](JsonEvents& builder) { return builder.key(text); });
    }
    in_ = text == "weightsManifest" ? In::manifest : text == "modelTopology" ? In::topology : In::facts;
    if (in_ == In::manifest) has_manifest_ = true;
    return in_ != In::facts || pass([&](JsonEvents& builder) { return builder.key(text); });
  }
  bool begin_object() override { return begin(false); }
  bool begin_array() override { return begin(true); }
  bool end_object() override { return end(false); }
  bool end_array() override { return end(true); }

  // `whole`: the result of read_json.
  Result<ModelJson> take(const Result<void>& whole, Warnings& warnings) {
    if (problem_) return tl::unexpected(*problem_);
    for (const ValueBuilder* const builder : {&manifest_, &facts_})
      if (builder->over_budget()) return tl::unexpected(*builder->over_budget());
    if (manifest_.full())
      return failure(Code::unsupported, fmt::format("a manifest of more than {} values", kMaxManifestValues));
    TRY_VOID(whole);
    if (!has_manifest_) return failure(Code::unsupported, "JSON without a \"weightsManifest\"");
    out_.manifest = manifest_.take();
    Value facts = facts_.take();
    if (has_too_many_facts_)
      warnings.add("facts of more than {} values: left out", kMaxFactValues);
    else if (auto* const map = std::get_if<Map>(&facts))
      out_.facts = std::move(*map);
    return std::move(out_);
  }

 private:
  enum class In : uint8_t { outside, bare, manifest, topology, facts };

  bool check(const Result<void>& result) {
    if (!result) problem_ = result.error();
    return result.has_value();
  }

  // An event of a value that is kept.
  template <class Event>
  bool pass(const Event& event) {
    if (depth_ == 0) return check(failure(Code::unsupported, "no JSON object"));
    if (in_ == In::manifest || in_ == In::bare) return event(manifest_);
    if (in_ == In::topology || has_too_many_facts_ || event(facts_)) return true;
    if (facts_.over_budget()) return false;
    has_too_many_facts_ = true;
    facts_.release();
    return true;
  }

  bool begin(bool is_list) {
    if (depth_++ == 0) {
      in_ = is_list ? In::bare : In::facts;
      has_manifest_ = is_list;
    } else if (in_ == In::topology) {
      topology_.begin(is_list);
      return true;
    }
    return pass([&](JsonEvents& builder) { return is_list ? builder.begin_array() : builder.begin_object(); });
  }

  bool end(bool is_list) {
    if (in_ == In::topology && depth_ > 1) {
      --depth_;
      topology_.end();
      return true;
    }
    if (depth_ == 1 && in_ != In::bare) in_ = In::facts;
    const bool went_on =
        pass([&](JsonEvents& builder) { return is_list ? builder.end_array() : builder.end_object(); });
    --depth_;
    return went_on;
  }

  ModelJson out_;
  Topology topology_;
  ValueBuilder manifest_, facts_;
  std::optional<Error> problem_;
  int depth_ = 0;
  In in_ = In::outside;
  bool has_manifest_ = false;
  bool has_too_many_facts_ = false;
};

}  // namespace

Result<ModelJson> read_model_json(const Source& json, Budget& budget, Warnings& warnings) {
  if (json.size() > kMaxModelJson)
    return failure(Code::unsupported, fmt::format("{} bytes of JSON, at most {} are read", json.size(), kMaxModelJson));
  TRY_VOID(budget.charge(Cost::input, json.size()));
  Reader reader(budget);
  return reader.take(read_json(json, 0, json.size(), reader), warnings);
}

}  // namespace weightfs::tfjs
