// Reads the output of a codec as text for tests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/codec/codec.h"

namespace weightfs::test {

using Codec = Result<StreamPtr> (*)(SourcePtr);

// The output of a stream, read `step` bytes at a time; a failure, with the number of bytes before it.
struct Read {
  std::string bytes;
  std::optional<Error> error = std::nullopt;

  std::string message() const { return error ? error->message : "no error"; }
};

inline Read read_from(Stream& stream, size_t step) {
  Read read;
  std::vector<std::byte> buffer(step);
  for (;;) {
    const auto got = stream.next(buffer);
    if (!got) read.error = got.error();
    if (!got || *got == 0) return read;
    read.bytes.append(reinterpret_cast<const char*>(buffer.data()), *got);
  }
}

inline Read decode_all(Codec codec, std::string compressed, size_t step = 4096) {
  const auto stream = codec(in_memory(std::move(compressed)));
  return stream ? read_from(**stream, step) : Read{"", stream.error()};
}

/// `bytes` with one flipped bit.
inline std::string flipped(std::string bytes, size_t bit) {
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
  return bytes;
}

}  // namespace weightfs::test
