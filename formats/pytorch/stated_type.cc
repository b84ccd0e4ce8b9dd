#include "formats/pytorch/stated_type.h"

#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>

#include "base/text.h"
#include "formats/common/strided.h"
#include "formats/float32.h"
#include "formats/pytorch/torch_types.h"

namespace weightfs::pytorch {
namespace {

// Little-endian float32 as bfloat16.
class Rounded final : public Source {
 public:
  explicit Rounded(Slice floats) : floats_(std::move(floats)) {}

  uint64_t size() const override { return floats_.size() / 2; }
  VerifiedBy verification() const override { return floats_.verification(); }
  std::shared_ptr<const void> keep_cached() const override { return floats_.keep_cached(); }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const size_t wanted = bytes_inside(size(), offset, out.size());
    for (size_t done = 0; done < wanted;) {
      std::array<float, kChunk> floats{};
      const uint64_t at = offset + done, first = at / sizeof(uint16_t);
      const size_t count = std::min<uint64_t>(kChunk, size() / sizeof(uint16_t) - first);
      TRY_VOID(read_exact(floats_, first * sizeof(float), std::as_writable_bytes(std::span(floats)).first(count * 4)));
      std::array<uint16_t, kChunk> rounded{};
      for (size_t i = 0; i < count; ++i) rounded[i] = to_bfloat16(floats[i]);
      const size_t skipped = at % sizeof(uint16_t);
      const size_t copied = std::min(wanted - done, count * sizeof(uint16_t) - skipped);
      std::memcpy(out.data() + done, std::as_bytes(std::span(rounded)).data() + skipped, copied);
      done += copied;
    }
    return wanted;
  }

 private:
  static constexpr size_t kChunk = 4096;

  static_assert(std::endian::native == std::endian::little);

  Slice floats_;
};

}  // namespace

Result<void> state_type(size_t place, std::string_view global, pickle::Contents& out) {
  const TorchType* const stated = type_of_dtype(global);
  const TensorView view = out.tensors[place];
  if (stated == nullptr || view.source.refused()) return {};
  Tensor tensor{std::string(view.name), stated->dtype, stated->name, view.scope, view.shape, view.source};
  if (view.dtype != stated->dtype) {
    if (stated->name != "bfloat16" || view.dtype->name != "float32") {
      out.warnings.add("tensor {}: its array of {} is shown, of which torch makes {}", quoted(view.name),
                       view.stored_dtype, stated->name);
      return {};
    }
    tensor.source = TRY(slice(std::make_shared<Rounded>(view.source), 0, view.source.size() / 2));
    TRY_VOID(charge_gathering(out.charges, tensor.source, view.source));
  }
  out.tensors.replace(place, tensor);
  return {};
}

}  // namespace weightfs::pytorch
