#include "fs/http/file_body.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <array>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

namespace weightfs::httpd {
namespace {

std::string content_range(ByteRange range, uint64_t size) {
  return fmt::format("bytes {}-{}/{}", range.from, range.to - 1, size);
}

// 32 hexadecimal digits that no file can have foreseen.
std::string new_boundary() {
  std::array<uint64_t, 2> number{};
  if (::getrandom(number.data(), sizeof number, 0) != sizeof number) throw std::bad_alloc();
  return fmt::format("weightfs-{:016x}{:016x}", number[0], number[1]);
}

// RFC 9110, section 14.6.
void add_parts(Response& response, const std::vector<ByteRange>& parts, const std::shared_ptr<OpenFile>& file,
               std::string_view type) {
  const std::string boundary = new_boundary();
  response.add("Content-Type", fmt::format("multipart/byteranges; boundary={}", boundary));
  for (const ByteRange& part : parts) {
    response.body.emplace_back(fmt::format("\r\n--{}\r\nContent-Type: {}\r\nContent-Range: {}\r\n\r\n", boundary, type,
                                           content_range(part, file->size())));
    response.body.emplace_back(FilePart{file, part});
  }
  response.body.emplace_back(fmt::format("\r\n--{}--\r\n", boundary));
}

}  // namespace

void add_file(Response& response, const Request& request, const std::shared_ptr<OpenFile>& file, Verdict verdict,
              std::string_view type) {
  const uint64_t size = file->size();
  const Ranges ranges = verdict == Verdict::ranges ? ranges_of(*request.field("range"), size) : Ranges{};
  if (!ranges.is_satisfiable) {
    response.status = 416;
    response.add("Content-Range", fmt::format("bytes */{}", size));
    return;
  }
  if (!ranges.parts.empty()) response.status = 206;
  if (ranges.parts.size() > 1) return add_parts(response, ranges.parts, file, type);
  response.add("Content-Type", std::string(type));
  const ByteRange range = ranges.parts.empty() ? ByteRange{0, size} : ranges.parts.front();
  if (!ranges.parts.empty()) response.add("Content-Range", content_range(range, size));
  response.body.emplace_back(FilePart{file, range});
}

}  // namespace weightfs::httpd
