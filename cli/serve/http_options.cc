#include "cli/serve/http_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "cli/options/open_options.h"
#include "cli/options/served_options.h"
#include "report/text/suggestions.h"

namespace weightfs {
namespace {

Option assets_option(HttpOptions& options) {
  return text("assets", "DIR", "read the files of the page from DIR, to edit them (default: those of the program)",
              options.assets);
}

Option idle_option(HttpOptions& options) {
  return seconds("idle-timeout", "end after this long without a request; 0 means never (default: 0)", kZeroIsNever,
                 options.idle_timeout);
}

void append(Options& options, Options more) { std::move(more.begin(), more.end(), std::back_inserter(options)); }

}  // namespace

Options open_options(HttpOptions& options, bool& no_browser) {
  Options own = {flag("no-browser", "only print the URL", no_browser), assets_option(options), idle_option(options)};
  append(own, served_options({options.log_level, options.prefetch, options.require_complete, options.model_files,
                              options.follow}));
  return own;
}

Options own_http_options(HttpOptions& options) {
  Options own = {
      list("listen", "WHERE",
           "where to listen: PORT of this machine, ADDRESS:PORT, unix:PATH, or systemd for sockets of a .socket unit; "
           "port 0 is any free port; may be repeated (default: 127.0.0.1:8421)",
           options.listen),
      list("host", "NAME",
           "another name of this server, such as that of a proxy in front of it; may be repeated "
           "(default: none)",
           options.hosts),
      text("token-file", "FILE", "require the token in FILE: Authorization: Bearer TOKEN (default: no token)",
           options.token_file),
      flag("no-auth", "permit other machines to connect without a token", options.no_auth),
      list("allow-origin", "ORIGIN",
           "origin of web pages that may read, such as https://example.org; * for all; may be repeated (default: none)",
           options.origins),
      text("tls-cert", "FILE", "serve https with the certificate in FILE, in PEM with its chain (default: http)",
           options.tls_certificate),
      text("tls-key", "FILE", "key of the certificate, in PEM (default: none)", options.tls_key),
      text("access-log", "FILE",
           "append a line for each request to FILE, in the common log format; - is standard output (default: none)",
           options.access_log),
      assets_option(options),
      idle_option(options),
      flag("until-eof", "end when standard input ends: that of a pipe, when its last writer exits", options.until_eof),
  };
  append(own, served_options({options.log_level, options.prefetch, options.require_complete, options.model_files,
                              options.follow}));
  return own;
}

Result<void> parse_http_options(HttpOptions& options, std::string_view text) {
  Options all = all_source_options(options.open_options, options.store_flags);
  Options own = own_http_options(options);
  std::move(own.begin(), own.end(), std::back_inserter(all));
  for (const std::string& word : split_words(text)) {
    if (TRY(take_word(all, word))) continue;
    std::vector<std::string> known;
    for (const Option& option : all) known.push_back(option.word());
    return failure(Code::unsupported, fmt::format("unknown option {}{}", quoted(word),
                                                  did_you_mean(word.substr(0, word.find('=')), known)));
  }
  return {};
}

}  // namespace weightfs
