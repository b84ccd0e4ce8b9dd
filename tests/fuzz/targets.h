// The targets, and the structure-aware mutations.
#pragma once

#include "tests/fuzz/random.h"
#include "tests/fuzz/target.h"

namespace weightfs::test {

extern const Target kContainerTarget;  // target_container.cc

// target_texts.cc
extern const Target kTomlTarget;
extern const Target kJsonTarget;
extern const Target kRenderTarget;
extern const Target kNamesTarget;
extern const Target kOllamaManifestTarget;

extern const Target kTokenizerTarget;  // target_tokenizer.cc
extern const Target kMappingTarget;    // target_mapping.cc

// target_archives.cc
extern const Target kZipTarget;
extern const Target kTarTarget;
extern const Target kCodecTarget;

/// The readers of models, each by itself (target_models.cc).
std::span<const Target> model_targets();

// target_tensorflow.cc
extern const Target kTfCheckpointTarget;
extern const Target kTfGraphTarget;
extern const Target kSavedModelTarget;

// target_servers.cc
extern const Target kS3ListingTarget;
extern const Target kHubListingTarget;
extern const Target kBlockListTarget;

// target_http.cc; not in a build without WEIGHTFS_HTTP
extern const Target kHttpRequestTarget;
extern const Target kHttpConditionsTarget;
extern const Target kS3RequestTarget;

/// Text: slices repeated, values nested, lines duplicated, words of TOML and JSON inserted.
void mutate_text(std::string& input, size_t max_size, Random& random);

/// Eight bytes with the length of a JSON or bincode header: the header is mutated, and the length corrected.
void mutate_headed(std::string& input, size_t max_size, Random& random);

/// Lengths, counts and offsets: numbers of 1 to 8 bytes become 0, the largest, the input's size, another number of the
/// input; strings behind their length grow; records are repeated.
void mutate_numbers(std::string& input, size_t max_size, Random& random);

/// Fields of nested messages: removed, repeated, moved, nested in themselves, changed; the lengths around them stay
/// right.
void mutate_protobuf(std::string& input, size_t max_size, Random& random);

/// Offsets of a FlatBuffer: duplicated, moved, made to share a table or a vtable with another.
void mutate_flatbuffer(std::string& input, size_t max_size, Random& random);

/// A zip: records of the directory duplicated, made to share a local header, given other sizes and methods.
void mutate_zip(std::string& input, size_t max_size, Random& random);

/// Corrects the end record of a zip, the offsets of its directory and the checksums of stored members.
void repair_zip(std::string& input);

/// A tar: blocks repeated, types and sizes changed.
void mutate_tar(std::string& input, size_t max_size, Random& random);

/// Corrects the checksums of a tar's headers.
void repair_tar(std::string& input);

/// The one of these that fits the magic number of the input.
void mutate_any(std::string& input, size_t max_size, Random& random);
void repair_any(std::string& input);

}  // namespace weightfs::test
