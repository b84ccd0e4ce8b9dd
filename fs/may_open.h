// Proof that this process may read containers.
#pragma once

namespace weightfs {

/// Sources are opened only with it. The stage that enters the sandbox makes it (cli/pipeline/stages.h), and tests do.
class MayOpen {
  friend class Confined;
  friend struct TestProcess;
  MayOpen() = default;
};

}  // namespace weightfs
