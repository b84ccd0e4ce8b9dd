#include "cli/serve/http_service.h"

#include <fmt/core.h>

#include <cstdio>

#include "base/text.h"
#include "base/values/value.h"
#include "cli/console/report_error.h"
#include "cli/mount_server/status.h"
#include "cli/serve/http_server.h"
#include "cli/systemd/config.h"
#include "cli/systemd/notify.h"
#include "cli/systemd/readable.h"

namespace weightfs {
namespace {

struct HttpService {
  service::Config config;
  HttpOptions options;
};

Result<HttpService> read_service(const std::string& path) {
  HttpService service;
  service.config = TRY(service::read_config(path, service::ConfigKind::http));
  const auto parsed = parse_http_options(service.options, service.config.options);
  if (!parsed)
    return failure(parsed.error().code,
                   fmt::format("{}:{}: OPTIONS: {}", path, service.config.options_line, parsed.error().message));
  if (service.config.sources.empty() && !service.options.store_flags.served_mirror.is_on())
    return failure(Code::unsupported, fmt::format("{}: SOURCE= is missing", path));
  if (service.options.listen.empty()) service.options.listen.emplace_back("systemd");
  return service;
}

std::string status_of(const ServerState& state) {
  return fmt::format("{} at {}: {}", printable(state.source), state.place, summary_of(state));
}

}  // namespace

Exit serve_http_service(const std::string& path) {
  Log log(Level::info, stderr_sink());
  auto service = read_service(path);
  const auto failed = [&](const Error& error) {
    log.write(Level::error, error.message);
    return Exit::usage;  // not retried
  };
  if (!service) return failed(service.error());
  log.set_level(service->options.log_level);
  for (const std::string& source : service->config.sources)
    if (const auto readable = service::check_readable(source); !readable) return failed(readable.error());
  HttpParams params{service->config.sources, std::move(service->options)};
  params.on_usable = [](const ServerState& state, const std::vector<std::string>&, const std::vector<std::string>&) {
    service::notify(fmt::format("READY=1\nSTATUS={}", status_of(state)));
  };
  params.on_tick = [last = std::string()](const ServerState& state) mutable {
    if (service::watchdog_limit()) service::notify("WATCHDOG=1");
    std::string status = status_of(state);
    if (status != last) service::notify(fmt::format("STATUS={}", status));
    last = std::move(status);
  };
  params.on_end = [] { service::notify("STOPPING=1\nSTATUS=Shutting down."); };
  return serve_http(std::move(params), log);
}

Exit show_http_service(const std::string& path) {
  const auto service = read_service(path);
  if (!service) return report_error(service.error(), Exit::usage);
  Map out;
  out.append("service", fmt::format("weightfs-serve@{}.service", service->config.name));
  List sources;
  for (const std::string& source : service->config.sources) sources.emplace_back(source);
  out.append("sources", std::move(sources));
  out.append("options", service->config.options);
  std::fputs(to_json(std::move(out)).c_str(), stdout);
  return Exit::ok;
}

}  // namespace weightfs
