// The two compressions that zips of models have, as streams.
#pragma once

#include "base/blobs.h"

namespace weightfs {

/// Undoes raw Deflate (RFC 1951). Ends where the Deflate data end; bytes after that are not read. Fails with corrupt.
Result<StreamPtr> inflated(SourcePtr compressed);

/// Undoes Zstandard (RFC 8878): any number of frames, skippable ones too, with a window of up to 128 MiB (window log
/// 27), checksums verified. Ends where `compressed` ends. Fails with corrupt. A window beyond 8 MiB is held in an
/// unlinked temporary file, not in memory.
Result<StreamPtr> decompressed_zstd(SourcePtr compressed);

}  // namespace weightfs
