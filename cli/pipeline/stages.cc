#include "cli/pipeline/stages.h"

#include <fmt/core.h>

#include <utility>

#include "base/text.h"
#include "cache/cache_directory.h"
#include "cache/disk_quota.h"
#include "cli/console/source_error.h"
#include "cli/fetcher/fetcher.h"
#include "cli/fetcher/helper_broker.h"
#include "cli/mount/mount_point.h"
#include "cli/sandbox/settle_network.h"
#include "cli/sandbox/temporary_files.h"
#include "formats/completeness.h"

namespace weightfs {
namespace {

// The cache size is that of its file system, or of temporary files: the sandbox hides it.
PrefetchOptions prefetch_options(const StoreFlags& flags, PrefetchMode mode,
                                 std::function<void(const std::string&)> warn) {
  if (flags.offline || mode == PrefetchMode::off) return {.mode = PrefetchMode::off};
  const std::string directory = flags.no_cache ? "/tmp" : cache_directory().value_or("/tmp");
  return {mode, flags.store.quota.value_or(default_quota(directory)), std::move(warn)};
}

void append(std::vector<std::string>& out, const std::vector<std::string>& more) {
  out.insert(out.end(), more.begin(), more.end());
}

Result<sandbox::SandboxStatus> confine(const Plan& plan, const Rights& rights) {
  if (rights.broker != nullptr) sandbox::use_broker_for_temporary_files(*rights.broker);
  if (!plan.flags.sandbox) return sandbox::without_sandbox(plan.warn);
  sandbox::SandboxAccess access = rights.access;
  sandbox::SandboxAccess of_sources = sandbox::access_for(plan.sources, plan.options.access, plan.flags);
  access.network = of_sources.network;
  access.passes_files |= !plan.flags.offline;  // to the fetcher
  append(of_sources.files.read, access.files.read);
  append(of_sources.files.write, access.files.write);
  access.files = std::move(of_sources.files);
  return sandbox::enter_sandbox(access, plan.warn);
}

}  // namespace

Plan Plan::make(std::vector<std::string> sources, OpenOptions options, StoreFlags flags,
                std::function<void(const std::string&)> warn) {
  sandbox::settle_network(sources, options, flags);
  Plan plan{std::move(sources), {}, std::move(options), std::move(flags), std::move(warn)};
  plan.options.registries.bucket_flags = plan.flags.buckets;
  for (const std::string& source : plan.sources) plan.absolute.push_back(absolute_source(source));
  return plan;
}

Result<Confined> Confined::enter(Privileged before) {
  Plan& plan = before.plan;
  const bool is_fetched = plan.flags.sandbox && !plan.flags.offline;
  Sender sender;
  if (is_fetched) {
    plan.options.log = plan.warn;
    Fetcher fetcher = TRY(start_fetcher(plan.sources, plan.options, plan.flags));
    sender.fetcher = std::move(fetcher.socket);
    sender.clouds = std::move(fetcher.clouds);
    sender.mirrors = std::move(fetcher.mirrors);
    sender.process = std::move(fetcher.process);
  } else {
    TRY_VOID(read_credentials(sources_with_credentials(plan.sources, plan.flags), plan.options));
    const CloudSettings& clouds = plan.options.registries.clouds;
    sender.clouds = plan.flags.offline ? clouds.without_keys() : clouds;
    if (!plan.flags.offline) sender.logins = TRY(logins_with_helpers(plan.sources, plan.options, plan.flags));
  }
  const BlobStorePtr store = TRY(use_store(plan.sources, plan.options, plan.flags, std::move(sender), plan.warn));
  PrefetchOptions prefetch = prefetch_options(plan.flags, plan.prefetch, plan.warn);
  sandbox::SandboxStatus status = TRY(confine(plan, before.rights));
  status.has_fetcher = is_fetched;
  Confined confined(std::move(plan), std::move(status));
  confined.store = store;
  confined.prefetch = std::move(prefetch);
  return confined;
}

Result<std::unique_ptr<Forest>> Confined::open(const std::vector<std::string>& some, const LayoutParts& layout) const {
  return std::make_unique<Forest>(TRY(open_sources(some, options, sandbox.proof, {.layout = layout})));
}

Reading::Reading(Confined& before)
    : sources(std::move(before.absolute)),
      label(source_label(sources)),
      options(std::move(before.options)),
      store(std::move(before.store)),
      prefetch(std::move(before.prefetch)),
      sandbox(std::move(before.sandbox)),
      checksums(std::make_shared<views::Checksums>(options.blobs)) {}

Result<Reading> Reading::open(Confined before, ModelFileOptions files, bool require_complete) {
  Reading reading(before);
  files.checksums = reading.checksums;
  const std::string given = before.sources.empty() ? "" : before.sources.front();
  reading.trees = std::make_unique<SourceTrees>(std::move(before.sources), reading.sources, reading.options,
                                                reading.sandbox.proof, std::move(files));
  reading.root = TRY(reading.trees->open().map_error(
      [&](const Error& error) { return reading.sources.size() == 1 ? error_of_source(given, error) : error; }));
  auto missing = what_is_missing(*reading.root, require_complete);
  if (!missing) {
    const Error& error = missing.error();
    return failure(error.code, fmt::format("{}: {}", printable(reading.label), error.message));
  }
  reading.missing = std::move(*missing);
  return reading;
}

Result<std::string> what_is_missing(const Tree& root, bool require_complete) {
  const ModelPtr model = root.model();
  if (model == nullptr && require_complete)
    return failure(Code::unsupported, "not one model, which --require-complete needs; name one as SOURCE");
  const Completeness completeness = model == nullptr ? Completeness{} : completeness_of(*model);
  if (require_complete && !completeness.is_complete())
    return failure(completeness.reason->code, to_sentence(completeness));
  return to_sentence(completeness);
}

}  // namespace weightfs
