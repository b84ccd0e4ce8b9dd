#include "formats/hdf5/object.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>

namespace weightfs::hdf5 {
namespace {

constexpr uint8_t kSharedFlag = 2;

// A block with messages, and where it is in the file.
struct Block {
  std::string bytes;
  uint64_t address;
};

// Reads the blocks of one header, the first one and its continuations.
class HeaderReader {
 public:
  HeaderReader(Metadata& metadata, uint64_t address) : metadata_(metadata), object_{address, {}} {}

  Result<Object> read() {
    const std::string prefix = TRY(metadata_.block(object_.address, 4));
    is_new_ = prefix == "OHDR";
    TRY_VOID(is_new_ ? read_first_new() : read_first_old());
    while (!more_.empty()) {
      const auto [address, size] = more_.front();
      more_.pop_front();
      TRY_VOID(read_continuation(address, size));
    }
    return std::move(object_);
  }

 private:
  Result<void> read_first_old() {
    constexpr uint64_t kPrefix = 16;
    const std::string block = TRY(metadata_.block(object_.address, kPrefix));
    Fields fields(block, metadata_.sizes());
    if (const auto version = TRY(fields.number(1)); version != 1)
      return failure(Code::corrupt, fmt::format("version {} of an object header", version));
    TRY_VOID(fields.skip(7));
    const uint64_t size = TRY(fields.number(4));
    const uint64_t begin = object_.address + kPrefix;
    return messages({TRY(metadata_.block(begin, size, visited_)), begin}, 0);
  }

  Result<void> read_first_new() {
    constexpr uint64_t kMaxPrefix = 34;
    const uint64_t there = metadata_.size() - object_.address;
    const std::string block = TRY(metadata_.block(object_.address, std::min(there, kMaxPrefix)));
    Fields fields(block, metadata_.sizes());
    TRY_VOID(fields.expect("OHDR", 2));
    const uint64_t flags = TRY(fields.number(1));
    has_order_ = (flags & 4) != 0;
    if ((flags & 0x20) != 0) TRY_VOID(fields.skip(16));
    if ((flags & 0x10) != 0) TRY_VOID(fields.skip(4));
    const uint64_t size = TRY(fields.number(size_t{1} << (flags & 3)));
    const uint64_t prefix = fields.position();
    if (size > there) return failure(Code::corrupt, fmt::format("an object header of {} bytes, {} left", size, there));
    const std::string whole = TRY(metadata_.block(object_.address, prefix + size + 4, visited_));
    TRY_VOID(check_sum(whole, "object header"));
    return messages({whole.substr(prefix, size), object_.address + prefix}, 0);
  }

  Result<void> read_continuation(uint64_t address, uint64_t size) {
    std::string block = TRY(metadata_.block(address, size, visited_));
    if (!is_new_) return messages({std::move(block), address}, 0);
    TRY_VOID(check_sum(block, "continuation of an object header"));
    if (!block.starts_with("OCHK") || block.size() < 8) return failure(Code::corrupt, "a continuation without OCHK");
    block.resize(block.size() - 4);
    return messages({std::move(block), address}, 4);
  }

  // The messages in `block` from `begin` on. Bytes at its end that are too few for a message are a gap.
  Result<void> messages(const Block& block, uint64_t begin) {
    const uint64_t prefix = is_new_ ? (has_order_ ? 6 : 4) : 8;
    Fields fields(block.bytes, metadata_.sizes());
    TRY_VOID(fields.skip(begin));
    while (fields.left() >= prefix) {
      Message message;
      message.type = static_cast<MessageType>(TRY(fields.number(is_new_ ? 1 : 2)));
      const uint64_t size = TRY(fields.number(2));
      message.shared = (TRY(fields.number(1)) & kSharedFlag) != 0;
      TRY_VOID(fields.skip(prefix - (is_new_ ? 4 : 5)));
      message.address = block.address + fields.position();
      message.data = TRY(fields.text(size));
      TRY_VOID(metadata_.charge(Cost::step));
      if (message.type == MessageType::continuation)
        TRY_VOID(queue(message.data));
      else
        object_.messages.push_back(std::move(message));
    }
    return {};
  }

  Result<void> queue(std::string_view data) {
    Fields fields(data, metadata_.sizes());
    const uint64_t address = TRY(fields.address());
    const uint64_t size = TRY(fields.length());
    more_.emplace_back(address, size);
    return {};
  }

  Metadata& metadata_;
  Object object_;
  bool is_new_ = false;
  bool has_order_ = false;
  Visited visited_;
  std::deque<std::pair<uint64_t, uint64_t>> more_;  // address and size of continuation blocks
};

}  // namespace

const Message* Object::find(MessageType type) const {
  const auto found =
      std::find_if(messages.begin(), messages.end(), [&](const Message& message) { return message.type == type; });
  return found == messages.end() ? nullptr : &*found;
}

Result<Object> read_object(Metadata& metadata, uint64_t address) {
  TRY_VOID(metadata.charge(Cost::step, 2));
  return HeaderReader(metadata, address).read().map_error([&](const Error& error) {
    return Error{error.code, fmt::format("object header at {}: {}", address, error.message)};
  });
}

Result<Message> resolve_shared(Metadata& metadata, const Message& message) {
  if (!message.shared) return message;
  Fields fields(message.data, metadata.sizes());
  const uint64_t version = TRY(fields.number(1));
  const uint64_t type = TRY(fields.number(1));
  // Reserved bytes, and the offset in a local heap of HDF5 before 1.6.
  if (version == 1) TRY_VOID(fields.skip(6 + metadata.sizes().length));
  if (version < 1 || version > 3 || (version == 3 && type != 2))
    return failure(Code::unsupported, fmt::format("a shared message of version {} and type {}", version, type));
  const uint64_t address = TRY(fields.address());
  const Object object = TRY(read_object(metadata, address));
  const Message* const found = object.find(message.type);
  if (found == nullptr || found->shared) return failure(Code::corrupt, "a shared message that is not there");
  return *found;
}

}  // namespace weightfs::hdf5
