#include "formats/common/unverified.h"

#include <algorithm>

#include "formats/flat_formats.h"
#include "formats/gguf_keys.h"

namespace weightfs {

Result<BlobContent> detect_blob_content(const Source& bytes) {
  const std::string head = TRY(read_text(bytes, 0, std::min<uint64_t>(bytes.size(), kHeadSize)));
  const Probe probe{"", head, head, bytes.size()};
  if (matches_gguf(probe) == Match::yes) return BlobContent::gguf;
  return matches_safetensors(probe) == Match::yes ? BlobContent::safetensors : BlobContent::other;
}

namespace {

// A copy of the keys, with their ranges in another source.
Result<std::shared_ptr<const GgufKeys>> moved(const GgufKeys& keys, const SourcePtr& source) {
  auto copy = std::make_shared<GgufKeys>(keys);
  for (GgufKeys::Entries& entries : copy->entries)
    entries.bytes = TRY(slice(source, entries.bytes.offset(), entries.bytes.size()));
  return copy;
}

}  // namespace

Result<Model> read_from_unverified(const Container& unverified, const SourcePtr& verified) {
  const BlobContent content = TRY(detect_blob_content(*unverified.bytes));
  Container container = unverified;
  if (content == BlobContent::other) {
    container.bytes = verified;
    return read_model(container);
  }
  container.folder = nullptr;  // a file, not one of several
  Model model = TRY(content == BlobContent::gguf ? read_gguf(container) : read_as("safetensors", container));
  TRY_VOID(model.tensors.move_to(verified));
  if (model.gguf_keys != nullptr) model.gguf_keys = TRY(moved(*model.gguf_keys, verified));
  for (Part& part : model.parts) part.source = Later<SourcePtr>::of(verified);
  return model;
}

}  // namespace weightfs
