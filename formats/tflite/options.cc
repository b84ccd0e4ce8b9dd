#include "formats/tflite/options.h"

#include <fmt/core.h>

#include "base/values/value.h"
#include "formats/common/limits.h"
#include "formats/flatbuffer/json.h"
#include "formats/tflite/option_tables.h"
#include "formats/tflite/types.h"

namespace weightfs::tflite {
namespace {

using flatbuffer::append_integers;
using flatbuffer::append_list;
using flatbuffer::Slot;
using flatbuffer::Table;

// What a field takes at least, also one that the table does not have: it is shown with its default.
constexpr uint64_t kFieldSize = 8;

// The size of the elements of a list, or of a number. 0 for a field that is not read.
uint64_t width_of(OptionKind kind) {
  switch (kind) {
    case OptionKind::deprecated:
      return 0;
    case OptionKind::boolean:
    case OptionKind::int8:
    case OptionKind::tensor_type:
    case OptionKind::text:
    case OptionKind::bytes:
    case OptionKind::boolean_list:
      return 1;
    case OptionKind::int32:
    case OptionKind::uint32:
    case OptionKind::float32:
    case OptionKind::int32_list:
    case OptionKind::uint32_list:
    case OptionKind::float32_list:
      return 4;
    case OptionKind::int64:
    case OptionKind::int64_list:
      return 8;
  }
  return 0;
}

bool is_list(OptionKind kind) { return kind >= OptionKind::text; }

// The value of an enum, or a number.
std::string value_text(const OptionField& field, int64_t number) {
  const bool is_known = number >= 0 && static_cast<uint64_t>(number) < field.names.size();
  return is_known ? fmt::format("\"{}\"", field.names[static_cast<size_t>(number)]) : std::to_string(number);
}

std::string type_text(int8_t number) {
  const TypeCode* const type = kTensorTypes.find(number);
  return type == nullptr ? std::to_string(number) : fmt::format("\"{}\"", type->name);
}

std::string boolean_text(uint8_t number) { return number != 0 ? "true" : "false"; }

std::string decimal_text(float number) { return to_json_line(shortest_decimal(number)); }

std::string place_text(uint64_t offset, uint64_t size) {
  return fmt::format("{{\"offset\":{},\"nbytes\":{}}}", offset, size);
}

template <class Number>
Result<std::string> integer_text(const Table& table, Slot slot, const OptionField& field) {
  return value_text(field, TRY(table.number<Number>(slot, static_cast<Number>(field.absent))));
}

// The JSON of a number.
Result<std::string> number_text(const Table& table, Slot slot, const OptionField& field) {
  switch (field.kind) {
    case OptionKind::boolean:
      return boolean_text(TRY(table.number<uint8_t>(slot, static_cast<uint8_t>(field.absent))));
    case OptionKind::tensor_type:
      return type_text(TRY(table.number<int8_t>(slot, field.absent)));
    case OptionKind::int8:
      return integer_text<int8_t>(table, slot, field);
    case OptionKind::uint32:
      return integer_text<uint32_t>(table, slot, field);
    case OptionKind::int64:
      return integer_text<int64_t>(table, slot, field);
    case OptionKind::float32:
      return decimal_text(TRY(table.number<float>(slot)));
    default:
      return integer_text<int32_t>(table, slot, field);
  }
}

Result<void> append_elements(GraphWriter& out, const Table& table, Slot slot, const OptionField& field) {
  const flatbuffer::List list = TRY(table.list(slot, width_of(field.kind)));
  switch (field.kind) {
    case OptionKind::text:
      if (list.size() <= kMaxNameLength) return out.text_attribute(field.name, TRY(table.text(slot, kMaxNameLength)));
      [[fallthrough]];
    case OptionKind::bytes:
      return out.attribute(field.name, place_text(list.position(), list.size()));
    case OptionKind::boolean_list:
      return append_list<uint8_t>(out, field.name, list, boolean_text);
    case OptionKind::uint32_list:
      return append_list<uint32_t>(out, field.name, list, [&](uint32_t number) { return value_text(field, number); });
    case OptionKind::int64_list:
      return append_integers<int64_t>(out, field.name, list);
    case OptionKind::float32_list:
      return append_list<float>(out, field.name, list, decimal_text);
    default:
      return append_integers<int32_t>(out, field.name, list);
  }
}

Result<void> append_number(GraphWriter& out, const Table& table, Slot slot, const OptionField& field) {
  return out.attribute(field.name, TRY(number_text(table, slot, field)));
}

Result<void> append_table(GraphWriter& out, std::string_view key, const Options& options, const OptionTable* known) {
  if (options.number == 0) return {};
  const std::string type = known == nullptr ? std::to_string(options.number) : fmt::format("\"{}\"", known->name);
  TRY_VOID(out.attribute(fmt::format("{}_type", key), type));
  if (known == nullptr || known->fields.empty() || !options.table.exists()) return {};
  out.begin(key, '{');
  for (Slot slot = 0; slot < known->fields.size(); ++slot) {
    const OptionField& field = known->fields[slot];
    if (field.kind == OptionKind::deprecated) continue;
    TRY_VOID(is_list(field.kind) ? append_elements(out, options.table, slot, field)
                                 : append_number(out, options.table, slot, field));
  }
  return out.end("}");
}

// The bytes of the options of a custom operator, which only its code understands.
Result<void> append_custom_options(GraphWriter& out, const File& file, const Call& call) {
  constexpr std::string_view kName = "custom_options";
  const flatbuffer::List& near = call.custom_options;
  if (call.large_custom_offset <= 1 && near.size() == 0) return {};
  if (call.large_custom_offset <= 1) return out.attribute(kName, place_text(near.position(), near.size()));
  const auto bytes = slice(file.source, call.large_custom_offset, call.large_custom_size);
  if (bytes) return out.attribute(kName, place_text(bytes->offset(), bytes->size()));
  return out.attribute(kName, fmt::format("{{\"problem\":{}}}", to_json_line(bytes.error().message)));
}

Result<uint64_t> table_size(const Options& options, const OptionTable* known) {
  if (known == nullptr || !options.table.exists()) return uint64_t{0};
  uint64_t size = 0;
  for (Slot slot = 0; slot < known->fields.size(); ++slot) {
    const OptionField& field = known->fields[slot];
    size += kFieldSize;
    if (is_list(field.kind))
      size += width_of(field.kind) * TRY(options.table.list(slot, width_of(field.kind))).size();
    else if (field.kind != OptionKind::deprecated)
      TRY_VOID(number_text(options.table, slot, field));
  }
  return size;
}

}  // namespace

Result<uint64_t> options_size(const Call& call) {
  const auto first = TRY(table_size(call.options, builtin_options(call.options.number)));
  const auto second = TRY(table_size(call.options_2, builtin_options_2(call.options_2.number)));
  return first + second;
}

Result<void> append_options(GraphWriter& out, const File& file, const Call& call) {
  TRY_VOID(append_table(out, "builtin_options", call.options, builtin_options(call.options.number)));
  TRY_VOID(append_table(out, "builtin_options_2", call.options_2, builtin_options_2(call.options_2.number)));
  return append_custom_options(out, file, call);
}

}  // namespace weightfs::tflite
