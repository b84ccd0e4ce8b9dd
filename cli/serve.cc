// weightfs serve and open: serve models over HTTP, for programs and for a browser.
#include <fmt/core.h>

#include <cstdio>

#include "cli/console/check_spelling.h"
#include "cli/serve/http_options.h"
#ifdef WEIGHTFS_HTTP
#include "cli/serve/browser.h"
#include "cli/serve/http_server.h"
#include "cli/serve/open_code.h"
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
  if (const auto checked = check_spelling(arguments.sources); !checked) return report_error(checked.error());
  Log log(arguments.options.log_level, stderr_sink());
  HttpParams params{arguments.sources, arguments.options};
  params.on_usable = [](const ServerState&, const std::vector<std::string>& urls,
                        const std::vector<std::string>& invitations) {
    for (const std::string& line : invitations) std::fprintf(stderr, "%s\n", line.c_str());
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

struct OpenArguments {
  std::vector<std::string> sources;
  HttpOptions options;
  bool no_browser = false;
};

#ifdef WEIGHTFS_HTTP
// How a browser on another machine gets the page, which this one serves to itself only.
std::string way_to_a_browser(const std::string& url) {
  const size_t port = url.rfind(':') + 1;
  return fmt::format(
      "no browser was found here; on a machine with one, run ssh -L {0}:127.0.0.1:{0} HOST and open the URL; Ctrl-C "
      "ends weightfs",
      url.substr(port, url.find('/', port) - port));
}

Exit open(OpenArguments& arguments) {
  if (const auto checked = check_spelling(arguments.sources); !checked) return report_error(checked.error());
  const auto token = random_secret();
  if (!token) return report_error(token.error());
  Log log(arguments.options.log_level, stderr_sink());
  arguments.options.listen = {"127.0.0.1:0"};
  HttpParams params{arguments.sources, arguments.options};
  params.token = *token;
  params.takes_files = true;
  params.opens_browser = !arguments.no_browser;
  const bool needs_way = params.opens_browser && !has_browser();  // asked before the sandbox hides $PATH
  params.on_usable = [&](const ServerState&, const std::vector<std::string>& urls, const std::vector<std::string>&) {
    std::printf("%s#token=%s\n", urls.front().c_str(), token->c_str());
    std::fflush(stdout);
    if (needs_way) log_to_stderr(way_to_a_browser(urls.front()));
  };
  return serve_http(std::move(params), log);
}
#else
Exit open(OpenArguments&) {
  return report_error({Code::unsupported, "open: this build has no HTTP server (WEIGHTFS_HTTP)"});
}
#endif

}  // namespace

Command serve_command() {
  const auto given = std::make_shared<ServeArguments>();
  auto groups =
      source_options(given->options.open_options, given->options.store_flags, own_http_options(given->options));
  return {"serve",
          "serve models over HTTP: every file of a mount as a URL",
          {arguments("SOURCE",
                     "model files, directories of models, Ollama stores or names, as for mount; none is needed with "
                     "--mirror hf=URL, oci=HOST or s3=URL",
                     given->sources, Argument::Count::any)},
          std::move(groups),
          {},
          [given] { return serve(*given); }};
}

Command open_command() {
  const auto given = std::make_shared<OpenArguments>();
  return {"open",
          "show models in a browser: tensors, heat maps, differences",
          {arguments("SOURCE", "model files, directories of models, Ollama stores or names, as for mount",
                     given->sources, Argument::Count::some)},
          source_options(given->options.open_options, given->options.store_flags,
                         open_options(given->options, given->no_browser)),
          {},
          [given] { return open(*given); }};
}

}  // namespace weightfs
