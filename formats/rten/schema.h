// rten.fbs at run time: the tables of the model data and their fields. Controls which parts of the file are structure
// and which are weights, and renders attributes, without code for each of the 62 kinds of attributes.
#pragma once

#include <flatbuffers/reflection_generated.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace weightfs::rten {

struct TableType;

/// A value of an enum, or a member of a union.
struct Named {
  int64_t number;  ///< as stored; the tag of a member
  std::string_view name;
  const TableType* table;  ///< of a member; null for a value
};

/// An enum or a union, by number.
struct Names {
  std::string_view name;
  std::vector<Named> all;

  const Named* find(int64_t number) const;  ///< null for a number of a newer schema
};

/// A field of a table.
struct Field {
  std::string_view name;
  uint16_t slot;              ///< index in the vtable; a union's tag has the slot before
  reflection::BaseType type;  ///< of the value, or of a list's elements: a number, String, Obj (a table) or Union
  bool is_list;
  uint8_t width;           ///< size in bytes of one such number, or of the offset to such an object
  const TableType* table;  ///< of a table or a list of tables
  const Names* names;      ///< of an enum or a union
  bool required;           ///< a table without it is invalid
  bool optional;           ///< has no default
  bool weights;            ///< a list that is not read
  int64_t default_integer;
  double default_real;
};

/// A table and its fields, in the order of their slots, without the tags of unions.
struct TableType {
  std::string_view name;
  std::vector<Field> fields;
};

/// The table or union of this name in rten.fbs, which must exist. The result is never destroyed.
const TableType& table_type(std::string_view name);
const Names& union_type(std::string_view name);

}  // namespace weightfs::rten
