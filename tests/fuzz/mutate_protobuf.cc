// Mutations of Protocol Buffers: fields are removed, repeated, moved, nested and changed, and the lengths of the
// messages around them stay right.
#include <optional>
#include <string>
#include <vector>

#include "tests/builders/protobuf_builder.h"
#include "tests/fuzz/sibling.h"
#include "tests/fuzz/targets.h"

namespace weightfs::test {
namespace {

constexpr size_t kMaxFields = 2'000;
constexpr int kMaxDepth = 60;

struct Field {
  uint64_t tag = 0;
  std::string value;           // of a varint, its encoding
  std::vector<Field> message;  // if the bytes are a message
  bool is_message = false;
};

std::optional<uint64_t> read_varint(std::string_view& bytes) {
  uint64_t number = 0;
  for (unsigned shift = 0; shift < 70 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    if (shift < 64) number |= uint64_t{byte & 0x7FU} << shift;
    if ((byte & 0x80) == 0) return number;
  }
  return std::nullopt;
}

// The fields of a message; nothing if the bytes are none.
std::optional<std::vector<Field>> parse(std::string_view bytes, int depth) {
  std::vector<Field> fields;
  while (!bytes.empty()) {
    Field field;
    const auto tag = read_varint(bytes);
    if (!tag || *tag < 8 || fields.size() == kMaxFields) return std::nullopt;
    field.tag = *tag;
    const std::string_view rest = bytes;
    size_t size = (*tag & 7) == 1 ? 8 : (*tag & 7) == 5 ? 4 : 0;
    if ((*tag & 7) > 2 && (*tag & 7) != 5) return std::nullopt;
    if ((*tag & 7) == 0) {
      if (!read_varint(bytes)) return std::nullopt;
      field.value = rest.substr(0, rest.size() - bytes.size());
    } else {
      if ((*tag & 7) == 2) {
        const auto length = read_varint(bytes);
        if (!length || *length > bytes.size()) return std::nullopt;
        size = static_cast<size_t>(*length);
      }
      if (size > bytes.size()) return std::nullopt;
      field.value = bytes.substr(0, size);
      bytes.remove_prefix(size);
    }
    if ((*tag & 7) == 2 && depth > 0 && !field.value.empty())
      if (auto inner = parse(field.value, depth - 1)) {
        field.message = std::move(*inner);
        field.is_message = true;
      }
    fields.push_back(std::move(field));
  }
  return fields;
}

std::string write(const std::vector<Field>& fields) {
  std::string out;
  for (const Field& field : fields) {
    out += varint(field.tag);
    const std::string value = field.is_message ? write(field.message) : field.value;
    if ((field.tag & 7) == 2) out += varint(value.size());
    out += value;
  }
  return out;
}

// A random message that is not empty: the outermost one, or one in it.
std::vector<Field>& choose(std::vector<Field>& fields, Random& random) {
  std::vector<Field>* message = &fields;
  while (random.below(4) != 0) {
    Field& field = (*message)[random.below(message->size())];
    if (!field.is_message || field.message.empty()) break;
    message = &field.message;
  }
  return *message;
}

void change_value(Field& field, Random& random) {
  const uint64_t number = random.below(2) == 0 ? random.below(40) : uint64_t{1} << random.below(64);
  switch (field.tag & 7) {
    case 0:
      field.value = varint(random.below(4) == 0 ? number - 1 : number);
      break;
    case 2:
      field.is_message = false;
      field.value.resize(random.below(3) == 0 ? random.scaled(300) : random.below(20), static_cast<char>(number));
      break;
    default:
      field.value.assign(field.value.size(), static_cast<char>(number));
  }
}

void mutate_once(std::vector<Field>& fields, Random& random) {
  if (fields.empty()) return;
  std::vector<Field>& message = choose(fields, random);
  const size_t at = random.below(message.size());
  switch (random.below(7)) {
    case 0:
      message.erase(message.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      message.insert(message.end(), random.scaled(20), Field(message[at]));
      break;
    case 2:
      std::swap(message[at], message[random.below(message.size())]);
      break;
    case 3:  // the same value under another number
      message[at].tag = (random.below(27) + 1) << 3 | (message[at].tag & 7);
      break;
    case 4: {  // a field of another message
      const Field copy = message[at];
      choose(fields, random).push_back(copy);
      break;
    }
    case 5: {  // a message in itself
      Field copy = message[at];
      for (uint64_t depth = random.below(12); depth > 0 && !message[at].message.empty(); --depth) {
        Field around = message[at];
        choose(around.message, random).push_back(std::move(copy));
        copy = std::move(around);
      }
      message.push_back(std::move(copy));
      break;
    }
    default:
      change_value(message[at], random);
  }
}

}  // namespace

void mutate_protobuf(std::string& input, size_t max_size, Random& random) {
  const size_t files = std::min(input.find(kFile), input.size());
  auto fields = parse(std::string_view(input).substr(0, files), kMaxDepth);
  if (!fields) return mutate_numbers(input, max_size, random);
  for (uint64_t count = random.below(4); count < 4; ++count) mutate_once(*fields, random);
  std::string out = write(*fields) + input.substr(files);
  if (out.size() <= max_size) input = std::move(out);
}

}  // namespace weightfs::test
