#include "formats/flatbuffer/flatbuffer.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/grouped.h"

namespace weightfs::flatbuffer {
namespace {

// The cost of a table in bytes of input: its own words, those of its vtable, and their lookup.
constexpr uint64_t kTableCost = 64;

// The cost of an element of a list of numbers.
constexpr uint64_t kElementCost = 16;

template <class... Values>
tl::unexpected<Error> corrupt(fmt::format_string<Values...> format, Values&&... values) {
  return failure(Code::corrupt, fmt::format(format, std::forward<Values>(values)...));
}

}  // namespace

Buffer::Buffer(const Source& source, Budget& budget) : source_(source), budget_(budget) {}

Result<const Buffer::Page*> Buffer::page_at(uint64_t at) {
  Page& page = pages_.at(at / kPage % kPages);
  const uint64_t begin = at / kPage * kPage;
  if (page.begin == begin) return &page;
  const auto length = static_cast<size_t>(std::min(kPage, size() - begin));
  TRY_VOID(charge(Cost::input, length));
  page.begin = UINT64_MAX;
  page.bytes.resize(length);
  TRY_VOID(read_exact(source_, begin, page.bytes));
  page.begin = begin;
  return &page;
}

Result<void> Buffer::copy(uint64_t at, std::span<std::byte> out) {
  if (at > size() || out.size() > size() - at)
    return corrupt("{} bytes at offset {} are not inside its {}", out.size(), at, size());
  while (!out.empty()) {
    const Page* const page = TRY(page_at(at));
    const auto skipped = static_cast<size_t>(at - page->begin);
    const size_t count = std::min(out.size(), page->bytes.size() - skipped);
    std::copy_n(page->bytes.begin() + static_cast<std::ptrdiff_t>(skipped), count, out.begin());
    out = out.subspan(count);
    at += count;
  }
  return {};
}

Result<uint64_t> Buffer::target(uint64_t at) {
  const auto distance = TRY(number<uint32_t>(at));
  if (distance == 0) return corrupt("the offset at {} is 0", at);
  return at + distance;
}

Result<Table> Table::at(Buffer& buffer, uint64_t where) {
  TRY_VOID(buffer.charge(Cost::input, kTableCost));
  const uint64_t at = TRY(buffer.target(where));
  const int64_t vtable = static_cast<int64_t>(at) - TRY(buffer.number<int32_t>(at));
  if (vtable < 0) return corrupt("the table at {} has its vtable before the start", at);
  const auto size = TRY(buffer.number<uint16_t>(static_cast<uint64_t>(vtable)));
  if (size % 2 != 0 || size < 4) return corrupt("the vtable at {} has a size of {} bytes", vtable, size);
  if (size > buffer.size() - static_cast<uint64_t>(vtable))
    return corrupt("the vtable at {} has {} bytes, {} left", vtable, size,
                   buffer.size() - static_cast<uint64_t>(vtable));
  // The vtable states the size of the table with all its fields.
  const auto stated = TRY(buffer.number<uint16_t>(static_cast<uint64_t>(vtable) + sizeof(uint16_t)));
  if (stated > buffer.size() - at)
    return corrupt("the table at {} has {} bytes, {} left", at, stated, buffer.size() - at);
  buffer.extend_to(std::max(at + stated, static_cast<uint64_t>(vtable) + size));
  return Table(buffer, at, static_cast<uint64_t>(vtable), size);
}

// The position of the field; 0 if the table does not have it.
Result<uint64_t> Table::find(Slot slot) const {
  const uint64_t entry = 4 + 2 * uint64_t{slot};
  if (entry + 2 > vtable_size_) return uint64_t{0};
  const auto offset = TRY(buffer_->number<uint16_t>(vtable_ + entry));
  return offset == 0 ? uint64_t{0} : at_ + offset;
}

namespace {

// The text that the offset at `where` refers to.
Result<std::string> text_at(Buffer& buffer, uint64_t where, uint64_t most) {
  const List bytes = TRY(List::at(buffer, where, 1));
  if (bytes.size() > most)
    return failure(Code::unsupported,
                   fmt::format("the text at {} has {} bytes, more than {}", bytes.position(), bytes.size(), most));
  if (bytes.position() + bytes.size() == buffer.size())
    return corrupt("the text at {} has no NUL behind its {} bytes", bytes.position(), bytes.size());
  TRY_VOID(buffer.charge(Cost::input, bytes.size()));
  std::string out(static_cast<size_t>(bytes.size()), '\0');
  TRY_VOID(buffer.copy(bytes.position(), std::as_writable_bytes(std::span(out))));
  return out;
}

}  // namespace

Result<std::string> Table::text(Slot slot, uint64_t most) const {
  const uint64_t where = TRY(find(slot));
  return where == 0 ? std::string() : text_at(*buffer_, where, most);
}

Result<Table> Table::table(Slot slot) const {
  const uint64_t where = TRY(find(slot));
  return where == 0 ? Table() : Table::at(*buffer_, where);
}

Result<List> Table::list(Slot slot, uint64_t width) const {
  const uint64_t where = TRY(find(slot));
  return where == 0 ? List() : List::at(*buffer_, where, width);
}

Result<List> Table::tables(Slot slot) const { return list(slot, sizeof(uint32_t)); }

Result<List> List::at(Buffer& buffer, uint64_t where, uint64_t width) {
  const uint64_t at = TRY(buffer.target(where));
  List list;
  list.buffer_ = &buffer;
  list.size_ = TRY(buffer.number<uint32_t>(at));
  list.elements_ = at + sizeof(uint32_t);
  if (list.size_ * width > buffer.size() - list.elements_)
    return corrupt("the list at {} has {} elements of {}, {} left", at, list.size_, counted_bytes(width),
                   counted_bytes(buffer.size() - list.elements_));
  buffer.extend_to(list.elements_ + list.size_ * width);
  return list;
}

Result<Table> List::table(uint64_t index) const { return Table::at(*buffer_, elements_ + index * sizeof(uint32_t)); }

Result<std::string> List::text(uint64_t index, uint64_t most) const {
  return text_at(*buffer_, elements_ + index * sizeof(uint32_t), most);
}

Result<void> List::check_size(uint64_t most) const {
  if (size_ <= most) return {};
  return failure(Code::unsupported, fmt::format("the list at {} has {} elements, more than {}",
                                                elements_ - sizeof(uint32_t), size_, most));
}

Result<Shape> List::shape() const {
  if (size_ > kMaxDimensions)
    return failure(Code::unsupported, fmt::format("has {} dimensions, more than {}", size_, kMaxDimensions));
  Shape shape;
  for (const int32_t dimension : TRY(numbers<int32_t>(kMaxDimensions))) {
    if (dimension < 0) return failure(Code::corrupt, fmt::format("has a dimension of {}", dimension));
    shape.push_back(static_cast<uint64_t>(dimension));
  }
  return shape;
}

Result<void> List::charge() const {
  return size_ == 0 ? Result<void>() : buffer_->charge(Cost::input, kElementCost * size_);
}

}  // namespace weightfs::flatbuffer
