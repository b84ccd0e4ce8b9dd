#include "formats/onnx/external.h"

#include <fmt/core.h>

#include "base/text.h"
#include "formats/common/relative_path.h"
#include "formats/grouped.h"
#include "formats/onnx/fields.h"

namespace weightfs::onnx {
namespace {

// Each is opened.
constexpr size_t kMaxFiles = 10'000;

// A location has at most 4095 bytes, a number 20; longer texts are cut, so that they are refused.
constexpr uint64_t kMaxEntry = 4096;

Result<uint64_t> decimal(std::string_view key, const std::string& text) {
  if (const auto number = parse_number<uint64_t>(text)) return *number;
  return failure(Code::corrupt, fmt::format("{} {} of its external data is not a number of bytes", key, quoted(text)));
}

Result<std::string> entry_text(protobuf::Scanner& scanner, protobuf::Range range) {
  range.end = std::min(range.end, range.begin + kMaxEntry);
  return scanner.text(range, kMaxEntry);
}

}  // namespace

Result<void> read_external_entry(protobuf::Scanner& scanner, const protobuf::Message& entry, ExternalPlace& place) {
  std::string key;
  std::string value;
  protobuf::Fields fields(scanner, entry);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == entry::kKey) key = TRY(entry_text(scanner, field->bytes));
    if (field->tag == entry::kValue) value = TRY(entry_text(scanner, field->bytes));
  }
  if (key == "location") place.location = std::move(value);
  if (key == "offset") place.offset = std::move(value);
  if (key == "checksum") place.checksum = sha1_of_hex(value);
  if (key == "length") place.length = std::move(value);
  return {};
}

Result<std::optional<Slice>> ExternalFiles::bytes(const ExternalPlace& place, std::optional<uint64_t> size) {
  const uint64_t offset = place.offset ? TRY(decimal("offset", *place.offset)) : 0;
  const uint64_t length = place.length ? TRY(decimal("length", *place.length)) : size.value_or(0);
  if (!size && !place.length) return failure(Code::corrupt, "external data without a length");
  if (size && length != *size)
    return failure(Code::corrupt, fmt::format("{} bytes of external data, {} needed", length, *size));
  const std::string path = TRY(relative_path(place.location));
  File* const file = TRY(file_at(path));
  if (file->bytes == nullptr) {
    ++file->lost;
    return std::nullopt;
  }
  if (place.checksum && file->sha1.value_or(*place.checksum) != *place.checksum) file->is_disputed = true;
  if (place.checksum) file->sha1 = place.checksum;
  auto found = slice(file->bytes, offset, length);
  if (found) return *std::move(found);
  return failure(Code::corrupt, fmt::format("{} bytes at offset {} are not inside the {} of {}", length, offset,
                                            file->bytes->size(), quoted(place.location)));
}

Result<ExternalFiles::File*> ExternalFiles::file_at(const std::string& location) {
  if (const auto known = files_.find(location); known != files_.end()) return &known->second;
  if (files_.size() == kMaxFiles)
    return failure(Code::unsupported, fmt::format("more than {} files of external data", kMaxFiles));
  TRY_VOID(container_.budget->charge(Cost::lookup));
  TRY_VOID(container_.budget->charge(Cost::member, 2));
  TRY_VOID(container_.budget->charge(Cost::kept, 3 * location.size()));
  auto opened = container_.folder == nullptr ? failure(Code::not_found, "the model has no directory")
                                             : open_below(container_, location);
  if (!opened && is_fatal(container_, opened.error())) return tl::unexpected(opened.error());
  order_.push_back(location);
  File& file = files_[location];
  if (opened)
    file.bytes = std::move(*opened);
  else
    file.reason = opened.error();
  return &file;
}

void ExternalFiles::finish(Model& model, Warnings& warnings) const {
  for (const std::string& path : order_) {
    const File& file = files_.at(path);
    if (file.bytes == nullptr) {
      warnings.miss_file(file.reason.code, "external data {}: {}; {}", quoted(path), file.reason.message,
                         lost_tensors(file.lost, "refused"));
      warnings.lose(file.reason, {});
    } else if (path != container_.name) {
      model.parts.push_back({path, Later<SourcePtr>::of(file.bytes)});
      if (file.is_disputed)
        warnings.add("external data {}: its tensors have different checksums of it: not compared", quoted(path));
      else if (file.sha1)
        model.checks.edit().push_back({path, Later<SourcePtr>::of(file.bytes), FileChecksums(*file.sha1)});
    }
  }
}

}  // namespace weightfs::onnx
