#include "cli/serve/http_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "cache/address_policy.h"
#include "cache/url.h"
#include "cli/options/open_options.h"
#include "cli/options/served_options.h"
#include "protocols/huggingface.h"
#include "protocols/registry_server.h"
#include "protocols/s3_server.h"
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

Result<void> take_served_mirror(ServedMirror& mirror, const std::string& value) {
  if (mirror.is_on()) return failure(Code::unsupported, "one Hub, registry or object store can be mirrored");
  if (value.starts_with("oci=")) {
    mirror.kind = ServedMirror::Kind::registry;
    mirror.endpoint = TRY(registry::parse_server(std::string_view(value).substr(4)));
    return {};
  }
  std::string endpoint = value.substr(3);
  if (value.starts_with("s3=")) {
    mirror.kind = ServedMirror::Kind::objects;
    mirror.endpoint = TRY(s3::parse_endpoint(endpoint));
    return {};
  }
  while (endpoint.ends_with('/')) endpoint.pop_back();
  // The fetcher compares URLs with it, so it needs a scheme.
  if (endpoint.find("://") == endpoint.npos) return failure(Code::unsupported, "hf=: the URL of a Hub expected");
  mirror.endpoint = std::move(endpoint);
  return {};
}

// `hf=URL`, `oci=HOST` and `s3=URL` besides the servers of blobs.
Option serve_mirror_option(StoreFlags& flags) {
  Option option = mirror_option(flags);
  option.value = "[HOST=]URL|hf=URL|oci=HOST|s3=URL";
  option.choices = {"hf=", "oci=", "s3="};
  option.help +=
      "; hf=URL, oci=HOST, s3=URL: serve the models of the Hub at URL, the repositories of the registry HOST, or the "
      "objects of the store at URL, that --allow permits, each looked up at its first request";
  option.take = [&flags, take_other = option.take](const std::string& value) -> Result<void> {
    const bool is_served = value.starts_with("hf=") || value.starts_with("oci=") || value.starts_with("s3=");
    return is_served ? take_served_mirror(flags.served_mirror, value) : take_other(value);
  };
  return option;
}

Options served_mirror_options(StoreFlags& flags) {
  return {
      serve_mirror_option(flags),
      list("allow", "PATTERN",
           "what such a --mirror serves: models ORG/NAME, names of repositories, or objects BUCKET/KEY, where * and ? "
           "stand for any characters; may be repeated (default: none)",
           flags.served_mirror.allow),
      seconds("mirror-ttl",
              "how long such a --mirror takes the commit of a branch, the manifest of a tag, or an object, as current "
              "(default: 60)",
              kUpToADay, flags.served_mirror.ttl)};
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
      text("s3-keys", "FILE",
           "accept S3 requests signed with an access key of FILE, lines ACCESS_KEY SECRET, in place of the token "
           "(default: no key)",
           options.s3_keys),
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
  append(own, served_mirror_options(options.store_flags));
  append(own, served_options({options.log_level, options.prefetch, options.require_complete, options.model_files,
                              options.follow}));
  return own;
}

Result<void> parse_http_options(HttpOptions& options, std::string_view text) {
  Options all;
  for (OptionGroup& group : source_options(options.open_options, options.store_flags, own_http_options(options)))
    append(all, std::move(group.options));
  for (const std::string& word : split_words(text)) {
    if (TRY(take_word(all, word))) continue;
    std::vector<std::string> known;
    for (const Option& option : all) known.push_back(option.word());
    return failure(Code::unsupported, fmt::format("unknown option {}{}", quoted(word),
                                                  did_you_mean(word.substr(0, word.find('=')), known)));
  }
  return {};
}

Result<void> check_served(const std::vector<std::string>& sources, const HttpOptions& options) {
  const ServedMirror& mirror = options.store_flags.served_mirror;
  if (!mirror.is_on() && !mirror.allow.empty())
    return failure(Code::unsupported,
                   "--allow is for a mirror; use --mirror hf=URL, --mirror oci=HOST or --mirror s3=URL");
  if (!mirror.is_on() && sources.empty())
    return failure(Code::unsupported, "missing SOURCE, or --mirror hf=URL, oci=HOST or s3=URL");
  if (!mirror.is_on()) return {};
  const bool is_insecure = options.store_flags.requests.insecure;
  if (!mirror.is_of_hub() && !is_insecure && !is_confidential(http::origin_of(mirror.endpoint)))
    return failure(Code::unsupported, fmt::format("{}: http:// needs --insecure", mirror.endpoint));
  if (mirror.is_of_hub()) {
    huggingface::Name name;
    name.server = mirror.endpoint;
    TRY_VOID(huggingface::hub_of(name, nullptr, nullptr, is_insecure));  // refuses a password, which is not shown then
  }
  if (mirror.allow.empty())
    return failure(Code::unsupported,
                   fmt::format("--mirror {}: what may be requested? use --allow '{}/*', or --allow '*' for all",
                               printable(mirror.text()), mirror.is_of_objects() ? "BUCKET" : "ORG"));
  return {};
}

}  // namespace weightfs
