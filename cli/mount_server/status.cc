#include "cli/mount_server/status.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "base/values/value.h"
#include "cli/exit.h"
#include "cli/mount_server/metrics.h"
#include "report/text/map_of.h"

namespace weightfs {
namespace {

constexpr std::array kPercentiles = {std::pair{"p50", 0.5}, std::pair{"p90", 0.9}, std::pair{"p99", 0.99}};

Map as_value(const StoreStatus::Blob& blob) {
  Map out = map_of({{"name", blob.name},
                    {"digest", "sha256:" + blob.digest.hex()},
                    {"size", blob.size ? Value(*blob.size) : Value()},
                    {"fetched", blob.fetched},
                    {"verified", blob.verified}});
  if (!blob.from.empty()) out.append("from", blob.from);
  if (!blob.error.empty()) out.append("error", blob.error);
  return out;
}

Map counters_of(const StoreStatus& status) {
  return map_of({{"hits", status.hits},
                 {"misses", status.misses},
                 {"bytes_fetched", status.bytes_fetched},
                 {"errors", status.errors}});
}

// The upper end of the histogram step, limited to the maximum.
std::chrono::nanoseconds percentile(const RequestStatistics::OperationStats& answered, double share) {
  return std::min(answered.took.percentile(share), answered.longest);
}

double microseconds(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1000; }

uint64_t seconds_since(const timespec& time) {
  return static_cast<uint64_t>(std::max<time_t>(now().tv_sec - time.tv_sec, 0));
}

Map passthrough_of(const fuse::Passthrough& passthrough) {
  const std::string reason = passthrough.unavailable();
  uint64_t server_opens = 0;
  for (const auto& [why, count] : passthrough.server_opens()) server_opens += count;
  Map opened = map_of({{"passthrough", passthrough.passthrough_opens()}, {"server", server_opens}});
  Map out;
  out.append("available", reason.empty());
  if (!reason.empty()) out.append("reason", to_utf8(reason));
  out.append("opened", std::move(opened));
  return out;
}

Map rings_of(const fuse::Rings& rings) {
  const std::string refusal = rings.refusal();
  Map out;
  out.append("used", refusal.empty());
  if (!refusal.empty()) out.append("reason", to_utf8(refusal));
  return out;
}

List open_files(const ServerState& state) {
  constexpr size_t kMaxListed = 1000;
  List files;
  for (const auto& [ino, tier] : state.passthrough->open_files(kMaxListed)) {
    Map file = map_of({{"path", to_utf8(state.path_of(ino))}, {"tier", tier.name()}});
    if (!tier.reason.empty()) file.append("reason", to_utf8(tier.reason));
    files.emplace_back(std::move(file));
  }
  return files;
}

Map as_value(const StoreStatus::Remote& remote) {
  Map out = map_of({{"url", to_utf8(remote.url)},
                    {"size", remote.size},
                    {"requests", remote.requests},
                    {"bytes_fetched", remote.bytes_fetched},
                    {"bytes_read", remote.bytes_read},
                    {"verified", remote.verified},
                    {"blocks", remote.blocks},
                    {"present", remote.present}});
  if (remote.verified_blocks) out.append("verified_blocks", *remote.verified_blocks);
  if (remote.comparing) out.append("comparing", *remote.comparing);
  return out;
}

Map as_value(const views::Checksums::Progress& running) {
  return map_of({{"name", to_utf8(running.name)}, {"size", running.size}, {"done", running.done}});
}

Map as_value(const http::Waiting& waiting) {
  Map out;
  out.append("waiting", waiting.requests);
  if (waiting.has_fetcher_ended) out.append("fetcher", "ended");
  if (!waiting.since) return out;
  out.append("since", utc_time({std::chrono::system_clock::to_time_t(*waiting.since), 0}));
  out.append("reason", to_utf8(waiting.reason));
  return out;
}

Map as_value(const std::map<std::string, http::KeyOrigin>& keys) {
  Map out;
  const auto as_text = [](std::chrono::sys_seconds time) {
    return utc_time({std::chrono::system_clock::to_time_t(time), 0});
  };
  for (const auto& [origin, key] : keys) {
    Map entry = map_of({{"from", to_utf8(key.from)}, {"read", as_text(key.read)}});
    if (key.expires) entry.append("expires", as_text(*key.expires));
    out.append(to_utf8(origin), std::move(entry));
  }
  return out;
}

Value time_or_null(std::time_t time) { return time == 0 ? Value() : Value(utc_time({time, 0})); }

void add_follow_status(Map& out, const FollowStatus& status) {
  Map directories = map_of({{"listings", status.listings},
                            {"listed", time_or_null(status.listed)},
                            {"watched", status.watched},
                            {"compared", status.compared}});
  out.append("directories", std::move(directories));
  Map refresh = map_of({{"count", status.refreshes},
                        {"at", time_or_null(status.refreshed)},
                        {"running", status.is_refreshing},
                        {"changed", status.changed}});
  if (!status.mounted.empty()) refresh.append("mounted", to_utf8(status.mounted));
  if (!status.available.empty()) refresh.append("available", to_utf8(status.available));
  if (status.error) {
    refresh.append("error", to_utf8(status.error->message));
    refresh.append("exit_status", static_cast<int>(exit_of(status.error->code)));
  }
  out.append("refresh", std::move(refresh));
}

std::string status_text(const ServerState& state) {
  const StoreStatus status = state.store->status();
  List sources;
  for (const std::string& source : state.sources) sources.emplace_back(to_utf8(source));
  List blobs;
  for (const StoreStatus::Blob& blob : status.blobs) blobs.emplace_back(as_value(blob));
  Map out = map_of({{"version", WEIGHTFS_VERSION}, {"pid", ::getpid()}, {"source", to_utf8(state.source)}});
  out.append("sources", std::move(sources));
  out.append(state.passthrough == nullptr ? "url" : "mountpoint", to_utf8(state.place));
  out.append("since", utc_time(state.since));
  if (std::string incomplete = state.incomplete.get(); !incomplete.empty())
    out.append("incomplete", std::move(incomplete));
  out.append("sandbox", sandbox::as_value(state.sandbox));
  out.append("served_bytes", state.statistics.bytes());
  out.append("open_files", state.statistics.open_files());
  if (state.passthrough != nullptr) {
    Map passthrough = passthrough_of(*state.passthrough);
    passthrough.append("files", open_files(state));
    out.append("passthrough", std::move(passthrough));
    out.append("io_uring", rings_of(*state.rings));
  }
  add_follow_status(out, state.follow_status());
  out.append("counters", counters_of(status));
  out.append("blobs", std::move(blobs));
  List checksums;
  for (const auto& running : state.checksums->running()) checksums.emplace_back(as_value(running));
  out.append("checksums", std::move(checksums));
  List remotes;
  for (const StoreStatus::Remote& remote : status.remotes) remotes.emplace_back(as_value(remote));
  out.append("remotes", std::move(remotes));
  Map requests;
  for (const auto& [origin, count] : status.requests) requests.append(to_utf8(origin), count);
  out.append("requests", std::move(requests));
  out.append("keys", as_value(status.keys));
  out.append("network", as_value(status.waiting));
  return to_json(std::move(out));
}

// The sources, if they are several whose names are short; empty otherwise.
List several_sources(const std::vector<std::string>& sources) {
  constexpr size_t kMaxBytes = 16 << 10;
  size_t bytes = 0;
  List several;
  for (const std::string& source : sources) {
    bytes += source.size();
    several.emplace_back(to_utf8(source));
  }
  return several.size() > 1 && bytes <= kMaxBytes ? several : List();
}

// What `weightfs mounts`, `doctor` and `refresh` read: a few fields of status.json, whose lists may be long.
std::string summary_text(const ServerState& state) {
  Map out = map_of({{"pid", ::getpid()},
                    {"source", to_utf8(state.source)},
                    {"since", utc_time(state.since)},
                    {"served_bytes", state.statistics.bytes()},
                    {"bytes_fetched", state.store->in_progress_status().bytes_fetched}});
  if (List sources = several_sources(state.sources); !sources.empty()) out.append("sources", std::move(sources));
  if (state.passthrough != nullptr) {
    out.append("passthrough", passthrough_of(*state.passthrough));
    out.append("io_uring", rings_of(*state.rings));
  }
  add_follow_status(out, state.follow_status());
  return to_json(std::move(out));
}

Map as_value(const RequestStatistics::OperationStats& answered) {
  Map latency;
  for (const auto& [name, share] : kPercentiles) latency.append(name, microseconds(percentile(answered, share)));
  latency.append("max", microseconds(answered.longest));
  Map out = map_of({{"requests", answered.took.count()}, {"errors", answered.errors}});
  out.append("latency_us", std::move(latency));
  return out;
}

std::string stats_text(const ServerState& state) {
  Map operations;
  const auto names = state.statistics.operations();
  for (size_t i = 0; i < names.size(); ++i)
    operations.append(std::string(names[i]), as_value(state.statistics.stats(i)));
  Map out = map_of({{"since", utc_time(state.since)},
                    {"uptime_seconds", seconds_since(state.since)},
                    {"served_bytes", state.statistics.bytes()},
                    {"open_files", state.statistics.open_files()}});
  out.append("operations", std::move(operations));
  out.append("cache", counters_of(state.store->in_progress_status()));
  return to_json(std::move(out));
}

// "850 ns", "12 µs", "3.4 ms", "2.0 s".
std::string human_time(std::chrono::nanoseconds time) {
  const auto count = static_cast<double>(time.count());
  std::array<char, 32> text{};
  if (count < 1e3)
    std::snprintf(text.data(), text.size(), "%.0f ns", count);
  else if (count < 1e6)
    std::snprintf(text.data(), text.size(), "%.0f µs", count / 1e3);
  else
    std::snprintf(text.data(), text.size(), count < 1e9 ? "%.1f ms" : "%.1f s", count / (count < 1e9 ? 1e6 : 1e9));
  return text.data();
}

std::string in_flight(const StoreStatus& status) {
  constexpr size_t kMaxNamed = 3;
  size_t count = 0;
  std::string out;
  for (const StoreStatus::Blob& blob : status.blobs) {
    if (blob.verified || blob.fetched == 0 || ++count > kMaxNamed) continue;
    out += fmt::format("{}{}", out.empty() ? "; fetching " : ", ", printable(blob.name));
    if (blob.size && *blob.size > 0)
      out +=
          fmt::format(", {} %", std::floor(static_cast<double>(blob.fetched) / static_cast<double>(*blob.size) * 100));
  }
  if (count > kMaxNamed) out += fmt::format(" and {} more", count - kMaxNamed);
  return out;
}

// "; the source is 9f8e7d… now, mounted is 1a2b3c…", if the last refresh could not show what its name stands for.
std::string moved_source(const ServerState& state) {
  constexpr size_t kShown = 12;  // digits of a commit
  const FollowStatus status = state.follow_status();
  if (status.available == status.mounted) return {};
  return fmt::format("; the source is {} now, mounted is {}", printable(status.available.substr(0, kShown)),
                     printable(status.mounted.substr(0, kShown)));
}

}  // namespace

TreePtr status_tree(const ServerState& state, const std::function<void(TreeBuilder&)>& add) {
  const auto dynamic_file = [&state](auto text) {
    return [&state, text]() -> Result<SourcePtr> { return in_memory(text(state)); };
  };
  TreeBuilder builder(nullptr);
  builder.add_dynamic_file("status.json", dynamic_file(status_text));
  builder.add_dynamic_file("summary.json", dynamic_file(summary_text));
  builder.add_dynamic_file("stats.json", dynamic_file(stats_text));
  builder.add_dynamic_file("metrics", dynamic_file(metrics_of));
  builder.add_dynamic_file("log", dynamic_file([](const ServerState& of) { return of.log.last_lines(); }));
  if (add) add(builder);
  return std::move(builder).freeze();
}

std::string summary_of(const ServerState& state) {
  const StoreStatus status = state.store->in_progress_status();
  const uint64_t open = state.statistics.open_files();
  std::string line =
      fmt::format("{} read, {}{} open", human_size(state.statistics.bytes()), open, open == 1 ? " file" : " files");
  if (status.bytes_fetched > 0) line += fmt::format(", {} fetched", human_size(status.bytes_fetched));
  return line + in_flight(status) + moved_source(state);
}

std::vector<std::string> statistics_of(const ServerState& state) {
  const StoreStatus status = state.store->in_progress_status();
  std::vector<std::string> lines = {fmt::format("statistics since {}: {}; cache: {} hits, {} misses, {} errors",
                                                utc_time(state.since), summary_of(state), status.hits, status.misses,
                                                status.errors)};
  const auto names = state.statistics.operations();
  for (size_t i = 0; i < names.size(); ++i) {
    const auto answered = state.statistics.stats(i);
    if (answered.took.count() == 0) continue;
    std::string line = fmt::format("{}: {} requests, {} failed", names[i], answered.took.count(), answered.errors);
    for (const auto& [name, share] : kPercentiles)
      line += fmt::format(", {} {}", name, human_time(percentile(answered, share)));
    lines.push_back(line + ", max " + human_time(answered.longest));
  }
  return lines;
}

}  // namespace weightfs
