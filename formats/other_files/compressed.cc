#include "formats/other_files/compressed.h"

#include <fmt/core.h>

#include <array>
#include <memory>
#include <span>

#include "base/values/little_endian.h"
#include "formats/archive/tar.h"
#include "formats/codec/codec.h"
#include "formats/codec/codec_meter.h"
#include "formats/other_files/texts.h"

namespace weightfs::other_files {
namespace {

using namespace std::string_view_literals;
using archive::tar::Compression;

constexpr size_t kDecoded = 512;  // bytes

struct Content {
  std::string_view magic;
  size_t at;
  std::string_view what;
};

constexpr auto kContents = std::to_array<Content>({
    {"GGUF"sv, 0, "a GGUF"},
    {"PK\3\4"sv, 0, "a zip archive"},
    {"\x89HDF\r\n"sv, 0, "an HDF5 file"},
    {"\x93NUMPY"sv, 0, "an npy file"},
    {"TFL3"sv, 4, "a TFLite model"},
    {"RTEN"sv, 0, "an RTen model"},
    {"ustar"sv, 257, "a tar"},
    {"\x80\x02"sv, 0, "a pickle"},
    {"\x80\x03"sv, 0, "a pickle"},
    {"\x80\x04"sv, 0, "a pickle"},
    {"\x80\x05"sv, 0, "a pickle"},
});

// What the decoded bytes are.
std::string_view content_of(std::string_view bytes) {
  for (const auto& [magic, at, what] : kContents)
    if (bytes.size() > at && bytes.substr(at).starts_with(magic)) return what;
  // The length of a header of JSON; a message of protobuf whose first field is the version of the IR, then a text.
  constexpr uint64_t kMaxHeader = 100'000'000;
  if (bytes.size() > 9 && bytes.substr(8).starts_with("{\"") && little_endian(bytes.substr(0, 8)) <= kMaxHeader)
    return "a safetensors file";
  if (bytes.size() > 3 && bytes[0] == '\x08' && bytes[1] > 0 && bytes[1] < 0x20 && bytes[2] == '\x12')
    return "an ONNX model";
  return "unknown content";
}

// The literals that an LZ4 frame begins with, which are stored as they are.
// https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md
std::string_view lz4_literals(std::string_view frame) {
  constexpr uint8_t kHasSize = 1 << 3, kHasDictionary = 1 << 0;
  constexpr uint32_t kStored = uint32_t{1} << 31;
  constexpr size_t kLongest = 15;
  if (frame.size() < 5) return {};
  const auto flags = static_cast<uint8_t>(frame[4]);
  const size_t block = 7 + ((flags & kHasSize) != 0 ? 8u : 0u) + ((flags & kHasDictionary) != 0 ? 4u : 0u);
  if (frame.size() < block + 5) return {};
  const bool is_stored = (little_endian(frame.substr(block, 4)) & kStored) != 0;
  if (is_stored) return frame.substr(block + 4);
  size_t at = block + 4;
  size_t length = static_cast<uint8_t>(frame[at++]) >> 4;
  for (bool goes_on = length == kLongest; goes_on && at < frame.size(); ++at) {
    length += static_cast<uint8_t>(frame[at]);
    goes_on = static_cast<uint8_t>(frame[at]) == 0xFF;
  }
  return at < frame.size() ? frame.substr(at, length) : std::string_view();
}

// The first decoded bytes: fewer, or none, if the others cannot be decoded.
Result<std::string> decoded(const Container& container, const Compression& compression) {
  const auto charge = std::make_shared<codec::DecodeCharge>(container.budget);
  const codec::DecodeCharge::Active active(charge);
  const auto stream = codec::charge_decoding(charge, container.bytes, compression.decompress, compression.output_cost);
  std::string bytes(kDecoded, '\0');
  size_t filled = 0;
  for (bool is_at_end = !stream; !is_at_end && filled < bytes.size();) {
    const auto got = (*stream)->next(std::as_writable_bytes(std::span(bytes)).subspan(filled));
    if (!got && !is_about_the_bytes(got.error())) return tl::unexpected(got.error());
    is_at_end = !got || *got == 0;
    filled += got.value_or(0);
  }
  if (!stream && !is_about_the_bytes(stream.error())) return tl::unexpected(stream.error());
  bytes.resize(filled);
  return bytes;
}

Error compressed_by(std::string_view compression, std::string_view content) {
  return other(fmt::format("{} of {}; unpack it first", compression, content), "compressed");
}

}  // namespace

Result<std::optional<Error>> compressed(const Container& container, std::string_view head) {
  if (const Compression* const row = archive::tar::compression_of(head))
    return compressed_by(row->name, content_of(TRY(decoded(container, *row))));
  if (head.starts_with("\x04\x22\x4D\x18")) return compressed_by("lz4", content_of(lz4_literals(head)));
  return std::nullopt;
}

}  // namespace weightfs::other_files
