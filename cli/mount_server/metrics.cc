#include "cli/mount_server/metrics.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <cstdio>

#include "base/text.h"

namespace weightfs {
namespace {

// Bucket limits, as powers of two nanoseconds: 1 µs, 8 µs, 65 µs, 1 ms, 8 ms, 134 ms, 1 s, 17 s.
constexpr std::array<size_t, 8> kPowers = {10, 13, 16, 20, 23, 27, 30, 34};

std::string label(const char* name, const std::string& value) {
  std::string out = fmt::format("{}=\"", name);
  for (const char c : printable(value)) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
}

class MetricsText {
 public:
  explicit MetricsText(std::string labels) : labels_(std::move(labels)) {}

  void describe(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }

  template <class Number>
  void add(Number value, const std::string& labels = {}, const char* suffix = "") {
    text_ += fmt::format("{}{}{{{}{}{}}} {}\n", name_, suffix, labels_, labels.empty() ? "" : ",", labels, value);
  }

  /// A metric with a single series.
  template <class Number>
  void add(const char* name, const char* type, const char* help, Number value) {
    describe(name, type, help);
    add(value);
  }

  std::string text() && { return std::move(text_); }

 private:
  const std::string labels_;
  std::string text_;
  const char* name_ = "";
};

void add_durations(MetricsText& page, const std::string& operation, const RequestStatistics::OperationStats& answered) {
  for (const size_t power : kPowers)
    page.add(answered.took.below_power(power),
             fmt::format("{},{}", operation, label("le", number(std::ldexp(1e-9, static_cast<int>(power))))),
             "_bucket");
  page.add(answered.took.count(), fmt::format("{},{}", operation, label("le", "+Inf")), "_bucket");
  page.add(number(static_cast<double>(answered.total.count()) * 1e-9), operation, "_sum");
  page.add(answered.took.count(), operation, "_count");
}

void add_requests(MetricsText& page, const RequestStatistics& statistics) {
  const auto names = statistics.operations();
  std::vector<RequestStatistics::OperationStats> all;
  for (size_t i = 0; i < names.size(); ++i) all.push_back(statistics.stats(i));
  const auto operation = [&](size_t i) { return label("operation", std::string(names[i])); };
  page.describe("weightfs_request_errors_total", "counter", "Requests that failed.");
  for (size_t i = 0; i < all.size(); ++i) page.add(all[i].errors, operation(i));
  page.describe("weightfs_request_duration_seconds", "histogram", "Duration of requests.");
  for (size_t i = 0; i < all.size(); ++i) add_durations(page, operation(i), all[i]);
}

void add_opened_files(MetricsText& page, const fuse::Passthrough& passthrough) {
  page.describe("weightfs_opened_files_total", "counter",
                "Opened files, by tier: passed through by the kernel, or read by the server, by reason.");
  page.add(passthrough.passthrough_opens(), label("tier", "passthrough"));
  for (const auto& [reason, count] : passthrough.server_opens())
    page.add(count, fmt::format("{},{}", label("tier", "server"), label("reason", reason)));
}

void add_remotes(MetricsText& page, const std::vector<StoreStatus::Remote>& remotes) {
  uint64_t blocks = 0;
  uint64_t present = 0;
  uint64_t verified = 0;
  for (const StoreStatus::Remote& remote : remotes) {
    blocks += remote.blocks;
    present += remote.present;
    verified += remote.verified_blocks.value_or(0);
  }
  page.add("weightfs_remote_files", "gauge", "Files that are read by ranges.", remotes.size());
  page.add("weightfs_remote_blocks", "gauge", "Blocks of 16 KiB in files that are read by ranges.", blocks);
  page.add("weightfs_remote_present_blocks", "gauge", "Those of these blocks that are cached.", present);
  page.add("weightfs_remote_verified_blocks", "gauge", "Those of these blocks that were verified.", verified);
}

}  // namespace

std::string metrics_of(const ServerState& state) {
  MetricsText page(label(state.passthrough == nullptr ? "url" : "mountpoint", state.place));
  page.describe("weightfs_info", "gauge", "Source and version.");
  page.add(1, fmt::format("{},{}", label("source", state.source), label("version", WEIGHTFS_VERSION)));
  page.add("weightfs_start_time_seconds", "gauge", "Time of the start, in seconds since 1970.",
           static_cast<long long>(state.since.tv_sec));
  page.add("weightfs_requests_in_flight", "gauge", "Requests in progress, including this one.",
           state.statistics.requests_in_flight());
  page.add("weightfs_read_bytes_total", "counter", "Bytes returned to readers.", state.statistics.bytes());
  page.add("weightfs_open_files", "gauge", "Open files.", state.statistics.open_files());
  if (state.passthrough != nullptr) add_opened_files(page, *state.passthrough);
  const StoreStatus status = state.store->in_progress_status();
  page.add("weightfs_cache_hits_total", "counter", "Blobs that were cached or local at their first read.", status.hits);
  page.add("weightfs_cache_misses_total", "counter", "Blobs that were downloaded.", status.misses);
  page.add("weightfs_fetched_bytes_total", "counter", "Bytes downloaded.", status.bytes_fetched);
  page.add("weightfs_fetch_errors_total", "counter", "Failed downloads.", status.errors);
  page.describe("weightfs_http_requests_total", "counter", "Requests sent to servers, by origin.");
  for (const auto& [origin, count] : status.requests) page.add(count, label("origin", origin));
  add_remotes(page, status.remotes);
  add_requests(page, state.statistics);
  return std::move(page).text();
}

}  // namespace weightfs
