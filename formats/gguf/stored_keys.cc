#include "formats/gguf/stored_keys.h"

#include <fmt/core.h>

#include "formats/common/cursor.h"

namespace weightfs::gguf {
namespace {

constexpr uint64_t kMaxKeyName = 65'535;
constexpr Dialect kStoredDialect = {.version = 3, .order = std::endian::little};  // counts have 64 bits

}  // namespace

Result<void> for_each_key(
    const GgufKeys& keys, Budget& budget,
    const std::function<Result<void>(const std::string& key, const Slice& entries, const StoredValue& value)>& use) {
  std::string name;
  for (const GgufKeys::Entries& entries : keys.entries) {
    Cursor cursor(entries.bytes, 0, entries.bytes.size(), keys.order);
    for (uint64_t i = 0; i < entries.count; ++i) {
      TRY_VOID(read_string(cursor, kStoredDialect, kMaxKeyName, name));
      uint64_t room = 0;
      const StoredValue value = TRY(read_value(cursor, kStoredDialect, room, budget));
      TRY_VOID(use(name, entries.bytes, value));
    }
  }
  return {};
}

Result<std::map<std::string, std::string, std::less<>>> types_of_keys(const GgufKeys& keys, Budget& budget) {
  std::map<std::string, std::string, std::less<>> types;
  TRY_VOID(for_each_key(keys, budget, [&](const std::string& key, const Slice&, const StoredValue& value) {
    const bool is_array = value.type == ValueType::array;
    types.emplace(key, is_array ? fmt::format("array of {}", name_of(value.element_type)) : name_of(value.type));
    return budget.charge(Cost::step);
  }));
  return types;
}

}  // namespace weightfs::gguf
