// Decoders for the compressions of zips and tars. Memory is bounded for any input.
#pragma once

#include "base/blobs.h"

namespace weightfs::codec {

/// Decodes raw Deflate (RFC 1951). Ends at the end of the Deflate data; following bytes are not read. Fails with
/// corrupt.
Result<StreamPtr> inflate_stream(SourcePtr compressed);

/// Decodes zlib (RFC 1950): Deflate with a header and an Adler-32, which is verified. Following bytes are not read.
/// Fails with corrupt.
Result<StreamPtr> zlib_stream(SourcePtr compressed);

/// Decodes gzip (RFC 1952): one or more members, with the CRC-32 and size of each verified, and its header's checksum
/// if present. Data after the last member are ignored, as gzip(1) does. Fails with corrupt, and with unsupported for
/// features outside RFC 1952 (another method, reserved flags) and for a header over 128 KiB.
Result<StreamPtr> gunzip_stream(SourcePtr compressed);

/// Decodes xz (The .xz File Format 1.1.0): one or more streams, checks verified. Ends where `compressed` ends. Fails
/// with corrupt, and with unsupported for a check or a filter that liblzma does not support and for a dictionary that
/// needs more than 80 MiB of memory (`xz -9` needs 65).
Result<StreamPtr> xz_stream(SourcePtr compressed);

/// Decodes the older format of LZMA, "lzma-alone": one stream, without a check. Fails as xz_stream() does.
Result<StreamPtr> lzma_alone_stream(SourcePtr compressed);

/// Decodes Zstandard (RFC 8878): any number of frames, skippable ones included, checksums verified. Ends where
/// `compressed` ends. A window over 8 MiB is kept in an unlinked temporary file, not in memory. Fails with corrupt,
/// with unsupported for a window over 128 MiB (window log 27) or a dictionary, and with io if the temporary file cannot
/// be created.
Result<StreamPtr> zstd_stream(SourcePtr compressed);

// All decoders fail with Code::resource if memory is exhausted, as reading `compressed` does, and with corrupt if they
// read more than 1 MiB and four bytes per decoded byte (formats/codec/codec_meter.h).

}  // namespace weightfs::codec
