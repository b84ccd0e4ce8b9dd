// weightfs mounts: lists the weightfs mounts of this machine.

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "base/values/value.h"
#include "cli/console/report_error.h"
#include "cli/mount/mount_report.h"
#include "cli/mount/unmount.h"
#include "cli/process/user.h"
#include "cli/verbs.h"
#include "report/text/map_of.h"
#include "report/text/table.h"
#include "report/text/time.h"

namespace weightfs {
namespace {

// A mount without user_id= belongs to root.
std::string user_of(const Mount& mount) { return user_name(mount.user.value_or(0)); }

Cell state_cell(MountCondition state) {
  const bool bad = state == MountCondition::dead || state == MountCondition::unresponsive;
  const CellColor color = state == MountCondition::serving ? CellColor::green : bad ? CellColor::red : CellColor::none;
  return {name_of(state), name_of(state), color};
}

Cell bytes_or_dash(const std::optional<uint64_t>& count) { return count ? bytes_cell(*count) : Cell("-"); }

std::vector<Cell> as_row(const MountReport& each) {
  return {each.mount.point,
          each.source,
          each.since ? Cell(local_time(*each.since), utc_time(*each.since)) : Cell("-"),
          each.server ? std::to_string(*each.server) : "-",
          user_of(each.mount),
          bytes_or_dash(each.served_bytes),
          bytes_or_dash(each.fetched_bytes),
          state_cell(each.state)};
}

template <class T>
Value or_null(const std::optional<T>& value) {
  return value ? Value(*value) : Value();
}

Map as_value(const MountReport& each) {
  return map_of({{"mountpoint", each.mount.point},
                 {"source", each.source},
                 {"since", each.since ? Value(utc_time(*each.since)) : Value()},
                 {"pid", or_null(each.server)},
                 {"user", user_of(each.mount)},
                 {"served_bytes", or_null(each.served_bytes)},
                 {"fetched_bytes", or_null(each.fetched_bytes)},
                 {"state", name_of(each.state)}});
}

struct MountsArguments {
  std::vector<std::string> paths;
  bool json = false;
};

void print_json(const std::vector<MountReport>& all) {
  List list;
  for (const MountReport& each : all) list.push_back(as_value(each));
  std::fputs(to_json(std::move(list)).c_str(), stdout);
}

void print_table(const std::vector<MountReport>& all) {
  Table table({{"mounted on"},
               {"source"},
               {"since"},
               {"server", Align::right},
               {"user"},
               {"served", Align::right},
               {"fetched", Align::right},
               {"state"}});
  for (const MountReport& each : all) table.add(as_row(each));
  if (table.empty() && TableStyle::for_stdout().form == TableStyle::aligned)
    std::printf("no weightfs mounts\n");
  else
    table.print();
}

Exit list(const MountsArguments& arguments) {
  Exit status = Exit::ok;
  std::vector<Mount> mounts;
  if (arguments.paths.empty()) mounts = Mounts::now().of_weightfs();
  for (const std::string& path : arguments.paths) {
    const auto mount = weightfs_at(path);
    if (mount)
      mounts.push_back(*mount);
    else
      status = report_error(mount.error(), Exit::mount);
  }
  const std::vector<MountReport> all = probe_mounts(mounts);
  if (arguments.json)
    print_json(all);
  else if (arguments.paths.empty() || !all.empty())
    print_table(all);
  const bool serve =
      std::ranges::all_of(all, [](const MountReport& each) { return each.state == MountCondition::serving; });
  return arguments.paths.empty() || serve ? status : Exit::mount;
}

}  // namespace

Command mounts_command() {
  const auto given = std::make_shared<MountsArguments>();
  return {"mounts",
          "list weightfs mounts with their server, user and state",
          {arguments("MOUNTPOINT", "mount that is listed; the status is 6 if it is not serving (default: all mounts)",
                     given->paths)},
          {{"Options", {flag("json", "print a JSON array; sizes in bytes, unknown values null", given->json)}}},
          {},
          [given] { return list(*given); }};
}

}  // namespace weightfs
