#include "formats/rten/schema.h"

#include <flatbuffers/reflection.h>
#include <rten_bfbs_generated.h>

#include <algorithm>
#include <cstdlib>

namespace weightfs::rten {
namespace {

using reflection::BaseType;

// What flatc always writes into a schema.
template <class T>
const T& the(const T* part) {
  if (part == nullptr) std::abort();
  return *part;
}

std::string_view text(const flatbuffers::String* string) { return the(string).string_view(); }

// A name without its namespace.
std::string_view unqualified(const flatbuffers::String* string) {
  return text(string).substr(text(string).rfind('.') + 1);
}

auto named(const auto& types, std::string_view name) {
  return std::find_if(types.begin(), types.end(), [&](const auto& type) { return type.name == name; });
}

// The schema as flatc embeds it, with indices turned into pointers: both vectors have their size before any is taken.
class Schema {
 public:
  Schema() {
    const auto& objects = the(schema_.objects());
    const auto& enums = the(schema_.enums());
    tables_.resize(objects.size());
    names_.resize(enums.size());
    for (uint32_t i = 0; i < enums.size(); ++i) names_[i] = names_of(the(enums.Get(i)));
    for (uint32_t i = 0; i < objects.size(); ++i) tables_[i] = table_of(the(objects.Get(i)));
  }

  const TableType& table(std::string_view name) const { return *named(tables_, name); }
  const Names& names(std::string_view name) const { return *named(names_, name); }

 private:
  Names names_of(const reflection::Enum& type) const {
    Names names{unqualified(type.name()), {}};
    for (const reflection::EnumVal* value : the(type.values())) {
      const auto& of = the(value->union_type());
      names.all.push_back({value->value(), text(value->name()), of.base_type() == BaseType::Obj ? table(of) : nullptr});
    }
    return names;
  }

  TableType table_of(const reflection::Object& type) const {
    TableType table{unqualified(type.name()), {}};
    for (const reflection::Field* field : the(type.fields()))
      if (the(field->type()).base_type() != BaseType::UType) table.fields.push_back(field_of(*field));
    std::sort(table.fields.begin(), table.fields.end(), [](const Field& a, const Field& b) { return a.slot < b.slot; });
    return table;
  }

  Field field_of(const reflection::Field& field) const {
    const auto& type = the(field.type());
    const bool is_list = type.base_type() == BaseType::Vector;
    const BaseType element = is_list ? type.element() : type.base_type();
    return {
        .name = text(field.name()),
        .slot = field.offset(),
        .type = element,
        .is_list = is_list,
        .width = static_cast<uint8_t>(flatbuffers::GetTypeSize(element)),
        .table = element == BaseType::Obj ? table(type) : nullptr,
        .names = element != BaseType::Obj && type.index() >= 0 ? &names_[static_cast<size_t>(type.index())] : nullptr,
        .required = field.required(),
        .optional = field.optional(),
        .weights = has_attribute(field, "weights"),
        .default_integer = field.default_integer(),
        .default_real = field.default_real(),
    };
  }

  static bool has_attribute(const reflection::Field& field, std::string_view name) {
    const auto* attributes = field.attributes();
    return attributes != nullptr && std::any_of(attributes->begin(), attributes->end(),
                                                [&](const auto* attribute) { return text(attribute->key()) == name; });
  }

  const TableType* table(const reflection::Type& type) const { return &tables_[static_cast<size_t>(type.index())]; }

  const reflection::Schema& schema_ = *reflection::GetSchema(ModelBinarySchema::data());
  std::vector<TableType> tables_;
  std::vector<Names> names_;
};

const Schema& schema() {
  static const Schema schema;
  return schema;
}

}  // namespace

const Named* Names::find(int64_t number) const {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Named& named) { return named.number == number; });
  return found == all.end() ? nullptr : &*found;
}

const TableType& table_type(std::string_view name) { return schema().table(name); }

const Names& union_type(std::string_view name) { return schema().names(name); }

}  // namespace weightfs::rten
