// Bytes of two sources, read side by side.
#pragma once

#include "base/digest.h"
#include "base/result.h"
#include "base/source.h"
#include "numbers/deviation.h"

namespace weightfs::compare {

using numbers::CountBytes;
using numbers::Side;
using numbers::SideError;

/// Whether two sources have the same bytes in a range that both have; stops at the first difference. `count_bytes`
/// counts those of one of them.
tl::expected<bool, SideError> are_equal(
    const Source& a, const Source& b, ByteRange range, const CountBytes& count_bytes = [](uint64_t) {});

/// The digest of all bytes. Fails as reading them fails.
Result<Digest> digest_of(const Source& source, const CountBytes& count_bytes);

}  // namespace weightfs::compare
