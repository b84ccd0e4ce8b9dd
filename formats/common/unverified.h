// Reads a model whose bytes are not verified yet, so that a header is not kept waiting for a whole blob.
#pragma once

#include "formats/format.h"
#include "formats/model.h"

namespace weightfs {

/// The content of a blob by its first bytes.
enum class BlobContent { gguf, safetensors, other };
Result<BlobContent> detect_blob_content(const Source& bytes);

/// Reads the model of one file from its unverified bytes; all data that the model serves come from `verified`, the same
/// bytes after verification. Formats that read more than the tensors and metadata of one file are read from `verified`
/// only.
Result<Model> read_from_unverified(const Container& unverified, const SourcePtr& verified);

}  // namespace weightfs
