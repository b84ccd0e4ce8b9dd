// Mutations of binary formats: numbers that are lengths, counts and offsets.
#include <cstring>
#include <string>

#include "tests/fuzz/targets.h"

namespace weightfs::test {
namespace {

uint64_t number_at(const std::string& input, size_t at, size_t width) {
  uint64_t n = 0;
  for (size_t i = width; i-- > 0;) n = n << 8 | static_cast<uint8_t>(input[at + i]);
  return n;
}

void set_number(std::string& input, size_t at, size_t width, uint64_t n) {
  for (size_t i = 0; i < width; ++i) input[at + i] = static_cast<char>(n >> 8 * i & 0xFF);
}

size_t aligned_place(const std::string& input, size_t width, Random& random) {
  const size_t at = random.below(input.size() - width + 1);
  return random.below(2) == 0 ? at : at - at % 4;
}

uint64_t interesting(const std::string& input, size_t at, size_t width, Random& random) {
  const uint64_t now = number_at(input, at, width);
  switch (random.below(10)) {
    case 0:
      return 0;
    case 1:
      return ~uint64_t{0};
    case 2:
      return uint64_t{1} << random.below(64);
    case 3:
      return (uint64_t{1} << random.below(64)) - 1;
    case 4:
      return input.size() - at;
    case 5:
      return input.size() + random.below(17) - 8;
    case 6:
      return now + random.below(17) - 8;
    case 7:
      return now * 2;
    case 8:
      return number_at(input, aligned_place(input, width, random), width);
    default:
      return random.below(300);
  }
}

void change_number(std::string& input, Random& random) {
  const size_t width = size_t{1} << random.below(4);
  if (input.size() < width) return;
  const size_t at = aligned_place(input, width, random);
  set_number(input, at, width, interesting(input, at, width, random));
}

// Bytes after a number that can be their length: they are repeated, and the number is updated.
void grow_string(std::string& input, size_t max_size, Random& random) {
  const size_t width = random.below(2) == 0 ? 8 : 4;
  if (input.size() <= width || input.size() >= max_size) return;
  const size_t from = random.below(input.size() - width);
  for (size_t at = from; at < std::min(from + 256, input.size() - width); ++at) {
    const uint64_t length = number_at(input, at, width);
    if (length == 0 || length > 1024 || length > input.size() - at - width) continue;
    const size_t grown = random.scaled(max_size - input.size());
    std::string text;
    while (text.size() < grown) text += input.substr(at + width, length);
    text.resize(grown);
    input.insert(at + width + length, text);
    return set_number(input, at, width, length + grown);
  }
}

void repeat_record(std::string& input, size_t max_size, Random& random) {
  const size_t begin = random.below(input.size());
  const std::string record = input.substr(begin, random.scaled(256));
  size_t copies = record.empty() ? 0 : (max_size - std::min(max_size, input.size())) / record.size();
  if (copies == 0) return;
  copies = random.scaled(copies);
  std::string all;
  for (size_t i = 0; i < copies; ++i) all += record;
  input.insert(begin, all);
  // A count near the beginning may be that of these records.
  if (random.below(2) == 0 && input.size() >= 64) {
    const size_t at = random.below(7) * 8;
    set_number(input, at, 8, number_at(input, at, 8) + copies);
  }
}

// Changes the offset at `at` to the target of the one at `from`.
void share_target(std::string& input, Random& random) {
  const size_t at = random.below(input.size() / 4) * 4;
  const size_t from = random.below(input.size() / 4) * 4;
  const uint64_t target = from + number_at(input, from, 4);
  set_number(input, at, 4, target - at);
}

// A table's first field is the distance back to its vtable.
void share_vtable(std::string& input, Random& random) {
  const size_t at = random.below(input.size() / 4) * 4;
  const size_t from = random.below(input.size() / 4) * 4;
  const uint64_t vtable = from - number_at(input, from, 4);
  set_number(input, at, 4, at - vtable);
}

void copy_word(std::string& input, Random& random) {
  const size_t at = random.below(input.size() / 4) * 4;
  set_number(input, at, 4, number_at(input, random.below(input.size() / 4) * 4, 4));
}

}  // namespace

void mutate_numbers(std::string& input, size_t max_size, Random& random) {
  if (input.empty()) return;
  switch (random.below(4)) {
    case 0:
      return grow_string(input, max_size, random);
    case 1:
      return repeat_record(input, max_size, random);
    default:
      for (size_t count = random.scaled(4); count > 0; --count) change_number(input, random);
  }
}

void mutate_flatbuffer(std::string& input, size_t max_size, Random& random) {
  if (input.size() < 16) return mutate_numbers(input, max_size, random);
  for (size_t count = random.scaled(8); count > 0; --count) switch (random.below(5)) {
      case 0:
        share_target(input, random);
        break;
      case 1:
        share_vtable(input, random);
        break;
      case 2:
        copy_word(input, random);
        break;
      case 3:
        change_number(input, random);
        break;
      default:
        mutate_numbers(input, max_size, random);
    }
}

}  // namespace weightfs::test
