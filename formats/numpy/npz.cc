// A .npz file: a zip whose members are .npy files, as numpy.savez and MLX write it.

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "formats/archive/archive_formats.h"
#include "formats/archive/zip.h"
#include "formats/codec/codec_meter.h"
#include "formats/numpy/array.h"
#include "formats/numpy/pickled.h"

namespace weightfs::numpy {
namespace {

// So many members of each kind, named .npy and not, are looked at to detect the format.
constexpr size_t kProbed = 16;

// Whether the bytes of a part begin as a .npy file does. Fails with errors that are not about the bytes.
Result<bool> is_array(const Part& part, Budget& budget) {
  if (!part.link_target.empty()) return false;
  const SourcePtr bytes = TRY(part.source.get());
  const auto head = archive::member_head(*bytes, kMagic.size(), budget);
  if (!head && !is_about_the_bytes(head.error())) return tl::unexpected(head.error());
  return head && head->starts_with(kMagic);
}

Result<bool> matches(const archive::Archive& archive) {
  size_t named = 0, others = 0;
  for (const Part& part : archive.parts) {
    if ((part.path.ends_with(kSuffix) ? named : others)++ >= kProbed) continue;
    if (TRY(is_array(part, *archive.budget))) return true;
    if (named >= kProbed && others >= kProbed) break;
  }
  return false;
}

// Adds the arrays among the members.
class NpzReader {
 public:
  NpzReader(Model& model, Warnings& warnings, const Container& container)
      : warnings_(warnings),
        container_(container),
        budget_(*container.budget),
        objects_(budget_),
        adder_(model, warnings, budget_) {}

  /// Whether the part is an array. Fails with errors that are not about the bytes, and if the budget is exhausted.
  Result<bool> add(const Part& part) {
    if (!part.link_target.empty()) return false;
    const bool is_named = part.path.ends_with(kSuffix);
    const SourcePtr member = TRY(part.source.get());
    auto head = archive::member_head(*member, kUsualHeaderSize, budget_);
    if (head && !head->starts_with(kMagic)) {
      if (is_named)
        warnings_.miss_tensors(1, Code::corrupt, "{}: no magic number of a .npy file; shown in files/ only",
                               quoted(part.path));
      return false;
    }
    if (!head && !is_named && is_about_the_bytes(head.error())) return false;
    const auto added = head ? add_array(part, member, std::move(*head)) : tl::unexpected(head.error());
    if (!added && !is_about_the_bytes(added.error())) return tl::unexpected(added.error());
    if (!added) TRY_VOID(adder_.add_refused(array_name(part.path), added.error().message));
    return true;
  }

  pickle::Contents take_objects() { return std::move(objects_); }

 private:
  Result<void> add_array(const Part& part, const SourcePtr& member, std::string head) {
    const auto more = [&](size_t most) { return archive::member_head(*member, most, budget_); };
    const Header header = TRY(read_header(std::move(head), more, budget_));
    if (header.type.has_objects) return add_pickle(array_name(part.path), member, header.data);
    const Slice whole = TRY(slice(member, 0, member->size()));
    return adder_.add(array_name(part.path), header, whole);
  }

  // An array of objects.
  Result<void> add_pickle(std::string_view name, const SourcePtr& member, uint64_t offset) {
    const auto charge = std::make_shared<codec::DecodeCharge>(container_.budget);
    const codec::DecodeCharge::Active active(charge);
    const SourcePtr bytes = TRY(archive::bytes_to_parse(member, charge));
    const pickle::File around{bytes, container_.blobs, container_.budget, container_.depth + 1};
    return add_objects(std::string(name), bytes, offset, around, objects_);
  }

  Warnings& warnings_;
  const Container& container_;
  Budget& budget_;
  pickle::Contents objects_;
  ArrayAdder adder_;
};

Result<Model> read(archive::Archive archive, const Container& container) {
  Model model;
  Warnings warnings;
  NpzReader reader(model, warnings, container);
  std::vector<bool> is_array(archive.parts.size());
  for (size_t i = 0; i < archive.parts.size(); ++i) {
    const Part& part = archive.parts[i];
    const auto added = reader.add(part);
    if (!added && !is_about_the_bytes(added.error())) return tl::unexpected(added.error());
    if (!added) {
      warnings.miss_tensors(archive.parts.size() - i, added.error().code,
                            "{}: {}; it and the members after it are not shown as tensors", quoted(part.path),
                            added.error().message);
      break;
    }
    is_array[i] = *added;
  }
  pickle::add_to(model, warnings, reader.take_objects());
  archive.warnings.append(warnings, "");
  model.format = "npz";
  archive::add_members(model, std::move(archive), container, std::move(is_array));
  return model;
}

}  // namespace
}  // namespace weightfs::numpy

namespace weightfs {

Result<bool> matches_npz(const archive::Archive& archive) { return numpy::matches(archive); }

Result<Model> read_npz(archive::Archive archive, const Container& container) {
  return numpy::read(std::move(archive), container);
}

}  // namespace weightfs
