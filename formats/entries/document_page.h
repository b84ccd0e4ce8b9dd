// A page of a list, an object or a text: of a value in memory, or of a document of JSON, of which nothing else is kept.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/source.h"
#include "base/values/value.h"

namespace weightfs::metadata {

inline constexpr uint64_t kMaxPageText = uint64_t{4} << 20;  ///< bytes

struct Page {
  uint64_t total = 0;             ///< items, or bytes of a text
  std::vector<std::string> keys;  ///< of an object, one for each item
  List items;                     ///< of a list or an object; nested ones are JSON texts, and long texts are cut
  std::string text;               ///< of a text, at most kMaxPageText bytes
};

/// The items [offset, offset + limit). Anything but a list, an object and a text has one item.
Page page_of_value(const Value& value, uint64_t offset, uint64_t limit);

/// Those of a JSON text, which is read as a stream. Fails with resource when it is cancelled, with corrupt if it is not
/// JSON, and as reading does.
Result<Page> page_of_document(const Source& json, uint64_t offset, uint64_t limit);

}  // namespace weightfs::metadata
