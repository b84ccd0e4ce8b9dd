#include "cli/doctor/check_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>

#include "base/text.h"
#include "base/values/http.h"
#include "cli/open_source.h"
#include "report/text/words.h"

namespace weightfs::doctor {
namespace {

struct KindOfSource {
  std::string_view prefix;
  const char* name;
  const char* keys;  // how its keys are given
};

constexpr auto kKindsOfSources = std::to_array<KindOfSource>({
    {"hf:", "a repository of the Hugging Face Hub", "set HF_TOKEN, or run hf auth login"},
    {"ms:", "a repository of ModelScope", "set MODELSCOPE_API_TOKEN"},
    {"oci:", "a model in a registry", "run podman login or docker login for this registry"},
    {"ollama:", "a model in a registry or a local store", "run podman login or docker login for this registry"},
    {"s3:", "an object store with the API of Amazon S3",
     "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"},
    {"gs:", "Google Cloud Storage", "run gcloud auth application-default login"},
    {"az:", "Azure Blob Storage", "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN"},
    {"abfs:", "Azure Blob Storage", "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN"},
    {"abfss:", "Azure Blob Storage", "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN"},
    {"https:", "a file or directory on a web server", "add its host to ~/.netrc, or use --source-token-file"},
    {"http:", "a file or directory on a web server", "use --source-token-file"},
    {"", "a local file or directory", ""},
});

const KindOfSource& kind_of_source(const std::string& source) {
  return *std::ranges::find_if(kKindsOfSources, [&](const KindOfSource& kind) {
    return lower_case(source.substr(0, kind.prefix.size())) == kind.prefix;
  });
}

std::string as_date(std::chrono::sys_seconds time) { return http_date(std::chrono::system_clock::to_time_t(time)); }

std::string text_of(const http::KeyOrigin& key) {
  std::string text = fmt::format("{}, read {}", key.from, as_date(key.read));
  if (key.expires) text += fmt::format("; expires {}", as_date(*key.expires));
  return text;
}

std::string text_of_status(int status) {
  const std::string_view reason = reason_of(status);
  return reason.empty() ? std::to_string(status) : fmt::format("{} {}", status, reason);
}

// That of a request which failed comes last.
int status_of_answer(const http::Answer& answer, bool opens) {
  return opens && answer.accepted != 0 ? answer.accepted : answer.last;
}

// The largest difference between the clocks, if it may be the reason for a refusal. (Amazon S3 permits 15 minutes,
// Azure Storage, too.)
std::optional<std::chrono::seconds> wrong_clock(const SourceFacts& facts) {
  constexpr std::chrono::minutes kPermitted{5};
  std::chrono::seconds most{0};
  for (const auto& [origin, answer] : facts.answers)
    if (answer.clock_ahead && std::chrono::abs(*answer.clock_ahead) > std::chrono::abs(most))
      most = *answer.clock_ahead;
  return std::chrono::abs(most) > kPermitted ? std::optional(most) : std::nullopt;
}

std::string advice_for_connection(const SourceFacts& facts) {
  const std::string& text = facts.error->message;
  const auto says = [&](std::string_view words) { return text.find(words) != text.npos; };
  if (says("--offline") || says("HF_HUB_OFFLINE")) return "leave out --offline, and unset HF_HUB_OFFLINE";
  if (says("client certificate") || says("--client-certificate"))
    return "name a file with a client certificate that the server accepts, and its key, by --client-certificate";
  if (says("certificate"))
    return fmt::format("name a file with the certificate of the server's authority in {}",
                       kind_of_source(facts.source).prefix == "s3:" ? "AWS_CA_BUNDLE" : "SSL_CERT_FILE");
  if (says("the proxy ")) return "correct the variable with the proxy that the message names, or set no_proxy";
  if (says("resolve"))
    return "check the spelling of the server's name, and /etc/resolv.conf; behind a proxy, set https_proxy";
  if (is_about_the_network(*facts.error)) return "check that the server runs, and that this machine reaches its port";
  return {};
}

std::string advice_for_refusal(const SourceFacts& facts, int status) {
  const KindOfSource& kind = kind_of_source(facts.source);
  const std::string given = kind.keys;
  const bool has_key = !facts.keys.empty();
  const std::string from = has_key ? facts.keys.begin()->second.from : "";
  if (status == 401 && has_key)
    return fmt::format("the server does not accept the key of {}: replace it; {}", printable(from), given);
  if (status == 401) return fmt::format("the server wants a key: {}", given);
  if (status == 403 && has_key)
    return fmt::format("the key of {} is wrong, or has no right to read this: replace it, or ask the owner",
                       printable(from));
  if (status == 403) return fmt::format("the server refuses requests without a key: {}", given);
  if (has_key) return "check the name, and that the key may read it";
  return fmt::format("check the name; if it is private: {}", given);
}

// One sentence.
std::string advice_of(const SourceFacts& facts) {
  int refusal = 0;
  bool is_busy = false;
  for (const auto& [origin, answer] : facts.answers) {
    if (answer.last == 401 || answer.last == 403 || (answer.last == 404 && refusal == 0)) refusal = answer.last;
    is_busy |= http::is_temporary(answer.last);
  }
  const bool is_refused = facts.error->code == Code::forbidden || facts.error->code == Code::not_found ||
                          facts.error->code == Code::unsupported;
  if (const auto clock = wrong_clock(facts); clock && is_refused)
    return fmt::format("set the clock of this machine: it is {} minutes {} that of the server",
                       std::chrono::duration_cast<std::chrono::minutes>(std::chrono::abs(*clock)).count(),
                       clock->count() > 0 ? "behind" : "ahead of");
  if (std::string advice = advice_for_connection(facts); !advice.empty() && (refusal == 0 || !is_refused))
    return is_busy ? "the server is busy or has failed: try again later" : advice;
  if (refusal != 0 && is_refused) return advice_for_refusal(facts, refusal);
  if (facts.error->code == Code::not_found) return "check the name";
  if (facts.error->code == Code::corrupt || facts.error->code == Code::mismatch)
    return "run weightfs verify, which names what is damaged";
  return "change what the message names";
}

}  // namespace

Checks checks_of(const SourceFacts& facts) {
  const KindOfSource& kind = kind_of_source(facts.source);
  const std::string shown = printable(printable_source(facts.source));
  Checks checks = {{"source", Verdict::ok, fmt::format("{} is {}", shown, kind.name)}};
  for (const auto& [origin, count] : facts.requests) {
    checks.push_back(
        {"server", Verdict::ok, fmt::format("{}, {}", printable(origin), counted(count, "request", "requests"))});
    const auto key = facts.keys.find(origin);
    checks.push_back({"key", Verdict::ok,
                      key == facts.keys.end() ? "none: requests are anonymous" : printable(text_of(key->second))});
    const auto answer = facts.answers.find(origin);
    checks.push_back({"answer", Verdict::ok,
                      answer == facts.answers.end() ? "none to a request for files"
                                                    : text_of_status(status_of_answer(answer->second, !facts.error))});
  }
  if (!facts.error)
    checks.push_back({"opening", Verdict::ok, "it opens"});
  else
    checks.push_back({"opening", Verdict::failure, printable(facts.error->message), advice_of(facts)});
  return checks;
}

SourceFacts try_to_open(SourceInput& input) {
  input.store_flags.no_cache = true;  // an answer of a server is wanted
  SourceFacts facts{.source = input.source};
  if (const auto opened = open_source(input); !opened) facts.error = opened.error();
  const http::ClientPtr& http = input.open_options.registries.http;
  if (http == nullptr) return facts;
  facts.requests = http->requests();
  facts.answers = http->answers();
  facts.keys = http->keys();
  return facts;
}

}  // namespace weightfs::doctor
