#include "formats/protobuf/dimensions.h"

#include <fmt/core.h>

namespace weightfs::protobuf {
namespace {

void add_dimension(uint64_t number, Shape& shape, std::optional<std::string>& problem) {
  if (problem) return;
  if (static_cast<int64_t>(number) < 0) problem = fmt::format("dimension {}", static_cast<int64_t>(number));
  if (shape.size() == kMaxDimensions) problem = fmt::format("more than {} dimensions", kMaxDimensions);
  if (problem)
    shape.clear();
  else
    shape.push_back(number);
}

}  // namespace

Result<void> read_dimensions(Scanner& scanner, const Field& field, Shape& shape, std::optional<std::string>& problem) {
  if (field.tag == varint(field.number())) {
    add_dimension(field.value, shape, problem);
    return {};
  }
  for (uint64_t at = field.bytes.begin; at < field.bytes.end && !problem;) {
    const uint64_t number = TRY(scanner.number(at, field.bytes.end, WireType::varint));
    add_dimension(number, shape, problem);
  }
  return {};
}

}  // namespace weightfs::protobuf
