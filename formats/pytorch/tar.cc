// Files of torch up to 0.1.9: a tar of sys_info, pickle, storages and tensors. Reference: legacy_load in
// torch/serialization.py of torch 1.13.
#include "formats/archive/tar.h"

#include <fmt/core.h>

#include <array>
#include <map>

#include "base/text.h"
#include "formats/archive/archive_formats.h"
#include "formats/archive/zip.h"
#include "formats/common/strided.h"
#include "formats/pytorch/contents.h"

namespace weightfs::pytorch {
namespace {

constexpr std::array<std::string_view, 4> kMembers = {"sys_info", "pickle", "storages", "tensors"};

// A tensor as the member `tensors` describes it.
struct StoredTensor {
  int64_t storage = 0;
  Shape shape;
  Strides strides;
  uint64_t offset = 0;  // in elements
};

// The number that an identifier is, or that its text is, as torch writes it.
std::optional<int64_t> number_of(const Pickle& pickle, Index identifier) {
  const auto number = pickle.integer(identifier);
  return number ? number : parse_number<int64_t>(pickle.text(identifier));
}

// The tensors and storages of the file, by the numbers that are their persistent identifiers.
class TarTensors final : public pickle::Objects {
 public:
  TarTensors(const Pickle& pickle, const std::map<int64_t, StoredTensor>& tensors,
             const std::map<int64_t, LoadedStorage>& storages, Contents& out)
      : pickle_(pickle), tensors_(tensors), storages_(storages), out_(out) {}

  Result<std::optional<pickle::Meaning>> meaning(const std::string& name, Index value) override {
    if (pickle_.kind(value) != Kind::persistent) return std::nullopt;
    const Index identifier = pickle_.identifier(value);
    if (pickle_.kind(identifier) == Kind::tuple) return std::nullopt;  // a class and its source
    TRY_VOID(out_.charges.charge(Cost::tensor));
    Tensor tensor;
    tensor.name = name;
    tensor.dtype = &kUnknownDType;
    tensor.stored_dtype = "unknown";
    const auto problem = read(number_of(pickle_, identifier), tensor);
    if (!problem && !is_about_the_bytes(problem.error())) return tl::unexpected(problem.error());
    TRY_VOID(out_.charges.charge(Cost::kept, name.size() + sizeof(uint64_t) * tensor.shape.size()));
    if (!problem) out_.warnings.refuse(problem.error().code, "tensor {}: {}", quoted(name), problem.error().message);
    out_.tensors.push_back(tensor);
    return pickle::Meaning{};
  }

 private:
  Result<void> read(std::optional<int64_t> key, Tensor& tensor) const {
    const auto stored = key ? tensors_.find(*key) : tensors_.end();
    const auto storage =
        key ? storages_.find(stored == tensors_.end() ? *key : stored->second.storage) : storages_.end();
    if (stored == tensors_.end() && storage == storages_.end())
      return failure(Code::corrupt, "neither in the member tensors nor in storages");
    if (stored != tensors_.end()) tensor.shape = stored->second.shape;
    if (storage == storages_.end()) return failure(Code::corrupt, "its storage is not in the member storages");
    const TorchType& type = *storage->second.type;
    tensor.dtype = type.dtype;
    tensor.stored_dtype = type.name;
    const Slice& bytes = storage->second.bytes;
    if (stored == tensors_.end()) {
      tensor.shape = {bytes.size() / type.layout.block_bytes * type.layout.block};
      tensor.source = bytes;
      return {};
    }
    TRY_VOID(check_expansion(type, tensor.shape, bytes));
    const Slice elements =
        TRY(strided(bytes, stored->second.offset, type.layout, tensor.shape, stored->second.strides, {}));
    TRY_VOID(charge_gathering(out_.charges, elements, bytes));
    tensor.source = elements;
    return {};
  }

  const Pickle& pickle_;
  const std::map<int64_t, StoredTensor>& tensors_;
  const std::map<int64_t, LoadedStorage>& storages_;
  Contents& out_;
};

class TarFile {
 public:
  TarFile(const archive::Archive& archive, const Container& container)
      : archive_(archive), container_(container), contents_(*container.budget) {}

  Result<Model> read() && {
    const auto charge = std::make_shared<codec::DecodeCharge>(container_.budget);
    const codec::DecodeCharge::Active active(charge);
    const SourcePtr storages = TRY(bytes_of("storages", charge));
    TRY_VOID(read_storages(storages));
    const SourcePtr descriptions = TRY(bytes_of("tensors", charge));
    TRY_VOID(read_tensors(descriptions));
    const SourcePtr bytes = TRY(bytes_of("pickle", charge));
    Cursor cursor(*bytes, 0, bytes->size());
    const Pickle object = TRY(pickle::read_pickle(cursor, *container_.budget));
    TRY_VOID(add_globals(object, "", contents_));
    TarTensors tensors(object, tensors_, storages_, contents_);
    const std::array<pickle::Objects*, 1> libraries{&tensors};
    TRY_VOID(pickle::walk(object, libraries, "", contents_));
    Model model;
    model.format = "pytorch-tar";
    TRY_VOID(add_contents(model, std::move(contents_), {}));
    return model;
  }

 private:
  Result<SourcePtr> bytes_of(const std::string& name, const codec::DecodeChargePtr& charge) const {
    const Part* const part = archive_.resolve(name);
    if (part == nullptr) return failure(Code::corrupt, fmt::format("no member {}", name));
    const SourcePtr source = TRY(part->source.get());
    return archive::bytes_to_parse(source, charge);
  }

  // A number that is a pickle of its own.
  Result<uint64_t> count(Cursor& cursor) {
    const Pickle number = TRY(read_next(cursor, *container_.budget, contents_));
    const auto value = number.integer(number.root());
    if (!value || *value < 0) return failure(Code::corrupt, "a count that is not a number");
    return cursor.bounded(static_cast<uint64_t>(*value), 1);
  }

  // For each storage a pickle (key, location, class), the number of elements and the elements; then a pickle of parts
  // of storages: (key, key of the whole, offset, size).
  Result<void> read_storages(const SourcePtr& bytes) {
    Cursor cursor(*bytes, 0, bytes->size());
    const uint64_t number = TRY(count(cursor));
    for (uint64_t i = 0; i < number; ++i) {
      TRY_VOID(contents_.charges.charge(Cost::kept, sizeof(LoadedStorage) + kEntry));
      const Pickle pickle = TRY(read_next(cursor, *container_.budget, contents_));
      const std::vector<Index> items = pickle.items(pickle.root(), 3);
      const auto key = items.size() == 3 ? pickle.integer(items[0]) : std::nullopt;
      const TorchType* const type = key ? type_of_storage(pickle.global(items[2])) : nullptr;
      if (type == nullptr) return failure(Code::corrupt, "a storage without its key or its class");
      const auto elements = TRY(cursor.number<int64_t>());
      const auto size = elements < 0 ? std::nullopt : storage_size(type, static_cast<uint64_t>(elements));
      if (!size) return failure(Code::corrupt, fmt::format("a storage of {} elements", elements));
      const Slice data = TRY(slice(bytes, cursor.position(), *size));
      TRY_VOID(cursor.skip(*size));
      storages_.insert_or_assign(*key, LoadedStorage{type, data});
    }
    return read_views(cursor);
  }

  Result<void> read_views(Cursor& cursor) {
    const Pickle views = TRY(read_next(cursor, *container_.budget, contents_));
    for (const Index view : views.items(views.root())) {
      TRY_VOID(contents_.charges.charge(Cost::kept, sizeof(LoadedStorage) + kEntry));
      std::array<int64_t, 4> numbers{};
      const std::vector<Index> items = views.items(view, 5);
      bool is_valid = items.size() == numbers.size();
      for (size_t i = 0; is_valid && i < numbers.size(); ++i) {
        const auto value = views.integer(items[i]);
        is_valid = value.has_value();
        numbers[i] = value.value_or(0);
      }
      const auto whole = storages_.find(numbers[1]);
      if (!is_valid || whole == storages_.end() || numbers[2] < 0 || numbers[3] < 0)
        return failure(Code::corrupt, "a part of a storage that is not one");
      const LoadedStorage& all = whole->second;
      const auto offset = storage_size(all.type, static_cast<uint64_t>(numbers[2]));
      const auto size = storage_size(all.type, static_cast<uint64_t>(numbers[3]));
      if (!offset || !size || *offset > all.bytes.size() || *size > all.bytes.size() - *offset)
        return failure(Code::corrupt, "a part outside of its storage");
      const Slice part = TRY(slice(all.bytes.whole(), all.bytes.offset() + *offset, *size));
      storages_.insert_or_assign(numbers[0], LoadedStorage{all.type, part});
    }
    return {};
  }

  // For each tensor a pickle (key, key of the storage, class), then the dimensions in 4 bytes, 4 bytes of nothing, the
  // sizes, the strides and the offset in 8 bytes each.
  Result<void> read_tensors(const SourcePtr& bytes) {
    Cursor cursor(*bytes, 0, bytes->size());
    const uint64_t number = TRY(count(cursor));
    for (uint64_t i = 0; i < number; ++i) {
      const Pickle pickle = TRY(read_next(cursor, *container_.budget, contents_));
      const std::vector<Index> items = pickle.items(pickle.root(), 3);
      const auto key = items.size() == 3 ? pickle.integer(items[0]) : std::nullopt;
      const auto storage = key ? pickle.integer(items[1]) : std::nullopt;
      if (!storage) return failure(Code::corrupt, "a tensor without its key or that of its storage");
      const auto dimensions = TRY(cursor.number<uint32_t>());
      TRY_VOID(cursor.skip(sizeof(uint32_t)));
      if (dimensions > kMaxDimensions) return failure(Code::unsupported, fmt::format("{} dimensions", dimensions));
      TRY_VOID(cursor.bounded(2 * uint64_t{dimensions} + 1, sizeof(int64_t)));
      TRY_VOID(contents_.charges.charge(Cost::kept, kEntry + 2 * sizeof(int64_t) * dimensions));
      StoredTensor tensor;
      tensor.storage = *storage;
      for (Shape* const numbers : {&tensor.shape, &tensor.strides})
        for (uint32_t axis = 0; axis < dimensions; ++axis) numbers->push_back(TRY(cursor.number<uint64_t>()));
      tensor.offset = TRY(cursor.number<uint64_t>());
      tensors_.insert_or_assign(*key, std::move(tensor));
    }
    return {};
  }

  static constexpr uint64_t kEntry = 100;  // bytes of an entry of a map

  const archive::Archive& archive_;
  const Container& container_;
  Contents contents_;
  std::map<int64_t, LoadedStorage> storages_;
  std::map<int64_t, StoredTensor> tensors_;
};

}  // namespace
}  // namespace weightfs::pytorch

namespace weightfs {

Result<bool> matches_pytorch_tar(const archive::Archive& archive) {
  return std::ranges::all_of(pytorch::kMembers, [&](std::string_view name) { return archive.find(name) != nullptr; });
}

Result<Model> read_pytorch_tar(archive::Archive archive, const Container& container) {
  Model model = TRY(pytorch::TarFile(archive, container).read());
  archive::add_members(model, std::move(archive), container);
  model.nested = nullptr;
  return model;
}

}  // namespace weightfs
