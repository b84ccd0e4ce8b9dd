// Verification of a container: computes every checksum that it carries and compares.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "formats/model.h"
#include "formats/verify/file_hasher.h"
#include "formats/verify/read_bytes.h"

namespace weightfs {

/// The result of verifying one model.
struct Verification {
  uint64_t checked = 0;                  ///< files with a matching checksum
  uint64_t unchecked = 0;                ///< files without a checksum
  uint64_t ranges = 0;                   ///< of files, with a matching checksum (RangeChecksums)
  uint64_t tensors = 0;                  ///< whose checksums match (CheckedTensors)
  std::vector<std::string> packed = {};  ///< the layers that match their digests
  std::vector<std::string> wrong;        ///< one line each: files and ranges with a wrong checksum, and unlisted files
  uint64_t wrong_ranges = 0;             ///< those of these lines that are about ranges
  std::vector<Error> unreadable;         ///< one each: files that cannot be read
  std::vector<std::string> edited;       ///< one line each: edited files without tensors, which may differ
  uint64_t more = 0;                     ///< lines omitted from these three, each of which has at most kMaxLines

  static constexpr size_t kMaxLines = 10'000;
};

/// Reads every part that has a checksum (SHA-256 in a carton's MANIFEST, CRC-32 in a zip, MD5 in an MLC tensor cache,
/// SHA-1 of external data of ONNX), in order, with bounded memory, the files that are named by their digests, and then
/// every range that has one (CRC-32C in checkpoints of TensorFlow); a file with such ranges is read once. Then every
/// tensor whose reads compare checksums (HDF5). `report` is called from time to time. A link is checked as its target.
/// A blob with a digest of its own is downloaded whole, and dropped if it does not match. Bytes that several parts
/// share are read once. In a zip at most twice its size in storage and 64 MB are read, and 1,000 times that size and 1
/// GB decoded; members beyond these limits are unreadable.
Verification verify(const Model& model, const std::function<void(const Progress&)>& report);

/// Bytes that were read beside those of a ReadBytes.
enum class Others {
  none,
  any  ///< computed ones, of files that are not known; not of external data of ONNX, whose tensors are ranges of files
};

/// Compares the checksums of the files and ranges that contain bytes of `read`, or may contain other bytes that were
/// read, as verify() does. Compressed members and blobs of a store, which are compared by reading them, are left out;
/// so are files above 8 MiB with checksums of FileCheck::Of::file of which less than half was read, and files that
/// nothing has opened: it is called after the reads. Fails with mismatch if one differs, and as reading does.
Result<void> compare_files_of(const Model& model, const ReadBytes& read, Others others);

/// Compares the checksums of what the tensors at these places are in, as compare_files_of() does.
Result<void> compare_files_of_tensors(const Model& model, std::span<const size_t> tensors);

}  // namespace weightfs
