// The compressions that zips and tars of models have, as streams. Memory is bounded whatever the data say.
#pragma once

#include "base/blobs.h"

namespace weightfs {

/// Undoes raw Deflate (RFC 1951). Ends where the Deflate data end; bytes after that are not read. Fails with corrupt.
Result<StreamPtr> inflated(SourcePtr compressed);

/// Undoes gzip (RFC 1952): one member or more, the CRC-32 and the size of each verified, and its header's checksum
/// where there is one. Whatever follows the last member and is no other is ignored, as gzip(1) does. Fails with
/// corrupt, and with unsupported for what RFC 1952 leaves open (another method, reserved flags) and for a header beyond
/// 128 KiB.
Result<StreamPtr> gunzipped(SourcePtr compressed);

/// Undoes xz (The .xz File Format 1.1.0): one stream or more, checks verified. Ends where `compressed` ends. Fails with
/// corrupt, and with unsupported for a check or a filter that liblzma does not know and for a dictionary that takes
/// more than 80 MiB of memory (`xz -9` takes 65).
Result<StreamPtr> decompressed_xz(SourcePtr compressed);

/// Undoes Zstandard (RFC 8878): any number of frames, skippable ones too, checksums verified. Ends where `compressed`
/// ends. A window beyond 8 MiB is held in an unlinked temporary file, not in memory. Fails with corrupt, with
/// unsupported for a window beyond 128 MiB (window log 27) or a dictionary, with io when there is no room for the
/// temporary file.
Result<StreamPtr> decompressed_zstd(SourcePtr compressed);

// All of them fail with unavailable when memory runs out, as reading `compressed` does, and with corrupt when they read
// more than 1 MiB and four bytes for each that came out (formats/codec/codec_meter.h).

}  // namespace weightfs
