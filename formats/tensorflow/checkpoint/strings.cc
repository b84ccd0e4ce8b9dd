#include "formats/tensorflow/checkpoint/strings.h"

#include <fmt/core.h>

#include "base/text.h"
#include "formats/checksums/range_checksums.h"
#include "formats/grouped.h"
#include "formats/protobuf/scanner.h"

namespace weightfs::tensorflow {
namespace {

using protobuf::Scanner;
using protobuf::WireType;

constexpr uint64_t kChecksum = 4;
constexpr uint64_t kUtf8Growth = 3;  // the most bytes that a byte takes as UTF-8

// Reads the lengths; `at` is behind them and the checksum.
Result<std::vector<uint64_t>> read_lengths(Scanner& scanner, uint64_t& at, uint64_t count, uint64_t size) {
  std::vector<uint64_t> lengths;
  uint64_t left = size;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t length = TRY(scanner.number(at, size, WireType::varint));
    if (length > left)
      return failure(Code::corrupt, fmt::format("a string of {}, {} left", counted_bytes(length), left));
    left -= length;
    lengths.push_back(length);
  }
  if (at > size || size - at != size - left + kChecksum)
    return failure(Code::corrupt, fmt::format("{} strings of {} bytes in {} bytes", count, size - left, size));
  at += kChecksum;
  return lengths;
}

Result<void> compare(const StoredStrings& strings) {
  if (!strings.crc32c) return {};
  const uint32_t found = TRY(crc32c_of(strings.bytes, RangeSum(strings.count, strings.order)));
  return found == *strings.crc32c ? Result<void>() : failure(Code::mismatch, "the bytes do not match their CRC-32C");
}

Result<Strings> read_strings(const StoredStrings& source, Budget& budget) {
  const auto& [stored, count, crc32c, order] = source;
  if (count > stored.size()) return failure(Code::corrupt, fmt::format("{} strings in {} bytes", count, stored.size()));
  Charges charges(budget);
  TRY_VOID(charges.charge(Cost::input, stored.size()));
  TRY_VOID(charges.charge(Cost::kept, kUtf8Growth * stored.size() + (sizeof(std::string) + sizeof(uint64_t)) * count));
  Scanner scanner(stored, nullptr);
  uint64_t at = 0;
  const auto lengths = TRY(read_lengths(scanner, at, count, stored.size()));
  TRY_VOID(compare(source));
  auto strings = std::make_shared<std::vector<std::string>>();
  strings->reserve(count);
  for (const uint64_t length : lengths) {
    strings->push_back(to_utf8(TRY(scanner.text({at, at + length}, length))));
    at += length;
  }
  charges.keep();
  return strings;
}

}  // namespace

uint64_t least_bytes(uint64_t strings) { return strings > UINT64_MAX - kChecksum ? UINT64_MAX : strings + kChecksum; }

Later<Strings> strings_of(const StoredStrings& stored, const BudgetPtr& budget) {
  return Later<Strings>([stored, budget] { return read_strings(stored, *budget); });
}

Result<Slice> only_string(const StoredStrings& stored, Budget& budget) {
  TRY_VOID(budget.charge(Cost::input, stored.bytes.size()));
  Scanner scanner(stored.bytes, nullptr);
  uint64_t at = 0;
  const auto lengths = TRY(read_lengths(scanner, at, 1, stored.bytes.size()));
  TRY_VOID(compare(stored));
  return slice(stored.bytes.whole(), stored.bytes.offset() + at, lengths[0]);
}

}  // namespace weightfs::tensorflow
