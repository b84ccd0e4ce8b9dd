// The kernel's descriptor of a mount, given by the process that mounts to the one that starts the service, over a
// socket in /run. At an automount point only a child of the service manager can mount while somebody waits there
// (mount(8)'s helper; all others wait, too), and only a process of the service can give systemd something to keep.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/os/descriptor.h"
#include "base/result.h"
#include "cli/process/child_process.h"

namespace weightfs {

/// Where the processes of the services meet, and note what they have to remember: $RUNTIME_DIRECTORY, else of root
/// /run/weightfs, of a user $XDG_RUNTIME_DIR/weightfs.
std::string runtime_directory();

/// The giving side, for the service of that name.
class Offer {
 public:
  /// Fails with io, also while another process has one for that name.
  static Result<Offer> make(const std::string& name);
  ~Offer();
  Offer(Offer&&) = default;
  Offer& operator=(Offer&&) = delete;

  /// Waits for somebody to ask, and gives what `make` makes then. Fails as `make` does, and with io when nobody has
  /// come by the end of `start`, which starts the service, and when whoever came does not take it.
  Result<void> give(const std::function<Result<Descriptor>()>& make, const Running& start);

 private:
  Offer(Descriptor lock, std::string path);

  Descriptor lock_;
  Descriptor socket_;
  std::string path_;
};

enum class Offered { now, soon };

/// The taking side: nothing when there is no offer, now or after a while. Fails with io when nothing is
/// given.
Result<std::optional<Descriptor>> take_offered(const std::string& name, Offered when);

}  // namespace weightfs
