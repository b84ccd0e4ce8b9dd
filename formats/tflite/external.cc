#include "formats/tflite/external.h"

#include <fmt/core.h>

#include "base/text.h"
#include "formats/common/limits.h"

namespace weightfs::tflite {

Result<Slice> ExternalBuffers::bytes(uint32_t id) {
  if (!is_read_) TRY_VOID(read_places());
  const auto place = places_.find(id);
  if (place == places_.end())
    return failure(Code::corrupt, fmt::format("has external buffer {}, which is missing", id));
  const auto& [group, offset, length, packing] = place->second;
  if (!packing.empty() && packing != "unpacked")
    return failure(Code::unsupported, fmt::format("has an external buffer that has the packing {}", quoted(packing)));
  const SourcePtr file = TRY(open(group));
  return slice(file, offset, length);
}

// The first of two buffers with one id is used.
Result<void> ExternalBuffers::read_places() {
  is_read_ = true;
  for (uint64_t i = 0; i < file_.external_buffers.size(); ++i) {
    const auto table = TRY(file_.external_buffers.table(i));
    TRY_VOID(container_.budget->charge(Cost::value));
    Place place;
    place.group = TRY(table.number<uint32_t>(1));
    place.offset = TRY(table.number<uint64_t>(2));
    place.length = TRY(table.number<uint64_t>(3));
    place.packing = TRY(table.text(4, kMaxNameLength));
    const auto id = TRY(table.number<uint32_t>(0));
    TRY_VOID(container_.budget->charge(Cost::kept, place.packing.size()));
    places_.emplace(id, std::move(place));
  }
  return {};
}

Result<SourcePtr> ExternalBuffers::open(uint32_t group) {
  if (const auto known = files_.find(group); known != files_.end()) return known->second;
  if (group >= file_.external_groups.size())
    return failure(Code::corrupt,
                   fmt::format("has a file with number {}, and there are {}", group, file_.external_groups.size()));
  const auto table = TRY(file_.external_groups.table(group));
  const std::string name = TRY(table.text(0, kMaxNameLength));
  TRY_VOID(container_.budget->charge(Cost::lookup));
  if (container_.folder == nullptr)
    return failure(Code::unsupported,
                   fmt::format("is in the file {}, and no files are beside the model", quoted(name)));
  auto file = open_beside(container_, name).map_error([&](const Error& error) {
    // A FIFO, or a file that the user may not read: only its tensors are refused.
    const Code code = error.code == Code::io ? Code::unsupported : error.code;
    return Error{code, fmt::format("is in the file {}: {}", quoted(name), error.message)};
  });
  if (file) opened_.emplace(name, *file);
  return files_.emplace(group, std::move(file)).first->second;
}

std::vector<Part> ExternalBuffers::parts() const {
  std::vector<Part> out;
  for (const auto& [name, file] : opened_) out.push_back({name, Later<SourcePtr>::of(file)});
  return out;
}

}  // namespace weightfs::tflite
