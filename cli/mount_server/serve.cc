#include "cli/mount_server/serve.h"

#include "cli/mount_server/serving.h"

namespace weightfs {

Exit serve_sources(ServeParams params, MountPoint& point, Log& log) {
  const auto served = Plan::make(std::move(params), point, log)
                          .and_then([&](Plan plan) { return Privileged::start(std::move(plan), std::move(point)); })
                          .and_then([](Privileged privileged) { return Confined::enter(std::move(privileged)); })
                          .and_then([](Confined confined) { return Reading::open(std::move(confined)); })
                          .map([](Reading reading) { return Serving(std::move(reading)).run(); });
  if (served) return *served;
  log.write(Level::error, served.error().error.message);
  return served.error().status;
}

}  // namespace weightfs
