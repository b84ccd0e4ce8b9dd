// rten.fbs at run time: what the tables of the model data are made of. Drives the walk that tells structure from
// weights, and the rendering of attributes, so that neither names the 62 kinds of attributes there are.
#pragma once

#include <flatbuffers/reflection_generated.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace weightfs::rten {

struct TableType;

/// A value of an enum, or a member of a union.
struct Named {
  int64_t number;  ///< as stored; of a member: its tag
  std::string_view name;
  const TableType* table;  ///< of a member; null for a value
};

/// An enum or a union, by number.
struct Names {
  std::string_view name;
  std::vector<Named> all;

  const Named* find(int64_t number) const;  ///< null for a number of a later schema
};

/// A field of a table.
struct Field {
  std::string_view name;
  uint16_t slot;              ///< where the vtable has its offset; a union's tag has the slot before
  reflection::BaseType type;  ///< of the value, or of a list's elements: a number, String, Obj (a table) or Union
  bool is_list;
  uint8_t width;           ///< bytes of one such number, or of the offset to such a thing
  const TableType* table;  ///< of a table or a list of tables
  const Names* names;      ///< of an enum or a union
  bool required;           ///< a table without it is refused
  bool optional;           ///< absent means absent, not the default
  bool weights;            ///< a list that is left unread
  int64_t default_integer;
  double default_real;
};

/// A table and its fields, in the order of their slots. The tags of unions are not among them.
struct TableType {
  std::string_view name;
  std::vector<Field> fields;
};

/// The table, the union of this name in rten.fbs, which must have it. They live for ever.
const TableType& table_type(std::string_view name);
const Names& union_type(std::string_view name);

}  // namespace weightfs::rten
