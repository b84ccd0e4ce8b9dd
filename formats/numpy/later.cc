#include "formats/numpy/later.h"

#include <algorithm>

#include "formats/numpy/array.h"

namespace weightfs::numpy {
namespace {

// The header at `begin`; nothing if there is no valid one.
Result<std::optional<Header>> header_at(const SourcePtr& bytes, uint64_t begin, Budget& budget) {
  const uint64_t left = bytes->size() - begin;
  const auto head = [&](size_t most) -> Result<std::string> {
    const uint64_t size = std::min<uint64_t>(most, left);
    TRY_VOID(budget.charge(Cost::input, size));
    return read_text(*bytes, begin, size);
  };
  std::string first = TRY(head(kUsualHeaderSize));
  if (!first.starts_with(kMagic)) return std::nullopt;
  const auto header = read_header(std::move(first), head, budget);
  if (!header && !is_about_the_bytes(header.error())) return failure(header.error());
  return header ? std::optional(*header) : std::nullopt;
}

}  // namespace

Result<pickle::Names> later_names(const SourcePtr& bytes, uint64_t begin, Budget& budget) {
  pickle::Names names;
  Cursor cursor(*bytes, begin, bytes->size());
  while (cursor.left() > 0) {
    std::optional<Header> header;
    if (TRY(cursor.ahead(kMagic.size())).starts_with(kMagic)) header = TRY(header_at(bytes, cursor.position(), budget));
    if (header) TRY_VOID(cursor.skip(header->data));
    if (header && !header->type.has_objects) {
      if (header->nbytes > cursor.left()) break;
      TRY_VOID(cursor.skip(header->nbytes));
      continue;
    }
    const pickle::Imports found = TRY(pickle::imports_of(cursor, budget));
    names.add(found);
    if (!found.is_complete) break;
  }
  return names;
}

}  // namespace weightfs::numpy
