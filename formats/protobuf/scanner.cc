#include "formats/protobuf/scanner.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/values/little_endian.h"
#include "formats/grouped.h"

namespace weightfs::protobuf {
namespace {

// A read after a jump is short, because the next jump often follows soon. Reads that continue grow.
constexpr size_t kMinBuffer = 512;
constexpr size_t kMaxBuffer = 64 * 1024;

constexpr uint32_t kMaxFieldNumber = (1 << 29) - 1;
constexpr int kMaxVarintBytes = 10;

tl::unexpected<Error> corrupt(uint64_t at, std::string_view problem) {
  return failure(Code::corrupt, fmt::format("protobuf: {} at byte {}", problem, at));
}

Error too_deep() {
  return {Code::unsupported, fmt::format("protobuf: messages nested more than {} deep", kMaxNesting)};
}

}  // namespace

Result<void> Scanner::merge(Message& child, const Message& parent, const Field& field) const {
  if (parent.depth >= kMaxNesting) return tl::unexpected(too_deep());
  child.depth = parent.depth + 1;
  if (budget_ != nullptr && !child.absent()) TRY_VOID(budget_->charge(Cost::kept, 2 * sizeof(Range)));
  child.ranges.push_back(field.bytes);
  return {};
}

Result<Message> Scanner::child(const Message& parent, const Field& field) const {
  Message child;
  TRY_VOID(merge(child, parent, field));
  return child;
}

// The `size` bytes at `at`, or null if the source ends before.
Result<const uint8_t*> Scanner::bytes_at(uint64_t at, uint64_t size) {
  if (at >= begin_ && at - begin_ <= buffer_.size() && size <= buffer_.size() - (at - begin_))
    return buffer_.data() + (at - begin_);
  if (at > source_.size() || size > source_.size() - at) return nullptr;
  const bool continues = !buffer_.empty() && at >= begin_ && at - begin_ <= buffer_.size() + kMinBuffer;
  const size_t wanted = continues ? std::min(2 * buffer_.size(), kMaxBuffer) : kMinBuffer;
  const uint64_t count = std::min<uint64_t>(std::max<uint64_t>(wanted, size), source_.size() - at);
  if (budget_ != nullptr) TRY_VOID(budget_->charge(Cost::input, count));
  begin_ = at;
  buffer_.resize(static_cast<size_t>(count));
  TRY_VOID(read_exact(source_, at, std::as_writable_bytes(std::span(buffer_))));
  return buffer_.data();
}

Result<std::string> Scanner::text_at(const Message& message, uint32_t tag, uint64_t most) {
  Range found;
  Fields fields(*this, message);
  while (const auto field = TRY(fields.next()))
    if (field->tag == tag) found = field->bytes;
  return text(found, most);
}

Result<Message> Scanner::message_at(const Message& message, uint32_t tag) {
  Message found;
  Fields fields(*this, message);
  while (const auto field = TRY(fields.next()))
    if (field->tag == tag) TRY_VOID(merge(found, message, *field));
  return found;
}

Result<uint64_t> Scanner::varint(uint64_t& at, uint64_t end) {
  // Most have one byte.
  if (at < end && at >= begin_ && at - begin_ < buffer_.size() && buffer_[at - begin_] < 0x80)
    return buffer_[at++ - begin_];
  uint64_t number = 0;
  for (int i = 0; i < kMaxVarintBytes; ++i) {
    const uint8_t* const byte = at < end ? TRY(bytes_at(at, 1)) : nullptr;
    if (byte == nullptr) return corrupt(at, "a number is cut");
    ++at;
    number |= static_cast<uint64_t>(*byte & 0x7F) << (7 * i);
    if ((*byte & 0x80) == 0) return number;
  }
  return corrupt(at, "a number of more than 10 bytes");
}

Result<uint64_t> Scanner::number(uint64_t& at, uint64_t end, WireType type) {
  if (type == WireType::varint) return varint(at, end);
  const size_t size = type == WireType::fixed32 ? 4 : 8;
  const uint8_t* const bytes = at <= end && size <= end - at ? TRY(bytes_at(at, size)) : nullptr;
  if (bytes == nullptr) return corrupt(at, "a number is cut");
  at += size;
  return little_endian({reinterpret_cast<const char*>(bytes), size});
}

Result<std::string> Scanner::text(const Range& range, uint64_t most) {
  if (range.size() > most)
    return failure(Code::unsupported, fmt::format("protobuf: a text of {} bytes at byte {}, at most {} are read",
                                                  range.size(), range.begin, most));
  if (range.empty()) return std::string();
  if (range.size() <= kMaxBuffer) {
    const uint8_t* const bytes = TRY(bytes_at(range.begin, range.size()));
    if (bytes == nullptr) return corrupt(range.begin, "a text is cut");
    return std::string(reinterpret_cast<const char*>(bytes), static_cast<size_t>(range.size()));
  }
  if (budget_ != nullptr) TRY_VOID(budget_->charge(Cost::input, range.size()));
  return read_text(source_, range.begin, range.size());
}

Result<std::optional<Field>> Fields::next() {
  while (true) {
    while (at_ == end_) {
      if (next_range_ == message_.ranges.size()) return std::nullopt;
      at_ = message_.ranges[next_range_].begin;
      end_ = message_.ranges[next_range_].end;
      ++next_range_;
    }
    Field field;
    TRY_VOID(read_tag(field));
    if (static_cast<WireType>(field.tag & 7) == WireType::group_end)
      return corrupt(field.begin, "the end of a group that has no beginning");
    TRY_VOID(read_value(field));
    if (static_cast<WireType>(field.tag & 7) != WireType::group_begin) return field;
    TRY_VOID(skip_group(field.number()));
  }
}

Result<void> Fields::read_tag(Field& field) {
  field.begin = at_;
  const uint64_t tag = TRY(scanner_.number(at_, end_, WireType::varint));
  if (tag >> 3 == 0 || tag >> 3 > kMaxFieldNumber)
    return corrupt(field.begin, fmt::format("field number {}", tag >> 3));
  field.tag = static_cast<uint32_t>(tag);
  return {};
}

Result<void> Fields::read_value(Field& field) {
  const auto type = static_cast<WireType>(field.tag & 7);
  switch (type) {
    case WireType::varint:
    case WireType::fixed32:
    case WireType::fixed64:
      field.bytes.begin = at_;
      field.value = TRY(scanner_.number(at_, end_, type));
      field.bytes.end = at_;
      return {};
    case WireType::bytes: {
      const uint64_t size = TRY(scanner_.number(at_, end_, WireType::varint));
      if (size > end_ - at_) return too_long(field, size);
      field.bytes = {at_, at_ + size};
      at_ += size;
      return {};
    }
    case WireType::group_begin:
    case WireType::group_end:
      return {};
  }
  return corrupt(field.begin, fmt::format("unknown wire type {}", field.tag & 7));
}

Result<void> Fields::too_long(const Field& field, uint64_t size) const {
  const uint64_t left = end_ - at_;
  const std::string cut =
      scanner_.is_at_end(end_) ? fmt::format(": the file ends {} early", exact_size(size - left)) : "";
  return corrupt(field.begin, fmt::format("a field of {}, {} left{}", counted_bytes(size), left, cut));
}

Result<void> Fields::skip_group(uint32_t number) {
  std::vector<uint32_t> groups;
  TRY_VOID(enter_group(groups, number));
  while (!groups.empty()) {
    if (at_ == end_) return corrupt(at_, "a group without an end");
    Field field;
    TRY_VOID(read_tag(field));
    TRY_VOID(read_value(field));
    const auto type = static_cast<WireType>(field.tag & 7);
    if (type == WireType::group_begin) TRY_VOID(enter_group(groups, field.number()));
    if (type != WireType::group_end) continue;
    if (groups.back() != field.number()) return corrupt(field.begin, "the end of another group");
    groups.pop_back();
  }
  return {};
}

Result<void> Fields::enter_group(std::vector<uint32_t>& groups, uint32_t number) const {
  if (message_.depth + static_cast<int>(groups.size()) >= kMaxNesting) return tl::unexpected(too_deep());
  groups.push_back(number);
  return {};
}

}  // namespace weightfs::protobuf
