#include "formats/pt2/program.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/values/json.h"
#include "formats/model.h"

namespace weightfs::pt2 {
namespace {

// Those of a program without its graph: a few for each input and parameter.
constexpr uint64_t kMaxValues = 1'000'000;

// What a value of the JSON is.
enum class Is : uint8_t { program, module, graph, nodes, node, target, kept, skipped };

Is value_of(Is object, std::string_view key) {
  switch (object) {
    case Is::program:
      if (key == "graph_module") return Is::module;
      return key == "torch_version" || key == "schema_version" || key == "opset_version" ? Is::kept : Is::skipped;
    case Is::module:
      return key == "graph" ? Is::graph : key == "signature" ? Is::kept : Is::skipped;
    case Is::graph:
      return key == "nodes" ? Is::nodes : Is::skipped;
    case Is::node:
      return key == "target" ? Is::target : Is::skipped;
    case Is::kept:
      return Is::kept;
    default:
      return Is::skipped;
  }
}

// Whether objects of this kind are in the value that is built.
bool is_built(Is value) { return value == Is::program || value == Is::module || value == Is::kept; }

class ProgramReader final : public JsonEvents {
 public:
  explicit ProgramReader(Budget& budget) : budget_(budget), built_(kMaxValues, budget) {}

  bool scalar(Value value) override { return next() != Is::kept || built_.scalar(std::move(value)); }
  bool unsigned_integer(uint64_t n) override { return next() != Is::kept || built_.unsigned_integer(n); }
  bool string(std::string& text) override {
    const Is is = next();
    return is == Is::target ? count(text) : is != Is::kept || built_.string(text);
  }
  bool key(std::string& text) override {
    next_ = value_of(open_.back(), text);
    return !is_built(next_) || built_.key(text);
  }
  bool begin_object() override { return begin(false); }
  bool begin_array() override { return begin(true); }
  bool end_object() override { return end(false); }
  bool end_array() override { return end(true); }

  /// `whole`: the result of read_json.
  Result<Map> take(const Result<void>& whole) {
    if (problem_) return tl::unexpected(*problem_);
    if (built_.over_budget()) return tl::unexpected(*built_.over_budget());
    if (built_.full()) return failure(Code::unsupported, fmt::format("more than {} values", kMaxValues));
    TRY_VOID(whole);
    Value value = built_.take();
    auto* const program = std::get_if<Map>(&value);
    if (program == nullptr || program->find_as<Map>("graph_module") == nullptr)
      return failure(Code::unsupported, "JSON without a \"graph_module\"");
    return std::move(*program);
  }

  Map operators() const {
    Map counts;
    for (const auto& [name, count] : operators_) counts.append(name, count);
    return counts;
  }

 private:
  // What the value is that begins now. Elements of a list are as the list.
  Is next() const { return open_.empty() ? Is::program : open_.back() == Is::nodes ? Is::node : next_; }

  bool begin(bool is_list) {
    const Is is = next();
    open_.push_back(is);
    next_ = is;
    if (!is_built(is)) return true;
    return is_list ? built_.begin_array() : built_.begin_object();
  }

  bool end(bool is_list) {
    const Is is = open_.back();
    open_.pop_back();
    next_ = open_.empty() ? Is::program : open_.back();
    if (!is_built(is)) return true;
    return is_list ? built_.end_array() : built_.end_object();
  }

  bool count(const std::string& name) {
    const auto known = operators_.find(name);
    if (known != operators_.end()) {
      ++known->second;
      return true;
    }
    auto charged = budget_.charge(Cost::value, 2);
    if (charged) charged = budget_.charge(Cost::kept, name.size());
    if (!charged) problem_ = charged.error();
    if (charged) operators_.emplace(name, 1);
    return charged.has_value();
  }

  Budget& budget_;
  ValueBuilder built_;
  std::map<std::string, uint64_t> operators_;
  std::optional<Error> problem_;
  std::vector<Is> open_;
  Is next_ = Is::program;
};

// The inputs or outputs of the program among the specs of a signature: those of the kind `user`, not the parameters.
List ends_of(const Map& signature, std::string_view specs, std::string_view user) {
  List ends;
  const auto* const list = signature.find_as<List>(specs);
  for (const Value& spec : list == nullptr ? List() : *list) {
    const auto* const map = std::get_if<Map>(&spec);
    const auto* const one = map == nullptr ? nullptr : map->find_as<Map>(user);
    const auto* const argument = one == nullptr ? nullptr : one->find_as<Map>("arg");
    const auto* const tensor = argument == nullptr ? nullptr : argument->find_as<Map>("as_tensor");
    const std::string_view name = tensor == nullptr ? std::string_view() : text_in(*tensor, "name");
    if (name.empty() || ends.size() == kMaxInlineList) continue;
    Map end;
    end.append("name", name);
    ends.emplace_back(std::move(end));
  }
  return ends;
}

Map facts_of(const Map& program, Map operators) {
  Map facts;
  for (const char* const key : {"torch_version", "schema_version", "opset_version"})
    if (const Value* const value = program.find(key)) facts.append(key, *value);
  const auto* const signature = program.find_as<Map>("graph_module")->find_as<Map>("signature");
  const Map& ends = signature == nullptr ? program : *signature;
  if (List inputs = ends_of(ends, "input_specs", "user_input"); !inputs.empty())
    facts.append("inputs", std::move(inputs));
  if (List outputs = ends_of(ends, "output_specs", "user_output"); !outputs.empty())
    facts.append("outputs", std::move(outputs));
  if (!operators.empty()) facts.append("operators", std::move(operators));
  return facts;
}

}  // namespace

Result<Map> describe_program(const Source& json, Budget& budget) {
  if (json.size() > kMaxJson)
    return failure(Code::unsupported, fmt::format("{} bytes of JSON, at most {} are read", json.size(), kMaxJson));
  TRY_VOID(budget.charge(Cost::input, json.size()));
  ProgramReader reader(budget);
  const Map program = TRY(reader.take(read_json(json, 0, json.size(), reader)));
  Map facts = facts_of(program, reader.operators());
  TRY_VOID(charge(footprint(facts), budget));
  release(footprint(program), budget);
  return facts;
}

}  // namespace weightfs::pt2
