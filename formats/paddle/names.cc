#include "formats/paddle/names.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "formats/protobuf/scanner.h"

namespace weightfs::paddle {
namespace {

using protobuf::Fields;
using protobuf::Message;
using protobuf::Scanner;
using protobuf::WireType;

constexpr std::string_view kSuffix = ".pdiparams";

// framework.proto of Paddle 3.
constexpr uint32_t kBlock = protobuf::tag(1, WireType::bytes);         // of ProgramDesc
constexpr uint32_t kVariable = protobuf::tag(3, WireType::bytes);      // of BlockDesc
constexpr uint32_t kName = protobuf::tag(1, WireType::bytes);          // of VarDesc
constexpr uint32_t kType = protobuf::tag(2, WireType::bytes);          // of VarDesc
constexpr uint32_t kPersistable = protobuf::tag(3, WireType::varint);  // of VarDesc
constexpr uint32_t kTypeNumber = protobuf::tag(1, WireType::varint);   // of VarType

// VarType.Type of variables that are persistable, but no parameters: feed, fetch, reader.
constexpr std::array<uint64_t, 3> kNoParameters = {9, 10, 15};

Result<void> add_variable(Scanner& scanner, const Message& variable, Charges& charges,
                          std::vector<std::string>& names) {
  std::string name;
  bool is_persistable = false;
  uint64_t type = 0;
  Fields fields(scanner, variable);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == kName) name = TRY(scanner.text(field->bytes, protobuf::kMaxName));
    if (field->tag == kPersistable) is_persistable = field->value != 0;
    if (field->tag != kType) continue;
    const Message described = TRY(scanner.child(variable, *field));
    Fields inner(scanner, described);
    while (const auto each = TRY(inner.next()))
      if (each->tag == kTypeNumber) type = each->value;
  }
  if (!is_persistable || std::find(kNoParameters.begin(), kNoParameters.end(), type) != kNoParameters.end()) return {};
  TRY_VOID(charges.charge(Cost::value));
  TRY_VOID(charges.charge(Cost::kept, name.size()));
  names.push_back(std::move(name));
  return {};
}

}  // namespace

Result<std::vector<std::string>> names_of_program(const Source& program, Budget& budget, Charges& charges) {
  Scanner scanner(program, &budget);
  const Message whole = scanner.whole();
  std::vector<std::string> names;
  Fields blocks(scanner, whole);
  while (const auto each = TRY(blocks.next())) {
    if (each->tag != kBlock) continue;
    const Message block = TRY(scanner.child(whole, *each));
    Fields fields(scanner, block);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != kVariable) continue;
      const Message variable = TRY(scanner.child(block, *field));
      TRY_VOID(add_variable(scanner, variable, charges, names));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());  // a block may name a variable of another one
  return names;
}

Result<Names> read_names(const Container& container, Warnings& warnings) {
  Names found;
  if (container.folder == nullptr || !container.name.ends_with(kSuffix)) return found;
  found.program = container.name.substr(0, container.name.size() - kSuffix.size()) + ".pdmodel";
  auto bytes = open_beside(container, found.program);
  if (!bytes && bytes.error().code == Code::resource) return tl::unexpected(bytes.error());
  if (!bytes) return Names{};
  found.bytes = std::move(*bytes);
  Charges charges(*container.budget);
  auto names = names_of_program(*found.bytes, *container.budget, charges);
  if (!names && !is_about_the_bytes(names.error())) return tl::unexpected(names.error());
  if (names) {
    found.names = std::move(*names);
    charges.keep();
  } else {
    warnings.add("{}: {}; the tensors have no names", quoted(found.program), names.error().message);
  }
  return found;
}

}  // namespace weightfs::paddle
