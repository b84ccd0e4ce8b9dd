// Whether a container's bytes are those that it says it has: every checksum that it carries, computed anew.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "formats/model.h"

namespace weightfs {

/// What was found out about one model.
struct Verification {
  uint64_t checked = 0;            ///< files whose bytes are right
  uint64_t unchecked = 0;          ///< files that carry no checksum
  std::vector<std::string> wrong;  ///< one line each: files that have other bytes, are missing, or should not be there
  std::vector<Error> unreadable;   ///< one each: files that could not be read
  uint64_t more = 0;               ///< lines that are left out of these two, each of which has kMaxLines at most

  static constexpr size_t kMaxLines = 10'000;

  void add_wrong(std::string line);
  void add_unreadable(Error error);
};

/// How much of what carries a checksum has been read.
struct Progress {
  std::string_view path;  ///< of the file that is being read
  uint64_t bytes;         ///< read so far, of all files
  uint64_t whole;         ///< to be read in all
};

/// Reads every part that carries a checksum (SHA-256 of a carton's MANIFEST, CRC-32 of a zip, MD5 of an MLC tensor
/// cache), in order, with bounded memory. `report` is called now and then; a link is checked as the file that it leads
/// to. Bytes that several parts share are read once. Of a zip at most twice what it occupies and 64 MB are read, and
/// 1,000 times that and 1 GB decoded; members beyond that are unreadable.
Verification verify(const Model& model, const std::function<void(const Progress&)>& report);

}  // namespace weightfs
