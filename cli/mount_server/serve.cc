#include "cli/mount_server/serve.h"

#include "cli/mount_server/serving.h"

namespace weightfs {
namespace {

MountStage<Exit> serve(Mounting mounting, MountPoint& point) {
  Plan plan = mounting.plan();
  auto rights = mounting.start_brokers(std::move(point), plan);
  if (!rights) return tl::unexpected(rights.error());
  auto reading = Confined::enter({std::move(plan), std::move(*rights)}).and_then([&](Confined confined) {
    const MountOptions& options = mounting.params.options;
    return Reading::open(std::move(confined), options.model_files, options.require_complete);
  });
  mounting.opening->end();
  if (!reading) return tl::unexpected<MountFailure>({reading.error(), exit_of(reading.error().code)});
  mounting.report(*reading);
  return FuseServing(std::move(mounting), std::move(*reading)).run();
}

}  // namespace

Exit serve_sources(ServeParams params, MountPoint& point, Log& log) {
  const auto served = Mounting::check(std::move(params), point, log).and_then([&](Mounting mounting) {
    return serve(std::move(mounting), point);
  });
  if (served) return *served;
  log.write(Level::error, served.error().error.message);
  return served.error().status;
}

}  // namespace weightfs
