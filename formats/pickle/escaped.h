// Bytes that a pickle has as a text: `_codecs.encode(text, 'latin1')` of protocols 0 to 2, and quoted strings of
// Python 2.
#pragma once

#include <optional>
#include <string>

#include "base/blobs.h"
#include "formats/pickle/pickle.h"

namespace weightfs::pickle {

/// What a pickle was read from, for the texts that are not kept.
struct File {
  SourcePtr bytes;
  BlobsPtr blobs;  ///< keep bytes that are decoded
  BudgetPtr budget;
  int depth = 0;  ///< the number of containers around it
};

/// The bytes of a value of the kinds text, bytes and byte_array, or of a call that makes bytes of a text in Latin-1; a
/// text stands for the code points that it has. `size`: how many there must be. A range of the file where it has them
/// as they are; else they are decoded in memory or, if they are many, into the cache when they are read. Fails with
/// corrupt if a code point is above 255 or if there are more or fewer bytes, unless that shows only in reading; and
/// with unsupported for other values.
Result<Slice> bytes_of(const Pickle& pickle, Index value, const File& file, uint64_t size);

/// The bytes of such a value, however many they are: decodes them now if it has to, and fails as the other function
/// does.
Result<Slice> bytes_of(const Pickle& pickle, Index value, const File& file);

/// Whether the value is a call of bytearray.
bool is_bytearray(const Pickle& pickle, Index value);

/// The bytes of such a call: `bytearray(bytes)`, or `bytearray(text, 'latin-1')` of protocols 0 to 2. As bytes_of().
Result<Slice> bytearray_of(const Pickle& pickle, Index call, const File& file);

/// The bytes of a value as bytes_of() takes them, if it is kept and has at most about `most` characters; nothing for
/// others.
std::optional<std::string> kept_bytes(const Pickle& pickle, Index value, uint64_t most = UINT64_MAX);

}  // namespace weightfs::pickle
