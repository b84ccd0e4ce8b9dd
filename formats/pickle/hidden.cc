#include "formats/pickle/hidden.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "formats/code/list.h"

namespace weightfs::pickle {
namespace {

// Whether it may be the name of a module and of something in it. Letters outside of ASCII are.
bool is_identifier(const Global& global) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '?' || static_cast<uint8_t>(c) >= 0x80;
  };
  return global.module_size > 0 && global.text.size() > global.module_size + 1 &&
         std::ranges::all_of(global.text, is_part);
}

}  // namespace

void Names::add(const Imports& found) {
  for (const Global& global : found.globals) {
    const Standing standing = standing_of(global);
    const bool counts = found.is_complete || (found.has_calls && is_identifier(global));
    if (standing == Standing::harmless || !counts) continue;
    (standing == Standing::dangerous ? dangerous : unknown).insert(printable(in_python_3(global.text)));
  }
}

Result<Names> hidden_names(const Source& bytes, uint64_t begin, Budget& budget) {
  Names names;
  Cursor cursor(bytes, begin, bytes.size());
  while (cursor.left() > 0) {
    const Imports found = TRY(imports_of(cursor, budget));
    names.add(found);
    if (!found.is_complete) break;
  }
  return names;
}

Result<Names> hidden_names(std::string head, uint64_t size, const std::function<Result<SourcePtr>()>& whole,
                           Budget& budget) {
  // As opcodes, the magic number of a zip is an object outside of the pickle, which pickle.load refuses.
  if (head.starts_with("PK\3\4")) return Names();
  const uint64_t rest = size - std::min<uint64_t>(head.size(), size);
  const SourcePtr first = in_memory(std::move(head));
  Cursor cursor(*first, 0, first->size());
  const Imports found = TRY(imports_of(cursor, budget));
  const bool is_told = !found.is_complete && (found.lacks == 0 || found.lacks > rest);
  if (is_told && !found.has_calls) return Names();
  const SourcePtr all = rest == 0 ? first : TRY(whole());
  return hidden_names(*all, 0, budget);
}

void add_unknown_names(Model& model, const std::set<std::string>& names) {
  if (names.empty()) return;
  std::set<std::string> all = names;
  if (const auto* const known = model.common.find_as<List>("unknown_globals"))
    for (const Value& name : *known)
      if (const auto* const text = std::get_if<std::string>(&name)) all.insert(*text);
  model.common.set("unknown_globals", List(all.begin(), all.end()));
}

void add_hidden(Model& model, const Names& names) {
  std::string all;
  if (const auto* const known = model.common.find_as<std::string>("dangerous_globals")) all = *known;
  for (const std::string& name : names.dangerous) {
    all += (all.empty() ? "" : ", ") + name;
    model.warnings.push_back(
        fmt::format("begins as a pickle that names {}: pickle.load can run code from this file", name));
  }
  if (!names.dangerous.empty()) {
    add_pickled_code(model.common, all, kUnpickled);
    model.common.set("dangerous_globals", std::move(all));
  }
  add_unknown_names(model, names.unknown);
}

}  // namespace weightfs::pickle
