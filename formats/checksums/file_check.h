// What a model can be compared with: checksums that the container, its name, or a file beside it states. `verify`,
// reads that compare what they have read, and `fetch` go through the same list.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/later.h"
#include "base/source.h"
#include "formats/checksums/checksum.h"
#include "formats/checksums/range_checksums.h"

namespace weightfs {

/// Tensors (by their index) whose reads compare checksums that the file has of parts of them: of chunks (HDF5).
struct CheckedTensors {
  std::vector<size_t> tensors;
};

/// The container has the file but does not list it.
struct Unlisted {};

/// What the bytes of a file must be. The next kind of comparison is another alternative.
using Expected = std::variant<FileChecksums, RangeChecksums, CheckedTensors, Unlisted>;

/// A statement about some bytes of a model.
struct FileCheck {
  enum class Of : uint8_t {
    file,    ///< a part, or the container's own file; the statement is in its name or in another file
    member,  ///< of an archive in a part, as far as tensors are read from it; the subject begins with that of the part
    layer    ///< parts are unpacked from it; the subject is a file of the container's store, not of files/
  };

  std::string subject;  ///< a path, as those of the parts
  Later<SourcePtr> bytes;
  Expected expected;
  Of of = Of::file;
  bool is_modified = false;    ///< the file was modified after its checksum was noted
  std::string stated_in = {};  ///< "its name", or the path of a file; empty: in the model

  /// Whether it is a checksum of a file that is stated outside of it.
  bool is_stated_outside() const { return of == Of::file && std::holds_alternative<FileChecksums>(expected); }
};

/// Whether there is a statement of this kind in the list.
template <class Kind>
bool has_check(const std::vector<FileCheck>& checks) {
  return std::ranges::any_of(checks,
                             [](const FileCheck& check) { return std::holds_alternative<Kind>(check.expected); });
}

}  // namespace weightfs
