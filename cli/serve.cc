// weightfs serve: serves models over HTTP.
#include <fmt/core.h>

#include <cstdio>

#include "cli/http/http_options.h"
#ifdef WEIGHTFS_HTTP
#include "cli/http/http_server.h"
#endif
#include "cli/verbs.h"

namespace weightfs {
namespace {

struct ServeArguments {
  std::vector<std::string> sources;
  HttpOptions options;
};

#ifdef WEIGHTFS_HTTP
Exit serve(ServeArguments& arguments) {
  Log log(arguments.options.log_level, stderr_sink());
  HttpParams params{arguments.sources, arguments.options};
  params.on_usable = [](const ServerState&, const std::vector<std::string>& urls) {
    for (const std::string& url : urls) std::printf("%s\n", url.c_str());
    std::fflush(stdout);
  };
  return serve_http(std::move(params), log);
}
#else
Exit serve(ServeArguments&) {
  return report_error({Code::unsupported, "serve: this build has no HTTP server (WEIGHTFS_HTTP)"});
}
#endif

}  // namespace

Command serve_command() {
  const auto given = std::make_shared<ServeArguments>();
  auto groups =
      source_options(given->options.open_options, given->options.store_flags, own_http_options(given->options));
  return {"serve",
          "serve models over HTTP: every file of a mount as a URL",
          {arguments("SOURCE", "model files, directories of models, Ollama stores or names, as for mount",
                     given->sources, Argument::Count::some)},
          std::move(groups),
          {},
          [given] { return serve(*given); }};
}

}  // namespace weightfs
