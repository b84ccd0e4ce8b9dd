// carton.toml: validates the keys of the specification.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "formats/carton/carton.h"

namespace weightfs::carton {
namespace {

constexpr std::array<std::string_view, 11> kDTypes = {"float32", "float64", "string", "int8",   "int16", "int32",
                                                      "int64",   "uint8",   "uint16", "uint32", "uint64"};

bool is_dtype(std::string_view name) { return std::find(kDTypes.begin(), kDTypes.end(), name) != kDTypes.end(); }

bool is_text(const Value& value) { return std::holds_alternative<std::string>(value); }
bool is_count(const Value& value) { return std::holds_alternative<int64_t>(value) && std::get<int64_t>(value) >= 0; }

// A value for a message.
std::string shown(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text != nullptr) return quoted(*text);
  constexpr size_t kMaxLength = 80;
  const std::string json = to_json_line(value);
  return json.size() <= kMaxLength ? json : "a longer value";
}

bool all_digits(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == text.npos; }

// A comparator of a version requirement: an operator, then up to three numbers or wildcards, then what a release may
// have behind it.
bool is_comparator(std::string_view text) {
  const std::string_view sign = text.substr(0, text.find_first_not_of("=<>~^"));
  constexpr std::array<std::string_view, 8> kSigns = {"", "=", ">", ">=", "<", "<=", "~", "^"};
  if (std::find(kSigns.begin(), kSigns.end(), sign) == kSigns.end()) return false;
  std::string_view version = text.substr(sign.size());
  version.remove_prefix(std::min(version.find_first_not_of(' '), version.size()));
  version = version.substr(0, version.find_first_of("-+"));
  size_t numbers = 0;
  while (!version.empty()) {
    const size_t dot = std::min(version.find('.'), version.size());
    const std::string_view number = version.substr(0, dot);
    if (!all_digits(number) && number != "*" && number != "x" && number != "X") return false;
    if (++numbers > 3 || (dot + 1 == version.size())) return false;
    version.remove_prefix(std::min(dot + 1, version.size()));
  }
  return numbers > 0;
}

// A requirement as the semver crate reads it: comparators with commas between them.
bool is_version_requirement(std::string_view text) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string_view one = text.substr(begin, end - begin);
    one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
    one.remove_suffix(one.size() - (one.find_last_not_of(' ') + 1));
    if (!is_comparator(one)) return false;
    begin = end + 1;
  }
  return true;
}

// Two to four parts with dashes between them: x86_64-unknown-linux-gnu.
bool is_target_triple(std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
  };
  const auto dashes = std::count(text.begin(), text.end(), '-');
  return dashes >= 1 && dashes <= 3 && std::all_of(text.begin(), text.end(), is_plain) && !text.starts_with('-') &&
         !text.ends_with('-') && text.find("--") == text.npos;
}

// Looks up the keys of one table and adds warnings about invalid values.
class Table {
 public:
  Table(const Map& map, std::string path, Warnings& warnings)
      : map_(map), path_(std::move(path)), warnings_(warnings) {}

  enum class Needed { yes, no };

  // The value of `key` if it is valid, else null.
  template <class Test>
  const Value* get(std::string_view key, Needed needed, std::string_view what, const Test& test) const {
    const Value* value = map_.find(key);
    if (value == nullptr) {
      if (needed == Needed::yes) wrong(key, "{} is missing", what);
      return nullptr;
    }
    if (test(*value)) return value;
    wrong(key, "{} is expected, not {}", what, shown(*value));
    return nullptr;
  }

  const Value* text(std::string_view key, Needed needed = Needed::no) const {
    return get(key, needed, "a string", is_text);
  }

  const Map* table(std::string_view key, Needed needed = Needed::no) const {
    const auto is_table = [](const Value& value) { return std::holds_alternative<Map>(value); };
    const Value* value = get(key, needed, "a table", is_table);
    return value == nullptr ? nullptr : &std::get<Map>(*value);
  }

  const List* list(std::string_view key) const {
    const auto is_list = [](const Value& value) { return std::holds_alternative<List>(value); };
    const Value* value = get(key, Needed::no, "an array", is_list);
    return value == nullptr ? nullptr : &std::get<List>(*value);
  }

  // Calls `check` with each table of an array of tables.
  template <class Check>
  void each(std::string_view key, const Check& check) const {
    const List* tables = list(key);
    for (size_t i = 0; tables != nullptr && i < tables->size(); ++i) {
      const std::string path = fmt::format("{}{}[{}]", path_, key, i);
      if (const auto* table = std::get_if<Map>(&(*tables)[i]))
        check(Table(*table, path + ".", warnings_));
      else
        warnings_.add("carton.toml: {}: a table is expected", path);
    }
  }

  Table inside(std::string_view key, const Map& map) const {
    return {map, fmt::format("{}{}.", path_, key), warnings_};
  }
  const Map& map() const { return map_; }

  template <class... Values>
  void wrong(std::string_view key, fmt::format_string<Values...> format, Values&&... values) const {
    warnings_.add("carton.toml: {}{}: {}", path_, printable(key), fmt::format(format, std::forward<Values>(values)...));
  }

 private:
  const Map& map_;
  std::string path_;
  Warnings& warnings_;
};

using Needed = Table::Needed;

bool is_shape(const Value& value) {
  if (is_text(value)) return true;
  const auto* dimensions = std::get_if<List>(&value);
  return dimensions != nullptr &&
         std::all_of(dimensions->begin(), dimensions->end(), [](const Value& d) { return is_text(d) || is_count(d); });
}

void check_tensor(const Table& tensor) {
  tensor.text("name", Needed::yes);
  const Value* dtype = tensor.text("dtype", Needed::yes);
  if (dtype != nullptr && !is_dtype(std::get<std::string>(*dtype)))
    tensor.wrong("dtype", "{} is not a dtype of the specification", quoted(std::get<std::string>(*dtype)));
  tensor.get("shape", Needed::yes, "a symbol or an array of sizes and symbols", is_shape);
  tensor.text("description");
  tensor.text("internal_name");
}

// A table of texts that begin with one of `prefixes`.
void check_refs(const Table& of, std::string_view key, Needed needed,
                std::initializer_list<std::string_view> prefixes) {
  const Map* refs = of.table(key, needed);
  if (refs == nullptr) return;
  const Table table = of.inside(key, *refs);
  for (const auto& [name, value] : *refs) {
    const auto* text = std::get_if<std::string>(&value);
    const auto begins = [text](std::string_view prefix) { return text->starts_with(prefix); };
    if (text == nullptr || std::none_of(prefixes.begin(), prefixes.end(), begins))
      table.wrong(name, "a reference ({}…) is expected, not {}", *prefixes.begin(), shown(value));
  }
}

void check_self_test(const Table& test) {
  test.text("name");
  test.text("description");
  check_refs(test, "inputs", Needed::yes, {"@tensor_data/"});
  check_refs(test, "expected_out", Needed::no, {"@tensor_data/"});
}

void check_example(const Table& example) {
  example.text("name");
  example.text("description");
  check_refs(example, "inputs", Needed::yes, {"@tensor_data/", "@misc/"});
  check_refs(example, "sample_out", Needed::yes, {"@tensor_data/", "@misc/"});
}

void check_runner(const Table& runner) {
  runner.text("runner_name", Needed::yes);
  const Value* version = runner.text("required_framework_version", Needed::yes);
  if (version != nullptr && !is_version_requirement(std::get<std::string>(*version)))
    runner.wrong("required_framework_version", "{} is not a version requirement",
                 quoted(std::get<std::string>(*version)));
  runner.get("runner_compat_version", Needed::yes, "a whole number", is_count);
  const Map* opts = runner.table("opts");
  if (opts == nullptr) return;
  const Table table = runner.inside("opts", *opts);
  for (const auto& [name, value] : *opts)
    if (std::holds_alternative<List>(value) || std::holds_alternative<Map>(value))
      table.wrong(name, "a number, a text or a truth value is expected");
}

void check_platforms(const Table& top) {
  const List* platforms = top.list("required_platforms");
  if (platforms == nullptr) return;
  for (const Value& platform : *platforms)
    if (!is_text(platform) || !is_target_triple(std::get<std::string>(platform)))
      top.wrong("required_platforms", "{} is not a target triple", shown(platform));
}

void check(const Table& top) {
  const Value* version = top.get("spec_version", Needed::yes, "a whole number", is_count);
  if (version != nullptr && std::get<int64_t>(*version) != 1)
    top.wrong("spec_version", "{}; version 1 is supported", std::get<int64_t>(*version));
  for (const char* key : {"model_name", "short_description", "model_description", "license", "repository", "homepage"})
    top.text(key);
  check_platforms(top);
  top.each("input", check_tensor);
  top.each("output", check_tensor);
  top.each("self_test", check_self_test);
  top.each("example", check_example);
  if (const Map* runner = top.table("runner", Needed::yes)) check_runner(top.inside("runner", *runner));
}

// The target of `reference`: a tensor's name or a path; empty for another prefix.
std::string_view behind(std::string_view prefix, const Value& reference) {
  const auto* text = std::get_if<std::string>(&reference);
  return text == nullptr || !text->starts_with(prefix) ? "" : std::string_view(*text).substr(prefix.size());
}

template <class Visit>
void each_reference(const Map& carton_toml, const Visit& visit) {
  for (const char* kind : {"self_test", "example"}) {
    const Value* list = carton_toml.find(kind);
    if (list == nullptr || !std::holds_alternative<List>(*list)) continue;
    for (const Value& one : std::get<List>(*list))
      for (const char* key : {"inputs", "expected_out", "sample_out"}) {
        const auto* table = std::get_if<Map>(&one);
        const Value* refs = table == nullptr ? nullptr : table->find(key);
        if (refs == nullptr || !std::holds_alternative<Map>(*refs)) continue;
        for (const auto& [name, reference] : std::get<Map>(*refs)) visit(kind, reference);
      }
  }
}

Map copied_fields(const Map& carton_toml) {
  Map common;
  const auto copy = [&](const Map& from, std::string_view key, const char* as) {
    if (const Value* value = from.find(key)) common.append(as, *value);
  };
  copy(carton_toml, "model_name", "name");
  copy(carton_toml, "short_description", "short_description");
  copy(carton_toml, "model_description", "description");
  for (const char* key : {"license", "repository", "homepage"}) copy(carton_toml, key, key);
  const Value* runner = carton_toml.find("runner");
  if (runner != nullptr && std::holds_alternative<Map>(*runner)) {
    Map fields;
    const Map& table = std::get<Map>(*runner);
    if (const Value* name = table.find("runner_name")) fields.append("name", *name);
    for (const auto& [key, value] : table)
      if (key != "opts" && key != "runner_name") fields.append(key, value);
    common.append("runner", std::move(fields));
  }
  copy(carton_toml, "required_platforms", "platforms");
  copy(carton_toml, "input", "inputs");
  copy(carton_toml, "output", "outputs");
  copy(carton_toml, "self_test", "self_tests");
  copy(carton_toml, "example", "examples");
  if (runner != nullptr && std::holds_alternative<Map>(*runner)) copy(std::get<Map>(*runner), "opts", "opts");
  return common;
}

}  // namespace

Map common_fields(const Map& carton_toml, Warnings& warnings, Budget& budget) {
  if (carton_toml.empty()) return {};  // it could not be read; a warning was added
  check(Table(carton_toml, "", warnings));
  const auto room = charge(footprint(carton_toml), budget);
  if (!room) warnings.add("carton.toml: {}; the common fields are omitted", room.error().message);
  return room ? copied_fields(carton_toml) : Map{};
}

void check_references(const Map& carton_toml, const archive::Archive& archive, const Model& model, Warnings& warnings) {
  std::vector<std::string_view> tensors;
  for (const TensorView& tensor : model.tensors) tensors.push_back(tensor.scope.empty() ? tensor.name : tensor.scope);
  std::sort(tensors.begin(), tensors.end());
  each_reference(carton_toml, [&](const char* kind, const Value& reference) {
    const std::string_view tensor = behind("@tensor_data/", reference);
    if (!tensor.empty() && !std::binary_search(tensors.begin(), tensors.end(), tensor))
      warnings.add("carton.toml: {}: there is no tensor {} in tensor_data/index.toml", kind, quoted(tensor));
    const std::string_view path = behind("@misc/", reference);
    if (!path.empty() && archive.find(fmt::format("misc/{}", path)) == nullptr)
      warnings.add("carton.toml: {}: there is no file {}", kind, quoted(fmt::format("misc/{}", path)));
  });
}

}  // namespace weightfs::carton
