// Mutations of text that plain byte mutations do not find: long repetition, deep nesting, repeated lines.
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "tests/fuzz/targets.h"

namespace weightfs::test {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kPairs = {{
    {"[", "]"},
    {"[[", "]]"},
    {"{\"a\":", "}"},
    {"[{\"a\":", "}]"},
    {"{a=", "}"},
    {"[1,", "]"},
    {"a.", ""},
    {"[a.", "]"},
    {"\"\".", ""},
    {"a/", ""},
    {"\"", "\""},
    {"\n[[a.b", "]]\n"},
}};

constexpr std::array<std::string_view, 32> kWords = {"=",
                                                     ".",
                                                     ",",
                                                     "\n",
                                                     "\"\"",
                                                     "''",
                                                     "\"\"\"",
                                                     "'''",
                                                     "{}",
                                                     "[]",
                                                     "\n[a]\n",
                                                     "\n[[a]]\n",
                                                     "a=1\n",
                                                     "inf",
                                                     "nan",
                                                     "1e308",
                                                     "0x7f",
                                                     "\\u0000",
                                                     "\\ud800",
                                                     "null",
                                                     "true",
                                                     "1979-05-27T07:32:00Z",
                                                     "\"a\":",
                                                     "\"weight_map\":{",
                                                     "\"layers\":[",
                                                     "\"records\":[",
                                                     "tensor_data/",
                                                     "@tensor_data/",
                                                     "\"shape\":[",
                                                     "\"size\":",
                                                     "18446744073709551615",
                                                     "\r\n"};

// The start of a mutation: anywhere, or at the beginning of a line.
size_t place_in(const std::string& input, Random& random) {
  const size_t at = random.below(input.size() + 1);
  if (random.below(2) == 0) return at;
  const size_t line = input.rfind('\n', at == 0 ? 0 : at - 1);
  return line == input.npos ? 0 : line + 1;
}

std::string repeated(std::string_view text, size_t count) {
  std::string all;
  all.reserve(text.size() * count);
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

size_t room(const std::string& input, size_t max_size) { return input.size() < max_size ? max_size - input.size() : 0; }

void repeat_slice(std::string& input, size_t max_size, Random& random) {
  const size_t begin = random.below(input.size());
  const std::string slice = input.substr(begin, random.scaled(64));
  const size_t most = room(input, max_size) / std::max<size_t>(slice.size(), 1);
  if (most > 0) input.insert(begin, repeated(slice, random.scaled(most)));
}

void nest(std::string& input, size_t max_size, Random& random) {
  const auto& [open, close] = kPairs[random.below(kPairs.size())];
  const size_t most = room(input, max_size) / (open.size() + close.size());
  if (most == 0) return;
  const size_t times = random.scaled(most);
  const size_t begin = place_in(input, random);
  const size_t end = begin + random.below(std::min<size_t>(input.size() - begin, 64) + 1);
  input.insert(end, repeated(close, times));
  input.insert(begin, repeated(open, times));
}

std::pair<size_t, size_t> line_at(const std::string& input, size_t at) {
  const size_t before = at == 0 ? input.npos : input.rfind('\n', at - 1);
  const size_t begin = before == input.npos ? 0 : before + 1;
  const size_t end = input.find('\n', begin);
  return {begin, end == input.npos ? input.size() : end + 1};
}

// Copies of a line, each with a number in it, so that keys are not all the same.
void repeat_line(std::string& input, size_t max_size, Random& random) {
  const auto [begin, end] = line_at(input, random.below(input.size()));
  const std::string line = input.substr(begin, end - begin);
  const size_t at = random.below(line.size() + 1);
  std::string copies;
  const size_t count = random.scaled(max_size / std::max<size_t>(line.size(), 1) + 1);
  for (size_t i = 0; i < count && copies.size() + line.size() + 8 < room(input, max_size); ++i)
    copies += random.below(16) == 0 ? line : line.substr(0, at) + std::to_string(i) + line.substr(at);
  input.insert(end, copies);
}

void move_line(std::string& input, Random& random) {
  const auto [begin, end] = line_at(input, random.below(input.size()));
  const std::string line = input.substr(begin, end - begin);
  input.erase(begin, end - begin);
  input.insert(place_in(input, random), line);
}

void insert_words(std::string& input, size_t max_size, Random& random) {
  for (size_t count = random.scaled(4); count > 0; --count) {
    const std::string_view word = kWords[random.below(kWords.size())];
    if (word.size() <= room(input, max_size)) input.insert(place_in(input, random), word);
  }
}

}  // namespace

void mutate_text(std::string& input, size_t max_size, Random& random) {
  if (input.empty()) input = "\n";
  switch (random.below(6)) {
    case 0:
      return repeat_slice(input, max_size, random);
    case 1:
    case 2:
      return nest(input, max_size, random);
    case 3:
      return repeat_line(input, max_size, random);
    case 4:
      return move_line(input, random);
    default:
      return insert_words(input, max_size, random);
  }
}

void mutate_headed(std::string& input, size_t max_size, Random& random) {
  constexpr size_t kPrefix = 8;
  if (input.size() < kPrefix || max_size < kPrefix) return mutate_text(input, max_size, random);
  uint64_t length = 0;
  for (size_t i = kPrefix; i-- > 0;) length = length << 8 | static_cast<uint8_t>(input[i]);
  const size_t end = kPrefix + static_cast<size_t>(std::min<uint64_t>(length, input.size() - kPrefix));
  std::string header = input.substr(kPrefix, end - kPrefix);
  const size_t other = input.size() - header.size();
  if (other >= max_size) return;
  if (header.find("\":") != header.npos)
    mutate_text(header, max_size - other, random);
  else
    mutate_numbers(header, max_size - other, random);
  std::string prefix;
  for (size_t i = 0; i < kPrefix; ++i) prefix += static_cast<char>(uint64_t{header.size()} >> 8 * i & 0xFF);
  input = prefix + header + input.substr(end);
}

}  // namespace weightfs::test
