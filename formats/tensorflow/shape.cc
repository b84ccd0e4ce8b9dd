#include "formats/tensorflow/shape.h"

#include <fmt/core.h>

#include "formats/tensorflow/fields.h"

namespace weightfs::tensorflow {

Result<Shape> StoredShape::known() const {
  if (has_unknown_rank) return failure(Code::corrupt, "the number of its dimensions is unknown");
  if (is_too_long) return failure(Code::unsupported, fmt::format("more than {} dimensions", kMaxDimensions));
  Shape shape;
  for (const int64_t size : sizes) {
    if (size < 0) return failure(Code::corrupt, fmt::format("dimension {}", size));
    shape.push_back(static_cast<uint64_t>(size));
  }
  return shape;
}

Shape StoredShape::shown() const {
  Shape shape;
  for (const int64_t size : sizes)
    if (size >= 0) shape.push_back(static_cast<uint64_t>(size));
  return shape;
}

Result<StoredShape> read_shape(Scanner& scanner, const Message& message) {
  StoredShape out;
  Fields fields(scanner, message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == shape::kUnknownRank) out.has_unknown_rank = field->value != 0;
    if (field->tag != shape::kDim) continue;
    int64_t size = 0;
    const Message dimension = TRY(scanner.child(message, *field));
    Fields inner(scanner, dimension);
    while (const auto each = TRY(inner.next()))
      if (each->tag == shape::kDimSize) size = static_cast<int64_t>(each->value);
    if (out.sizes.size() == kMaxDimensions)
      out.is_too_long = true;
    else
      out.sizes.push_back(size);
  }
  return out;
}

}  // namespace weightfs::tensorflow
