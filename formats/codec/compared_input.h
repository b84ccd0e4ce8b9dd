// Compressed bytes whose digest a manifest states: they are compared while they are decoded, and not kept afterwards.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/blobs.h"
#include "base/digest.h"

namespace weightfs::codec {

/// What a manifest states of a layer.
struct StatedInput {
  Digest digest;                      ///< of the bytes as they are stored
  std::string_view compression = {};  ///< "gzip", "zstd" or empty
};

/// The key of a blob that is decoded from the bytes of this digest (BlobProducer::key). It is that of a verified blob
/// (Source::identity), and is known before any byte is.
std::string key_of_decoded(const Digest& input, std::string_view compression);

/// The error of a reader of decoded bytes, or mismatch if all bytes of `compressed` were downloaded and do not match: a
/// server has sent wrong ones, which the cache drops then, so that the next attempt downloads them again.
Error compared_error(const Source& compressed, const Error& error);

/// Decodes `compressed`, and hashes what the decoder reads. The end of the stream is returned only after all bytes of
/// `compressed` were compared with the digest; after an error about the bytes, too, these are compared, so that wrong
/// ones are not kept. Fails with mismatch, with corrupt if more bytes follow the compressed data than a decoder may
/// read (formats/codec/codec_meter.h), and as `decode` and reading do. `on_match` is called once before the end.
Result<StreamPtr> compare_input(SourcePtr compressed, const Digest& digest,
                                const std::function<Result<StreamPtr>(SourcePtr)>& decode,
                                std::function<void()> on_match = {});

/// As Blobs::materialize() of `producer`, which has a key_of_decoded() and no start. No blob is published that was
/// decoded from bytes that were not compared. If this call has decoded the blob, and it is cached, the compressed bytes
/// are released (Blobs::release).
Result<SourcePtr> materialize_compared(Blobs& blobs, BlobProducer producer, const SourcePtr& compressed,
                                       const Digest& digest, std::function<Result<StreamPtr>(SourcePtr)> decode);

}  // namespace weightfs::codec
