#include "formats/tensorflow/checkpoint/version1.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "formats/common/limits.h"
#include "formats/protobuf/numbers.h"
#include "formats/tensorflow/checkpoint/slices.h"
#include "formats/tensorflow/fields.h"
#include "formats/tensorflow/shape.h"
#include "formats/tensorflow/types.h"

namespace weightfs::tensorflow {
namespace {

using protobuf::NumbersField;

// The bytes of a block that are searched for an entry in a microsecond. The first read of a slice searches its block.
constexpr uint64_t kSearchedPerStep = 4096;

// A SavedSliceMeta.
struct SavedTensor {
  std::string name;
  StoredShape shape;
  uint64_t data_type = 0;
  std::vector<TensorSlice> slices;
};

Result<SavedTensor> read_meta(Scanner& scanner, const Message& message, Charges& charges) {
  SavedTensor tensor;
  Message shape;
  Fields fields(scanner, message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == saved_slices::kName) tensor.name = TRY(scanner.text(field->bytes, kMaxNameLength));
    if (field->tag == saved_slices::kShape) TRY_VOID(scanner.merge(shape, message, *field));
    if (field->tag == saved_slices::kDataType) tensor.data_type = static_cast<uint32_t>(field->value);
    if (field->tag != saved_slices::kSlice) continue;
    const Message child = TRY(scanner.child(message, *field));
    TRY_VOID(charges.charge(Cost::kept, kSliceMemory + sizeof(TensorSlice::Extent) * field->bytes.size() / 2));
    TensorSlice slice = TRY(read_slice(scanner, child));
    tensor.slices.push_back(std::move(slice));
  }
  tensor.shape = TRY(read_shape(scanner, shape));
  return tensor;
}

// The only block that may have the entry of a key.
Result<BlockHandle> block_of(const Table& table, const std::string& key) {
  const auto block = std::ranges::lower_bound(table.blocks(), key, {}, &Table::Block::last_key);
  if (block == table.blocks().end()) return failure(Code::corrupt, "the table has no such slice");
  return block->handle;
}

Result<BlockEntries> find_entry(const Table& table, const BlockHandle& block, const std::string& key) {
  const SourcePtr bytes = TRY(table.bytes(block));
  BlockEntries entries = TRY(BlockEntries::of(bytes, nullptr));
  while (TRY(entries.next()))
    if (entries.key() == key) return entries;
  return failure(Code::corrupt, "the table has no such slice");
}

// The values of a slice: `size` bytes.
Result<SourcePtr> slice_values(const Table& table, const BlockHandle& block, const std::string& key,
                               const ElementType& type, uint64_t size) {
  BlockEntries entry = TRY(find_entry(table, block, key));
  Scanner& scanner = entry.scanner();
  const Message data = TRY(scanner.message_at({{entry.value()}, 0}, saved_slices::kData));
  NumbersField field{TRY(scanner.message_at(data, saved_slices::kDataTensor)), type.field, type.wire};
  const auto layout = TRY(protobuf::read_layout(scanner, field));
  uint64_t countable = protobuf::kMaxCounted;
  const Slice bytes =
      TRY(protobuf::numbers_as_bytes(entry.block(), field, layout, size, type.width, scanner, countable));
  return std::make_shared<const Slice>(bytes);
}

class Version1Reader {
 public:
  Version1Reader(const Container& container, Table table, Model& out, Warnings& warnings)
      : container_(container),
        table_(std::make_shared<const Table>(std::move(table))),
        out_(out),
        warnings_(warnings) {}

  Result<void> add(const SavedTensor& saved) {
    TRY_VOID(container_.budget->charge(Cost::tensor));
    TRY_VOID(container_.budget->charge(Cost::kept, saved.name.size() + sizeof(uint64_t) * saved.shape.sizes.size()));
    Tensor tensor{.name = saved.name,
                  .dtype = &kUnknownDType,
                  .stored_dtype = {},
                  .scope = {},
                  .shape = saved.shape.shown(),
                  .source = {}};
    auto bytes = values(saved, tensor);
    if (!bytes && !is_about_the_bytes(bytes.error())) return tl::unexpected(bytes.error());
    if (bytes)
      tensor.source = *std::move(bytes);
    else
      warnings_.refuse(bytes.error().code, "tensor {}: {}: refused", quoted(saved.name), bytes.error().message);
    out_.tensors.push_back(tensor);
    return {};
  }

 private:
  Result<Slice> values(const SavedTensor& saved, Tensor& tensor) const {
    const ElementType* const type = find_type(saved.data_type);
    if (type == nullptr) return failure(Code::corrupt, fmt::format("type {}", type_name(saved.data_type)));
    tensor.dtype = dtype_of(type);
    tensor.stored_dtype = type->name;
    const Shape shape = TRY(saved.shape.known());
    if (type->wire == WireType::bytes) return failure(Code::unsupported, fmt::format("values of type {}", type->name));
    const DType& dtype = *dtype_of(type);
    if (!size_in_bytes(dtype, shape)) return failure(Code::corrupt, "the size of its shape overflows 64 bits");
    if (saved.slices.empty()) return failure(Code::corrupt, "it has no slices");
    std::vector<PlacedBox> placed;
    for (const TensorSlice& each : saved.slices) {
      Box box = TRY(box_of(each, shape));
      const uint64_t size = size_in_bytes(dtype, box.length).value_or(0);
      const std::string key = slice_key(saved.name, each);
      const BlockHandle block = TRY(block_of(*table_, key));
      TRY_VOID(container_.budget->charge(Cost::kept, kSliceMemory + key.size() + 2 * sizeof(uint64_t) * shape.size()));
      TRY_VOID(container_.budget->charge(Cost::input, size));  // a block of Snappy may be zeros
      TRY_VOID(container_.budget->charge(Cost::step, block.size / kSearchedPerStep));
      const auto make = [table = table_, block, key, type, size] {
        return slice_values(*table, block, key, *type, size);
      };
      Slice bytes = TRY(slice(lazy(size, Later<SourcePtr>(make)), 0, size));
      placed.push_back({std::move(box), std::move(bytes)});
    }
    return join(std::move(placed), shape, dtype.block_bytes, *container_.budget);
  }

  const Container& container_;
  std::shared_ptr<const Table> table_;
  Model& out_;
  Warnings& warnings_;
};

}  // namespace

Result<void> read_checkpoint_v1(const Container& container, Table table, BlockEntries& first, Model& out,
                                Warnings& warnings) {
  Version1Reader reader(container, std::move(table), out, warnings);
  Scanner& scanner = first.scanner();
  const Message meta = TRY(scanner.message_at({{first.value()}, 0}, saved_slices::kMeta));
  Fields fields(scanner, meta);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != saved_slices::kMetaTensor) continue;
    Charges charges(*container.budget);
    const Message child = TRY(scanner.child(meta, *field));
    const SavedTensor saved = TRY(read_meta(scanner, child, charges));
    TRY_VOID(reader.add(saved));
  }
  return {};
}

}  // namespace weightfs::tensorflow
