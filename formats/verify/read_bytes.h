// Which bytes of files were read, so that only their checksums are compared.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "base/later.h"
#include "base/source.h"

namespace weightfs {

/// Bytes of files, for compare_files_of().
class ReadBytes {
 public:
  /// Adds the bytes of `source` that are known to be those of a file. False if some are not: they are computed.
  bool add(const Source& source);

  /// Whether at least half of the bytes of a file are among them.
  bool has_most_of(const Source& source) const;

  /// Whether any of them are in these bytes of `source`, as far as it has opened files.
  bool has_any_of(const Source& source, uint64_t offset, uint64_t length) const;

 private:
  struct Ranges {
    std::shared_ptr<const void> owner;  // of the leaf
    std::map<uint64_t, uint64_t> ends;  // by the beginning; they neither overlap nor touch

    void add(uint64_t begin, uint64_t end);
  };
  std::map<const Leaf*, Ranges> ranges_;
};

/// Whether bytes of a file were read whose checksums the read itself did not compare; the files with the names and
/// types of all tensors are read always. `read` is null if other bytes may have been read, too.
bool is_read(const Later<SourcePtr>& file, bool is_structure, const ReadBytes* read);

/// Whether a read waits for the digest of a file: not for that of a large one of which it needs few bytes.
bool is_most_read(const Later<SourcePtr>& file, const ReadBytes* read);

}  // namespace weightfs
