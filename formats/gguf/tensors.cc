#include "formats/gguf/tensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "formats/gguf/types.h"
#include "formats/grouped.h"

namespace weightfs::gguf {
namespace {

// The size of a file whose tensors follow each other in the order of the list, each padded to `alignment`.
std::optional<uint64_t> laid_out(const File& file, uint64_t alignment) {
  uint64_t end = 0;
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    const auto size = size_in_bytes(*tensor_type(file.types[i]).dtype, file.tensors.shape(i));
    if (!size || file.tensors.offset(i) != end || __builtin_add_overflow(end, *size, &end)) return std::nullopt;
    const auto padded = round_up(end, alignment);
    if (!padded) return std::nullopt;
    end = *padded;
  }
  uint64_t whole = 0;
  const auto begin = round_up(file.header_end, alignment);
  if (!begin || __builtin_add_overflow(*begin, end, &whole)) return std::nullopt;
  return whole;
}

// ggml's own writer stores general.alignment but always pads to 32. Such a file is detected by fitting 32 exactly and
// not fitting its own alignment.
uint64_t alignment_in_use(File& file, uint64_t file_size) {
  if (file.alignment == kDefaultAlignment || file.tensors.empty()) return file.alignment;
  const auto declared = laid_out(file, file.alignment);
  if ((declared && *declared <= file_size) || laid_out(file, kDefaultAlignment) != file_size) return file.alignment;
  file.warnings.add(
      "general.alignment is {}, but the tensors are aligned to {} (a known bug of ggml's writer); {} is used",
      file.alignment, kDefaultAlignment, kDefaultAlignment);
  return kDefaultAlignment;
}

std::string why_no_size(const DType& dtype, ShapeView shape) {
  const uint64_t row = shape.empty() ? 1 : shape.back();
  if (row % dtype.block != 0) return fmt::format("rows of {} elements are not whole blocks of {}", row, dtype.block);
  return "size in bytes overflows 64 bits";
}

// Unknown types are counted and spelled one by one up to here: a file can have a million.
constexpr size_t kMaxUnknownTypes = 100;

// Gives the tensors of one file their bytes.
class TensorPlacer {
 public:
  TensorPlacer(File& file, const SourcePtr& bytes, Model& model) : file_(file), bytes_(bytes), model_(model) {
    file.alignment = alignment_in_use(file, bytes->size());
    // A file without tensors has no padding either. Else no overflow: a header ends at kMaxHeaderSize.
    section_ =
        file.tensors.empty() ? file.header_end : round_up(file.header_end, file.alignment).value_or(file.header_end);
  }

  uint64_t run() {
    const size_t first = model_.tensors.size();
    TensorList listed = std::exchange(file_.tensors, {});
    if (first == 0)
      model_.tensors = std::move(listed);
    else
      model_.tensors.append(listed);
    collect_offsets(first);
    for (size_t i = 0; i < file_.types.size(); ++i) place(file_.types[i], first + i);
    for (const auto& [id, strange] : strange_)
      file_.warnings.add("{}{} of type {}: {}", strange.count, strange.count == 1 ? " tensor" : " tensors", id,
                         tensor_type(id).note);
    if (others_.count > 0) file_.warnings.add("{} tensors of other unknown types", others_.count);
    check_layout(first);
    if (end_ > bytes_->size()) file_.warnings.add_short_by(end_ - bytes_->size());
    file_.types = {};
    return section_;
  }

 private:
  struct UnknownType {
    std::string_view spelling;
    uint64_t count = 0;  // of its tensors
  };

  void place(uint32_t id, size_t tensor) {
    TensorList& tensors = model_.tensors;
    const uint64_t offset = tensors.offset(tensor);
    if (const TensorType type = tensor_type(id); !type.note.empty()) {
      UnknownType& strange = strange_type(id, type);
      ++strange.count;
      TensorView spelled = tensors[tensor];
      spelled.stored_dtype = strange.spelling;
      tensors.replace(tensor, spelled);
    }
    const auto placed =
        range_of(offset, tensor).and_then([&](ByteRange range) { return tensors.set_source(tensor, bytes_, range); });
    if (!placed) {
      tensors.set_source(tensor, Slice());
      file_.warnings.refuse(Code::corrupt, "tensor {}: {}", quoted(tensors.name(tensor)), placed.error().message);
    }
    if (offset % file_.alignment != 0)
      file_.warnings.add("tensor {}: offset {} is not a multiple of {}", quoted(tensors.name(tensor)), offset,
                         file_.alignment);
  }

  Result<ByteRange> range_of(uint64_t offset, size_t tensor) {
    const DType& dtype = *model_.tensors.dtype(tensor);
    const ShapeView shape = model_.tensors.shape(tensor);
    const auto size = size_in_bytes(dtype, shape);
    uint64_t begin = 0;
    const bool overflows = __builtin_add_overflow(section_, offset, &begin);
    // Without the padding at its end, a file ends before a tensor of no bytes begins.
    if (!overflows && size == 0 && begin <= round_up(bytes_->size(), file_.alignment))
      begin = std::min(begin, bytes_->size());
    uint64_t end = 0;
    if (!overflows && size && !__builtin_add_overflow(begin, *size, &end)) end_ = std::max(end_, end);
    if (overflows || begin > bytes_->size())
      return failure(Code::corrupt, fmt::format("offset {} is outside the file", offset));
    if (&dtype == &kUnknownDType) return ByteRange{begin, begin + up_to_the_next(offset)};
    if (!size) return failure(Code::corrupt, why_no_size(dtype, shape));
    if (*size > bytes_->size() - begin)
      return failure(Code::corrupt, fmt::format("{} left, {} needed", counted_bytes(bytes_->size() - begin), *size));
    return ByteRange{begin, begin + *size};
  }

  // The offsets of all tensors from `first` on, if one of them has an unknown type and so no size of its own.
  void collect_offsets(size_t first) {
    const TensorList& tensors = model_.tensors;
    bool has_unknown = false;
    for (size_t i = first; i < tensors.size(); ++i) has_unknown |= tensors.dtype(i) == &kUnknownDType;
    if (!has_unknown) return;
    for (size_t i = first; i < tensors.size(); ++i) offsets_.push_back(tensors.offset(i));
    std::sort(offsets_.begin(), offsets_.end());
  }

  // The bytes from `offset`, which is inside the file, to the tensor that comes next in it or to the file's end.
  uint64_t up_to_the_next(uint64_t offset) const {
    const uint64_t end = bytes_->size() - section_;
    const auto next = std::upper_bound(offsets_.begin(), offsets_.end(), offset);
    return (next == offsets_.end() ? end : std::min(*next, end)) - offset;
  }

  // The tensors of a type with a note; a type without a name is shown by its number.
  UnknownType& strange_type(uint32_t id, const TensorType& type) {
    const auto known = strange_.find(id);
    if (known != strange_.end()) return known->second;
    if (type.dtype == &kUnknownDType && strange_.size() >= kMaxUnknownTypes) return others_;
    return strange_[id] =
               UnknownType{type.name.empty() ? model_.string_pool.emplace_back(fmt::format("ggml-{}", id)) : type.name};
  }

  // Requirements of ggml beyond valid ranges: the tensors from `first` on in the order of the list, without gaps.
  void check_layout(size_t first) {
    struct Placed {
      size_t tensor;
      uint64_t begin;
      uint64_t size;
    };
    const auto each_placed = [&](const auto& use) {
      const TensorList& tensors = model_.tensors;
      for (size_t i = first; i < tensors.size(); ++i)
        if (!tensors.is_refused(i)) use(Placed{i, tensors.offset(i), tensors.nbytes(i)});
    };
    // A tensor without bytes begins where the next one does.
    const auto before = [](const Placed& a, const Placed& b) {
      return std::pair(a.begin, a.size) < std::pair(b.begin, b.size);
    };
    uint64_t count = 0;
    uint64_t end = std::min(section_, bytes_->size());
    const auto name = [&](size_t tensor) { return quoted(model_.tensors.name(tensor)); };
    const auto check_next = [&](const Placed& next) {
      const auto [tensor, begin, size] = next;
      const uint64_t padded = round_up(end, file_.alignment).value_or(end);
      if (begin < end) file_.warnings.add("tensor {}: overlaps the one before by {} bytes", name(tensor), end - begin);
      if (begin > padded) file_.warnings.add("tensor {}: {} unused bytes before it", name(tensor), begin - padded);
      end = std::max(end, begin + size);
      ++count;
    };
    bool is_sorted = true;
    Placed last{};
    each_placed([&](const Placed& next) {
      is_sorted = is_sorted && !before(next, last);
      last = next;
    });
    if (is_sorted) {  // a list of a million would take much memory
      each_placed(check_next);
    } else {
      file_.warnings.add("tensors are stored in another order than they are listed in");
      std::vector<Placed> all;
      each_placed([&](const Placed& next) { all.push_back(next); });
      std::sort(all.begin(), all.end(), before);
      for (const Placed& next : all) check_next(next);
    }
    const uint64_t padded = round_up(end, file_.alignment).value_or(end);
    if (bytes_->size() > padded && count == model_.tensors.size() - first)
      file_.warnings.add("{} after the last tensor", counted_bytes(bytes_->size() - padded));
  }

  File& file_;
  const SourcePtr& bytes_;
  Model& model_;
  uint64_t section_;
  std::vector<uint64_t> offsets_;            // sorted; see collect_offsets()
  std::map<uint32_t, UnknownType> strange_;  // the types with a note
  uint64_t end_ = 0;                         // of the last tensor, in the file or behind it
  UnknownType others_{"ggml-unknown"};       // those beyond kMaxUnknownTypes
};

}  // namespace

uint64_t place_tensors(File& file, const SourcePtr& bytes, Model& model) {
  return TensorPlacer(file, bytes, model).run();
}

}  // namespace weightfs::gguf
