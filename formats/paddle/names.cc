#include "formats/paddle/names.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/common/limits.h"
#include "formats/protobuf/scanner.h"

namespace weightfs::paddle {
namespace {

using protobuf::Fields;
using protobuf::Message;
using protobuf::Scanner;

constexpr std::string_view kSuffix = ".pdiparams";
constexpr uint64_t kMaxJsonSize = 100'000'000;

// framework.proto of Paddle 3.
constexpr uint32_t kBlock = protobuf::bytes(1);         // of ProgramDesc
constexpr uint32_t kVariable = protobuf::bytes(3);      // of BlockDesc
constexpr uint32_t kOperator = protobuf::bytes(4);      // of BlockDesc
constexpr uint32_t kOperatorType = protobuf::bytes(3);  // of OpDesc
constexpr uint32_t kName = protobuf::bytes(1);          // of VarDesc
constexpr uint32_t kType = protobuf::bytes(2);          // of VarDesc
constexpr uint32_t kPersistable = protobuf::varint(3);  // of VarDesc
constexpr uint32_t kTypeNumber = protobuf::varint(1);   // of VarType

// VarType.Type of variables that are persistable, but no parameters: feed, fetch, reader.
constexpr std::array<uint64_t, 3> kNoParameters = {9, 10, 15};

// A block may name a variable of another one.
std::vector<std::string> sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

constexpr std::string_view kPython = "py_func";

void add_python(CodeList& code, const std::string& program) {
  code.add({fmt::format("operator {}", kPython), program, "when a program with the Python function runs the graph"});
}

Result<void> keep_name(std::string name, Charges& charges, std::vector<std::string>& names) {
  TRY_VOID(charges.charge(Cost::value));
  TRY_VOID(charges.charge(Cost::kept, name.size()));
  names.push_back(std::move(name));
  return {};
}

Result<void> add_variable(Scanner& scanner, const Message& variable, Charges& charges,
                          std::vector<std::string>& names) {
  std::string name;
  bool is_persistable = false;
  uint64_t type = 0;
  Fields fields(scanner, variable);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == kName) name = TRY(scanner.text(field->bytes, kMaxNameLength));
    if (field->tag == kPersistable) is_persistable = field->value != 0;
    if (field->tag != kType) continue;
    const Message described = TRY(scanner.child(variable, *field));
    Fields inner(scanner, described);
    while (const auto each = TRY(inner.next()))
      if (each->tag == kTypeNumber) type = each->value;
  }
  if (!is_persistable || std::find(kNoParameters.begin(), kNoParameters.end(), type) != kNoParameters.end()) return {};
  return keep_name(std::move(name), charges, names);
}

// Collects the names of parameters, which are operations {"#": "p", "A": [0, 1, 1, name], …} of a program in JSON.
class JsonParameters final : public JsonEvents {
 public:
  explicit JsonParameters(Charges& charges) : charges_(charges) {}

  bool scalar(Value) override { return pass(); }
  bool unsigned_integer(uint64_t) override { return pass(); }
  bool string(std::string& text) override {
    if (open_.empty()) return true;
    Open& inner = open_.back();
    if (inner.key == Key::kind) inner.is_parameter = text == "p";
    has_python_ = has_python_ || (inner.key == Key::kind && text.substr(text.rfind('.') + 1) == kPython);
    if (inner.key == Key::magic && open_.size() == 2) is_program_ = is_program_ || text == "pir";
    if (inner.is_attributes && inner.values == kPlaceOfName) open_[open_.size() - 2].name = std::move(text);
    return pass();
  }
  bool key(std::string& text) override {
    open_.back().key = text == "#"       ? Key::kind
                       : text == "A"     ? Key::attributes
                       : text == "magic" ? Key::magic
                                         : Key::other;
    return true;
  }
  bool begin_object() override { return begin(false); }
  bool begin_array() override { return begin(!open_.empty() && open_.back().key == Key::attributes); }
  bool end_object() override {
    Open ended = std::move(open_.back());
    open_.pop_back();
    if (ended.is_parameter && !ended.name.empty())
      if (auto kept = keep_name(std::move(ended.name), charges_, names_); !kept) problem_ = kept.error();
    return pass() && !problem_;
  }
  bool end_array() override {
    open_.pop_back();
    return pass();
  }

  /// `whole`: the result of read_json.
  Result<std::vector<std::string>> take(const Result<void>& whole) {
    if (problem_) return tl::unexpected(*problem_);
    if (!is_program_) return failure(Code::not_found, "not a program");
    TRY_VOID(whole);
    return sorted(std::move(names_));
  }

  bool has_python() const { return has_python_; }

 private:
  static constexpr uint64_t kPlaceOfName = 3;

  enum class Key : uint8_t { other, kind, attributes, magic };

  // An object or an array that has begun.
  struct Open {
    Key key = Key::other;        // of the next value
    bool is_attributes = false;  // the array "A" of an object
    bool is_parameter = false;
    uint64_t values = 0;  // so far
    std::string name;
  };

  bool begin(bool is_attributes) {
    open_.emplace_back().is_attributes = is_attributes;
    return true;
  }

  // After a value.
  bool pass() {
    if (!open_.empty()) ++open_.back().values;
    return true;
  }

  Charges& charges_;
  std::vector<Open> open_;
  std::vector<std::string> names_;
  std::optional<Error> problem_;
  bool is_program_ = false, has_python_ = false;
};

// The names of the parameters of a program in JSON (PIR, of Paddle 3), sorted. They are charged to `charges`. Fails
// with not_found if it is another JSON text.
Result<std::vector<std::string>> names_of_json(const Source& program, Budget& budget, Charges& charges, Names& out) {
  if (program.size() > kMaxJsonSize)
    return failure(Code::unsupported, fmt::format("{} bytes, at most {} are read", program.size(), kMaxJsonSize));
  TRY_VOID(budget.charge(Cost::input, program.size()));
  JsonParameters parameters(charges);
  auto names = parameters.take(read_json(program, 0, program.size(), parameters));
  if (parameters.has_python()) add_python(out.code, out.program);
  return names;
}

// The names of the persistable variables of a program (ProgramDesc), sorted. They are charged to `charges`.
Result<std::vector<std::string>> names_of_program(const Source& program, Budget& budget, Charges& charges, Names& out) {
  Scanner scanner(program, &budget);
  const Message whole = scanner.whole();
  std::vector<std::string> names;
  Fields blocks(scanner, whole);
  while (const auto each = TRY(blocks.next())) {
    if (each->tag != kBlock) continue;
    const Message block = TRY(scanner.child(whole, *each));
    Fields fields(scanner, block);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != kVariable && field->tag != kOperator) continue;
      const Message child = TRY(scanner.child(block, *field));
      if (field->tag == kVariable)
        TRY_VOID(add_variable(scanner, child, charges, names));
      else if (TRY(scanner.text_at(child, kOperatorType, kMaxNameLength)) == kPython)
        add_python(out.code, out.program);
    }
  }
  return sorted(std::move(names));
}

}  // namespace

Result<Names> read_names(const Container& container, Warnings& warnings) {
  constexpr std::array kPrograms = {std::pair{".pdmodel", &names_of_program}, std::pair{".json", &names_of_json}};
  if (container.folder == nullptr || !container.name.ends_with(kSuffix)) return Names{};
  const std::string stem = container.name.substr(0, container.name.size() - kSuffix.size());
  for (const auto& [suffix, read] : kPrograms) {
    auto bytes = open_beside(container, stem + suffix);
    if (!bytes && bytes.error().code == Code::resource) return tl::unexpected(bytes.error());
    if (!bytes) continue;
    Charges charges(*container.budget);
    Names found{{}, stem + suffix, *bytes, {}};
    auto names = read(**bytes, *container.budget, charges, found);
    if (!names && names.error().code == Code::not_found) continue;
    if (!names && !is_about_the_bytes(names.error())) return tl::unexpected(names.error());
    if (names) {
      found.names = std::move(*names);
      charges.keep();
    } else {
      warnings.miss_file(names.error().code, "{}: {}; the tensors have no names", quoted(found.program),
                         names.error().message);
      warnings.lose(names.error(), {});
    }
    return found;
  }
  return Names{};
}

}  // namespace weightfs::paddle
