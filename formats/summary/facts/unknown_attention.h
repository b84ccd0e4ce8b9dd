// Whether a config.json states attention of a kind that this program does not know: the size of its cache is unknown.
#pragma once

#include "formats/summary/fields.h"

namespace weightfs::summary {

/// By the names of the fields: those of new kinds of attention have words such as `kv`, `swa` or `pattern` in them.
/// `has_states`: it is known which layers are recurrent, so that fields about these are expected.
bool states_unknown_attention(const Fields& text, bool has_states);

}  // namespace weightfs::summary
