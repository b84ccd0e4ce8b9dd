// Mutations of zips and tars, and repairs of their checksums, counts and offsets after any mutation.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "tests/fuzz/targets.h"

namespace weightfs::test {
namespace {

constexpr std::string_view kLocal = "PK\3\4";
constexpr std::string_view kRecord = "PK\1\2";
constexpr std::string_view kEnd = "PK\5\6";
constexpr size_t kLocalSize = 30;
constexpr size_t kRecordSize = 46;
constexpr size_t kEndSize = 22;
constexpr size_t kBlock = 512;

uint32_t number_at(const std::string& input, size_t at, size_t width) {
  uint32_t n = 0;
  for (size_t i = width; i-- > 0;) n = n << 8 | static_cast<uint8_t>(input[at + i]);
  return n;
}

void set_number(std::string& input, size_t at, size_t width, uint64_t n) {
  for (size_t i = 0; i < width; ++i) input[at + i] = static_cast<char>(n >> 8 * i & 0xFF);
}

// The offsets of records of this kind, each with room for its fixed part.
std::vector<size_t> find_all(const std::string& input, std::string_view magic, size_t size) {
  std::vector<size_t> places;
  for (size_t at = input.find(magic); at != input.npos && at + size <= input.size(); at = input.find(magic, at + 4))
    places.push_back(at);
  return places;
}

size_t record_length(const std::string& input, size_t at) {
  const size_t size =
      kRecordSize + number_at(input, at + 28, 2) + number_at(input, at + 30, 2) + number_at(input, at + 32, 2);
  return std::min(size, input.size() - at);
}

// Copies of a record of the directory, which share its local header; most get a name of their own.
void share_member(std::string& input, size_t max_size, Random& random) {
  const auto records = find_all(input, kRecord, kRecordSize);
  if (records.empty() || input.size() >= max_size) return;
  const size_t from = records[random.below(records.size())];
  const std::string record = input.substr(from, record_length(input, from));
  const size_t most = (max_size - input.size()) / record.size();
  if (most == 0) return;
  const bool renamed = random.below(4) != 0;
  std::string copies;
  for (size_t left = random.scaled(most); left > 0; --left) {
    const size_t begin = copies.size();
    copies += record;
    for (size_t i = 0; renamed && i < 4 && kRecordSize + i < record.size(); ++i)
      copies[begin + kRecordSize + i] = static_cast<char>('a' + random.below(26));
  }
  input.insert(from, copies);
}

void change_record(std::string& input, Random& random) {
  const auto records = find_all(input, kRecord, kRecordSize);
  if (records.empty()) return;
  const size_t at = records[random.below(records.size())];
  constexpr uint64_t kMethods[] = {0, 8, 12, 14, 93, 95, 99};
  switch (random.below(6)) {
    case 0:
      return set_number(input, at + 10, 2, kMethods[random.below(std::size(kMethods))]);
    case 1:
      return set_number(input, at + 20, 4, random.below(2) == 0 ? random.below(input.size()) : random.bits());
    case 2:
      return set_number(input, at + 24, 4, random.below(2) == 0 ? random.below(1 << 20) : random.bits());
    case 3:
      return set_number(input, at + 38, 4, random.below(2) == 0 ? 0120777U << 16 : 040755U << 16);
    case 4:
      return set_number(input, at + 42, 4, number_at(input, records[random.below(records.size())] + 42, 4));
    default:
      return set_number(input, at + 8, 2, random.below(2) == 0 ? 1U << random.below(16) : 0);
  }
}

bool is_tar_header(const std::string& input, size_t at) { return input.compare(at + 257, 5, "ustar") == 0; }

}  // namespace

void mutate_zip(std::string& input, size_t max_size, Random& random) {
  switch (random.below(5)) {
    case 0:
      return share_member(input, max_size, random);
    case 1:
      return mutate_numbers(input, max_size, random);
    case 2:
      return mutate_text(input, max_size, random);
    default:
      return change_record(input, random);
  }
}

// Local headers are in the order of the records; a record with an invalid offset gets the next one.
void repair_zip(std::string& input) {
  const auto ends = find_all(input, kEnd, kEndSize);
  const auto records = find_all(input, kRecord, kRecordSize);
  if (ends.empty() || records.empty() || ends.back() < records.front()) return;
  const auto locals = find_all(input, kLocal, kLocalSize);
  size_t next = 0;
  for (const size_t at : records) {
    const uint32_t offset = number_at(input, at + 42, 4);
    if (locals.empty()) break;
    if (offset + kLocalSize > input.size() || input.compare(offset, 4, kLocal) != 0)
      set_number(input, at + 42, 4, locals[next++ % locals.size()]);
    const size_t local = number_at(input, at + 42, 4);
    const size_t data = local + kLocalSize + number_at(input, local + 26, 2) + number_at(input, local + 28, 2);
    const uint64_t stored = number_at(input, at + 20, 4);
    const bool plain = number_at(input, at + 10, 2) == 0;
    if (!plain || data > input.size() || stored > input.size() - data) continue;
    const uint32_t crc = crc32(0, std::as_bytes(std::span(input).subspan(data, stored)));
    set_number(input, at + 16, 4, crc);
    set_number(input, local + 14, 4, crc);
  }
  const size_t end = ends.back();
  set_number(input, end + 8, 2, records.size());
  set_number(input, end + 10, 2, records.size());
  set_number(input, end + 12, 4, end - records.front());
  set_number(input, end + 16, 4, records.front());
}

void mutate_tar(std::string& input, size_t max_size, Random& random) {
  constexpr std::string_view kTypes = "01234567LKxgSZ";
  const size_t blocks = input.size() / kBlock;
  if (blocks == 0) return mutate_numbers(input, max_size, random);
  const size_t at = random.below(blocks) * kBlock;
  switch (random.below(5)) {
    case 0:
      input[at + 156] = kTypes[random.below(kTypes.size())];
      return;
    case 1: {
      const std::string octal = "0000000000" + std::to_string(random.below(10) * 100 + random.below(8));
      input.replace(at + 124, 11, octal.substr(octal.size() - 11));
      return;
    }
    case 2: {
      const std::string copy = input.substr(at, kBlock * (1 + random.below(3)));
      for (size_t left = random.scaled(max_size / kBlock); left > 0 && input.size() + copy.size() <= max_size; --left)
        input.insert(at, copy);
      return;
    }
    case 3:
      return mutate_text(input, max_size, random);
    default:
      return mutate_numbers(input, max_size, random);
  }
}

// POSIX: the sum of the header's bytes, those of the checksum as spaces, in six octal digits.
void repair_tar(std::string& input) {
  constexpr size_t kChecksum = 148;
  for (size_t at = 0; at + kBlock <= input.size(); at += kBlock) {
    if (!is_tar_header(input, at)) continue;
    input.replace(at + kChecksum, 8, "        ");
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += static_cast<uint8_t>(input[at + i]);
    for (size_t i = 6; i-- > 0; sum /= 8) input[at + kChecksum + i] = static_cast<char>('0' + sum % 8);
    input[at + kChecksum + 6] = '\0';
  }
}

void mutate_any(std::string& input, size_t max_size, Random& random) {
  if (input.starts_with(kLocal)) return mutate_zip(input, max_size, random);
  if (input.starts_with("GGUF")) return mutate_numbers(input, max_size, random);
  if (input.starts_with("RTEN")) return mutate_flatbuffer(input, max_size, random);
  if (input.size() > kBlock && is_tar_header(input, 0)) return mutate_tar(input, max_size, random);
  if (input.size() > 16 && input[8] == '{') return mutate_headed(input, max_size, random);
  if (input.starts_with('{')) return mutate_text(input, max_size, random);
  return random.below(2) == 0 ? mutate_text(input, max_size, random) : mutate_numbers(input, max_size, random);
}

void repair_any(std::string& input) {
  if (input.starts_with(kLocal)) return repair_zip(input);
  if (input.size() > kBlock && is_tar_header(input, 0)) repair_tar(input);
}

}  // namespace weightfs::test
