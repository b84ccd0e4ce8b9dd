// Attributes: small named values of a group or a dataset.
#pragma once

#include <string>
#include <vector>

#include "base/values/value.h"
#include "formats/common/warnings.h"
#include "formats/hdf5/dataset.h"
#include "formats/hdf5/heap.h"

namespace weightfs::hdf5 {

struct Attribute {
  std::string name;
  Type type;
  Dataspace space;
  uint64_t address = 0;  ///< of the data; 0 if they are not in one place of the file
  std::string data;
};

/// The attributes of an object, in the order of its messages. One that cannot be read is left out, with a warning that
/// names `object_name`. Fails as the budget does, and as reading does.
Result<std::vector<Attribute>> read_attributes(Metadata& metadata, const Object& object, std::string_view object_name,
                                               Warnings& warnings);

/// A text of the file.
struct Text {
  uint64_t address = 0;  ///< 0 if it is not in one place of the file
  std::string bytes;
};

/// The attribute's only element as a text; nothing if it is something else. Fails with corrupt if its heap is damaged.
Result<std::optional<Text>> text_of(GlobalHeap& heap, const Attribute& attribute);

/// The element of variable length at `data`, as a text. Fails with corrupt if its heap is damaged.
Result<Text> variable_text(GlobalHeap& heap, std::string_view data);

/// All elements of a string dataset whose stored bytes are `bytes`. Fails with corrupt if its heap is damaged, and as
/// the budget does.
Result<std::vector<std::string>> texts_of(GlobalHeap& heap, const Type& type, const Source& bytes);

/// A text of fixed length without its padding.
std::string_view without_padding(std::string_view bytes, Padding padding);

/// The attribute as a value: numbers and texts, in lists by its shape. One with more than kMaxInlineList elements, or
/// with elements of other types, becomes a map with its type and its count.
Result<Value> value_of(GlobalHeap& heap, const Attribute& attribute);

}  // namespace weightfs::hdf5
