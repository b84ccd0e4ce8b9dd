#include "formats/coreml/blobs.h"

#include <fmt/core.h>

#include "base/text.h"
#include "formats/common/cursor.h"
#include "formats/common/relative_path.h"

namespace weightfs::coreml {
namespace {

constexpr std::string_view kModelPath = "@model_path/";
constexpr size_t kMaxFiles = 1'000;

constexpr uint32_t kVersion = 2;
constexpr uint32_t kSentinel = 0xDEADBEEF;
constexpr uint64_t kHeaderSize = 64;  // of the file, and of a record

// The number of records and a version; the number is not needed.
Result<void> check_version(const Source& file) {
  Cursor header(file, 0, kHeaderSize);
  TRY_VOID(header.skip(4));
  const auto version = TRY(header.number<uint32_t>());
  if (version == kVersion) return {};
  return failure(Code::unsupported, fmt::format("version {} of its weight file, {} expected", version, kVersion));
}

}  // namespace

Result<Slice> BlobFiles::record(const std::string& file, uint64_t offset, uint32_t blob_type, uint64_t size) {
  if (!file.starts_with(kModelPath))
    return failure(Code::corrupt, fmt::format("weight file {} is not below {}", quoted(file), kModelPath));
  const std::string path = TRY(relative_path(directory_ + file.substr(kModelPath.size())));
  const SourcePtr source = TRY(open(path));
  if (offset > source->size() || source->size() - offset < kHeaderSize)
    return failure(Code::corrupt,
                   fmt::format("a record at {} of the {} bytes of {}", offset, source->size(), quoted(path)));
  TRY_VOID(container_.budget->charge(Cost::step, 2));
  const std::string header_bytes = TRY(read_text(*source, offset, kHeaderSize));
  const SourcePtr header_source = in_memory(header_bytes);
  Cursor header(*header_source, 0, kHeaderSize);
  if (const auto sentinel = TRY(header.number<uint32_t>()); sentinel != kSentinel)
    return failure(Code::corrupt, fmt::format("no record at {} of {}", offset, quoted(path)));
  const auto type = TRY(header.number<uint32_t>());
  const auto stored = TRY(header.number<uint64_t>());
  const auto begin = TRY(header.number<uint64_t>());
  if (type != blob_type)
    return failure(Code::corrupt, fmt::format("a record of type {}, {} expected", type, blob_type));
  if (stored != size) return failure(Code::corrupt, fmt::format("a record of {} bytes, {} needed", stored, size));
  return slice(source, begin, size);
}

Result<SourcePtr> BlobFiles::open(const std::string& path) {
  if (const auto known = files_.find(path); known != files_.end()) return known->second;
  if (files_.size() == kMaxFiles)
    return failure(Code::unsupported, fmt::format("more than {} weight files", kMaxFiles));
  TRY_VOID(container_.budget->charge(Cost::lookup));
  TRY_VOID(container_.budget->charge(Cost::member, 2));
  TRY_VOID(container_.budget->charge(Cost::kept, 3 * path.size()));
  Result<SourcePtr> opened = container_.folder == nullptr ? failure(Code::not_found, "the model has no directory")
                                                          : open_below(container_, path);
  // A FIFO, or a file that the user may not read: only its tensors are refused.
  if (!opened && opened.error().code == Code::io) opened.error().code = Code::unsupported;
  if (opened)
    if (const auto valid = check_version(**opened); !valid) opened = tl::unexpected(valid.error());
  order_.push_back(path);
  return files_.emplace(path, std::move(opened)).first->second;
}

void BlobFiles::finish(Model& model) const {
  for (const std::string& path : order_) {
    if (const Result<SourcePtr>& file = files_.at(path)) model.parts.push_back({path, Later<SourcePtr>::of(*file)});
  }
}

}  // namespace weightfs::coreml
