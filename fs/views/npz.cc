// model.npz: the .npy file of each tensor in a zip without compression (APPNOTE.TXT 6.3.10), as numpy.savez writes it.
#include "fs/views/npz.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/digest.h"
#include "base/text.h"
#include "base/values/little_endian.h"
#include "fs/names.h"
#include "fs/views/npy.h"
#include "fs/views/records.h"
#include "fs/views/sequence.h"
#include "fs/views/view.h"

namespace weightfs::views {

extern const View kNpyView;

namespace {

constexpr uint32_t kMax32 = UINT32_MAX;  // a larger number is in a zip64 field

constexpr std::string_view kNpzSuffix = ".npy";

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// A member: its path, the size of its bytes, and where its local header begins.
struct Member {
  std::string path;
  uint64_t size;
  uint64_t offset;
};

// The fields that a local header and an entry of the directory have in common.
void put_common(std::string& out, const Member& member, uint32_t crc, size_t extra) {
  const bool is_large = member.size >= kMax32 || member.offset >= kMax32;
  append_little_endian(out, is_large ? 45 : 20, 2);                     // version needed: zip64, or directories
  append_little_endian(out, is_ascii(member.path) ? 0 : 1U << 11U, 2);  // the path is UTF-8
  append_little_endian(out, 0, 2);                                      // stored
  append_little_endian(out, 0x0021'0000, 4);                            // 1980-01-01 00:00
  append_little_endian(out, crc, 4);
  append_little_endian(out, std::min<uint64_t>(member.size, kMax32), 4);
  append_little_endian(out, std::min<uint64_t>(member.size, kMax32), 4);
  append_little_endian(out, member.path.size(), 2);
  append_little_endian(out, extra, 2);
}

uint64_t local_header_size(const Member& member) {
  return 30 + member.path.size() + (member.size >= kMax32 ? 20U : 0U);
}

std::string local_header(const Member& member, uint32_t crc) {
  std::string out = "PK\x03\x04";
  const bool is_large = member.size >= kMax32;
  put_common(out, member, crc, is_large ? 20 : 0);
  out += member.path;
  if (is_large) {
    append_little_endian(out, 1, 2);
    append_little_endian(out, 16, 2);
    append_little_endian(out, member.size, 8);
    append_little_endian(out, member.size, 8);
  }
  return out;
}

uint64_t directory_extra_size(const Member& member) {
  const uint64_t fields = (member.size >= kMax32 ? 16U : 0U) + (member.offset >= kMax32 ? 8U : 0U);
  return fields == 0 ? 0 : 4 + fields;
}

uint64_t directory_entry_size(const Member& member) { return 46 + member.path.size() + directory_extra_size(member); }

std::string directory_entry(const Member& member, uint32_t crc) {
  constexpr uint64_t kUnix = 3;
  constexpr uint64_t kRegularFile = 0100444;
  const uint64_t extra = directory_extra_size(member);
  std::string out = "PK\x01\x02";
  append_little_endian(out, kUnix << 8U | 45U, 2);
  put_common(out, member, crc, static_cast<size_t>(extra));
  append_little_endian(out, 0, 6);  // no comment, the first disk, no attributes of MS-DOS
  append_little_endian(out, kRegularFile << 16U, 4);
  append_little_endian(out, std::min<uint64_t>(member.offset, kMax32), 4);
  out += member.path;
  if (extra > 0) {
    append_little_endian(out, 1, 2);
    append_little_endian(out, extra - 4, 2);
    if (member.size >= kMax32) append_little_endian(out, member.size, 8);
    if (member.size >= kMax32) append_little_endian(out, member.size, 8);
    if (member.offset >= kMax32) append_little_endian(out, member.offset, 8);
  }
  return out;
}

std::string end_of_directory(uint64_t members, uint64_t size, uint64_t offset) {
  constexpr uint64_t kMax16 = UINT16_MAX;
  std::string out;
  if (members >= kMax16 || size >= kMax32 || offset >= kMax32) {
    out += "PK\x06\x06";
    append_little_endian(out, 44, 8);  // the rest of this record
    append_little_endian(out, 45, 2);
    append_little_endian(out, 45, 2);
    append_little_endian(out, 0, 8);
    append_little_endian(out, members, 8);
    append_little_endian(out, members, 8);
    append_little_endian(out, size, 8);
    append_little_endian(out, offset, 8);
    out += "PK\x06\x07";
    append_little_endian(out, 0, 4);
    append_little_endian(out, offset + size, 8);
    append_little_endian(out, 1, 4);
  }
  out += "PK\x05\x06";
  append_little_endian(out, 0, 4);
  append_little_endian(out, std::min(members, kMax16), 2);
  append_little_endian(out, std::min(members, kMax16), 2);
  append_little_endian(out, std::min<uint64_t>(size, kMax32), 4);
  append_little_endian(out, std::min<uint64_t>(offset, kMax32), 4);
  append_little_endian(out, 0, 2);
  return out;
}

Result<SourcePtr> open_array(const Model& model, const TypesInFile& types, size_t index) {
  const TensorView tensor = model.tensors[index];
  const DType* const type = types.conversion(tensor);
  if (type == nullptr) return kNpyView.open(model, index);
  return concat({in_memory(converted_npy_header(tensor, *type)), bytes_in_file(model, types, index)});
}

// The size of the .npy file; nothing if the tensor must be read to know it.
std::optional<uint64_t> array_size(const Model& model, const TypesInFile& types, size_t index) {
  const TensorView tensor = model.tensors[index];
  const DType* const type = types.conversion(tensor);
  if (type == nullptr) return kNpyView.size(model, index);
  return converted_npy_header(tensor, *type).size() + size_in_file(types, tensor);
}

std::string why_not_in_npz(const Model& model, const TypesInFile& types, size_t index, const TensorView& tensor) {
  const bool is_converted = types.conversion(tensor) != nullptr;
  if (!(is_converted ? has_float32_npy(tensor) : kNpyView.has(model, index))) return "has no .npy file";
  return array_size(model, types, index) ? "" : "the size of its .npy file is not known before it is read";
}

// The members of the zip. Only paths that are not NAME.npy are kept: those of the other tensors are made from their
// names.
class Members {
 public:
  explicit Members(FileLayoutPtr layout) : layout_(std::move(layout)) {}

  // Finds the paths: those of npy/ (semantics 3).
  Result<void> name_all() {
    // The names are split into components, and joined again for each use.
    constexpr uint64_t kInputPerByte = 10;
    uint64_t bytes = 0;
    for (const TensorView& tensor : layout_->model->tensors) bytes += tensor.scope.size() + tensor.name.size();
    TRY_VOID(layout_->budget->charge(Cost::step, layout_->model->tensors.size()));
    TRY_VOID(layout_->budget->charge(Cost::input, kInputPerByte * bytes));
    StringArena texts;
    const TensorList& tensors = layout_->model->tensors;
    for (const NamedPath& each : TRY(tensor_paths(layout_->model->budget.get(), tensors, kNpzSuffix, texts)))
      if (usual_path(tensors[each.name()]) != each.path()) unusual_.emplace_back(texts_.add(each.path()), each.name());
    std::sort(unusual_.begin(), unusual_.end(), [](const auto& a, const auto& b) { return a.name() < b.name(); });
    if (layout_->model->budget != nullptr) layout_->model->budget->release(Cost::kept, texts.size() - texts_.size());
    return {};
  }

  std::string path(size_t position) const {
    const uint32_t index = layout_->tensors[position];
    const auto is_before = [](const NamedPath& each, uint32_t name) { return each.name() < name; };
    const auto found = std::lower_bound(unusual_.begin(), unusual_.end(), index, is_before);
    return found != unusual_.end() && found->name() == index ? std::string(found->path())
                                                             : usual_path(layout_->model->tensors[index]);
  }

  // Once the layout is complete.
  Member at(size_t position) const {
    Member member{path(position), 0, layout_->begin(position)};
    const uint64_t whole = layout_->ends[position] - member.offset;
    // The header of a large member is longer.
    member.size = whole - local_header_size(member);
    if (member.size >= kMax32) member.size = whole - local_header_size(member);
    return member;
  }

 private:
  static std::string usual_path(const TensorView& tensor) { return name_in_file(tensor).append(kNpzSuffix); }

  FileLayoutPtr layout_;
  StringArena texts_;
  std::vector<NamedPath> unusual_;  // by the index of their tensor
};

// What identifies the bytes of all arrays; empty if something does not.
std::string key_of(const FileLayout& layout) {
  Sha256 all;
  for (const uint32_t index : layout.tensors) {
    const TensorView tensor = layout.model->tensors[index];
    const auto digest = layout.model->per_tensor->digests.find(index);
    const std::string bytes =
        digest != layout.model->per_tensor->digests.end() ? digest->second.hex() : tensor.source.identity();
    if (bytes.empty()) return "";
    std::string shape;
    for (const uint64_t size : tensor.shape) shape += fmt::format("{},", size);
    const DType* const type = layout.types.conversion(tensor);
    const std::string line = fmt::format("{} {} {} {} {} {}\n", bytes, tensor.dtype->name, tensor.dtype->npy_descr,
                                         tensor.stored_dtype, type == nullptr ? npy_type(tensor) : type->name, shape);
    all.update(std::as_bytes(std::span(line)));
  }
  return "crc32 of npy 2 " + all.finish().hex();
}

}  // namespace

Result<ModelFile> npz_file(const ModelPtr& model, const Selection& selection, const std::string& name,
                           const ChecksumsPtr& checksums) {
  Warnings left_out;
  // npy/ has every number.
  const TypesInFile types{selection.types, [](const TensorView&) { return true; }, selection.overflows};
  const auto why = [&](size_t index, const TensorView& tensor) { return why_not_in_npz(*model, types, index, tensor); };
  const auto layout = TRY(choose_tensors(model, selection, types, why, RepeatedNames::kept, left_out));
  if (layout->tensors.empty()) return failure(no_tensors("npz", left_out));
  const auto members = std::make_shared<Members>(layout);
  TRY_VOID(members->name_all());
  uint64_t bytes = 0;
  for (size_t i = 0; i < layout->tensors.size(); ++i) {
    Member member{members->path(i), 0, layout->size()};
    member.size = array_size(*model, types, layout->tensors[i]).value_or(0);
    layout->ends.push_back(member.offset + local_header_size(member) + member.size);
    bytes += member.size;
  }
  if (layout->size() > kMaxFileOffset) return failure(Code::unsupported, "more than 2^53 bytes");

  const FileLayoutPtr done = layout;
  const auto open_member = [done](size_t i) { return open_array(*done->model, done->types, done->tensors[i]); };
  const auto table = std::make_shared<ChecksumTable>(
      ChecksumTable::Files{name, done->tensors.size(), bytes, open_member, [done] { return key_of(*done); }},
      checksums);
  // Only a read of the header needs the checksum.
  const auto open_piece = [members, table, open_member](size_t i) -> Result<SourcePtr> {
    const Member member = members->at(i);
    const auto header = lazy(local_header_size(member), Later<SourcePtr>([member, table, i]() -> Result<SourcePtr> {
                               return in_memory(local_header(member, TRY(table->crc32_of(i))));
                             }));
    const SourcePtr array = TRY(open_member(i));
    return concat({header, array});
  };
  const auto append = [members, table](std::string& out, size_t i) -> Result<void> {
    TRY_VOID(table->compute_all());
    out += directory_entry(members->at(i), TRY(table->crc32_of(i)));
    return {};
  };
  const auto size_of = [&](size_t i) { return directory_entry_size(members->at(i)); };
  const SourcePtr directory = TRY(records(done->tensors.size(), append, size_of, done->budget));
  const SourcePtr end = in_memory(end_of_directory(done->tensors.size(), directory->size(), done->size()));
  return ModelFile{"model.npz", concat({sequence(done, open_piece), directory, end}), std::move(left_out),
                   all_keys_left_out(*model, "npz holds no metadata")};
}

Result<ModelFile> npz_file(const ModelPtr& model, const Selection& selection) {
  return npz_file(model, selection, "model.npz", nullptr);
}

}  // namespace weightfs::views
