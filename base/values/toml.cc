#include <fmt/core.h>

#include <sstream>

#include "base/text.h"
#include "base/values/toml_limits.h"
#include "base/values/value.h"

// toml++ stores tables as std::map: keys are sorted.
#include <toml++/toml.h>

namespace weightfs {
namespace {

Value from_toml(const toml::node& node);

List list_of(const toml::array& array) {
  List out;
  out.reserve(array.size());
  for (const toml::node& item : array) out.push_back(from_toml(item));
  return out;
}

Map map_of(const toml::table& table) {
  Map out;
  for (const auto& [key, value] : table) out.append(std::string(key.str()), from_toml(value));
  return out;
}

// Calls itself as deep as the document is nested, which measure_toml bounds.
Value from_toml(const toml::node& node) {
  if (const auto* table = node.as_table()) return map_of(*table);
  if (const auto* array = node.as_array()) return list_of(*array);
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return number->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  std::ostringstream out;
  node.visit([&](const auto& value) {
    if constexpr (toml::is_chronological<decltype(value)>) out << value.get();
  });
  return std::string(out.view());  // str() would keep the buffer of the stream, 512 bytes
}

}  // namespace

namespace {

Result<Map> parse(std::string_view text) {
  try {
    return map_of(toml::parse(text));
  } catch (const toml::parse_error& error) {
    // toml++ quotes the input, which may have any bytes.
    std::string reason;
    for (const char c : to_utf8(error.description()))
      reason += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
    return failure(Code::corrupt, fmt::format("line {}: not TOML: {}", error.source().begin.line, reason));
  } catch (const std::exception& error) {
    return failure(Code::corrupt, fmt::format("not TOML: {}", error.what()));
  }
}

}  // namespace

Result<Map> parse_toml(std::string_view text, Budget& budget) {
  const TomlSize size = TRY(measure_toml(text, budget));
  // toml++'s texts and the Map's own are there at the same time.
  TRY_VOID(budget.charge(Cost::kept, 2 * text.size()));
  if (const auto charged = budget.charge(Cost::value, size.kept + size.temporary); !charged) {
    budget.release(Cost::kept, 2 * text.size());
    return tl::unexpected(charged.error());
  }
  auto map = parse(text);
  budget.release(Cost::kept, text.size());
  budget.release(Cost::value, size.temporary);
  if (map) return map;
  budget.release(Cost::kept, text.size());
  budget.release(Cost::value, size.kept);
  return map;
}

}  // namespace weightfs
