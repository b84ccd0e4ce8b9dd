// The signature of a model by OpenSSF Model Signing: `model.sig`, a Sigstore bundle in JSON around an in-toto statement
// that lists files with their digests. It is described, not verified: anyone can add one.
#pragma once

#include "formats/model.h"

namespace weightfs {

/// If the model has the part `model.sig`, sets the common field `signature`: the media type of the bundle, the type of
/// the predicate, the number of resources, and how many of their SHA-256 digests are equal to, or differ from, those of
/// parts whose digest is known; nothing but `model.sig` is read. Differences, and a file that cannot be read, become
/// warnings. `budget` is charged.
void describe_signature(Model& model, Budget& budget);

}  // namespace weightfs
