// Computes the checksums of files and compares them: for `verify`, and for reads that compare what they have read.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/source.h"
#include "formats/checksums/checksum.h"

namespace weightfs {

/// The progress of a verification.
struct Progress {
  std::string_view path;  ///< of the current file
  uint64_t bytes;         ///< bytes read so far, of all files
  uint64_t total;         ///< bytes to read in total
};

/// Reads whole sources in order with bounded memory, and reports the progress.
class ReportingReader {
 public:
  /// `report` is called before each piece is read; it may be null.
  explicit ReportingReader(const std::function<void(const Progress&)>& report) : report_(report) {}

  void add_total(uint64_t bytes) { total_ += bytes; }
  void add_read(uint64_t bytes) { read_ += bytes; }  ///< which others have read, or had read before
  void show(std::string_view path) const;

  /// Calls `use` with each piece of the source. Fails as reading does, and with io if it ends before its size.
  Result<void> read(std::string_view path, const Source& source,
                    const std::function<void(std::span<const std::byte>)>& use);

 private:
  const std::function<void(const Progress&)>& report_;
  uint64_t total_ = 0;
  uint64_t read_ = 0;
  std::vector<std::byte> buffer_{size_t{1} << 20};
};

/// The checksums of files. Bytes that several files share are read once. In a zip at most twice its size in storage and
/// 64 MB are read, and 1,000 times that size and 1 GB decoded.
class FileHasher {
 public:
  explicit FileHasher(ReportingReader& reader) : reader_(reader) {}

  /// Computes the kinds of these from now on.
  void want(const FileChecksums& expected);

  /// Which checksums of a file differ: "MD5 is …, should be …"; empty if all match. Their kinds must be wanted. Fails
  /// as reading does, and with unsupported beyond the limits of a zip.
  Result<std::string> difference(std::string_view path, const Source& source, const FileChecksums& expected);

 private:
  // The bytes of a file as they are stored.
  struct Stored {
    std::string key;              // equal where the bytes are the same
    const Source* zip = nullptr;  // their zip, if they are in one whose members may share them
    uint64_t zip_occupies = 0;
    uint64_t size = 0;
  };

  // The bytes that were read from a zip.
  struct Used {
    uint64_t stored = 0, decoded = 0;
  };

  static Result<Stored> stored_of(const Source& source);
  Result<void> take(const Stored& stored, uint64_t decoded);
  Result<FileChecksums> sums_of(std::string_view path, const Source& source, bool is_named_by_digest);
  Result<FileChecksums> read(std::string_view path, const Source& source, bool is_named_by_digest);

  ReportingReader& reader_;
  std::bitset<std::variant_size_v<Checksum>> wanted_;
  std::map<std::string, Result<FileChecksums>> known_;  // by Stored::key
  std::map<const Source*, Used> used_;                  // by the zip
};

}  // namespace weightfs
