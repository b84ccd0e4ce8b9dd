#include "cache/blocks/block_set.h"

namespace weightfs::store {

Result<std::optional<Blocks>> first_absent_run(Blocks within, const Presence& presence) {
  std::optional<Blocks> run;
  for (uint64_t block = within.first; block < within.last;) {
    for (const bool present : TRY(presence({block, within.last}))) {
      if (present && run) return run;
      if (!present && !run) run = Blocks{block, block};
      if (!present) run->last = block + 1;
      ++block;
    }
  }
  return run;
}

}  // namespace weightfs::store
