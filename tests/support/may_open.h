// The tests read containers without a sandbox.
#pragma once

#include "sources/source.h"

namespace weightfs {

struct TestProcess {
  static MayOpen may_open() { return {}; }
};

}  // namespace weightfs
