// Small questions to a registry, or to whoever gives the tokens for it: asked again where the network fails for a
// moment, and what is said when they are refused.
#pragma once

#include <atomic>
#include <string>

#include "cache/http/client.h"

namespace weightfs {

/// An answer with its body.
struct Page {
  Answer answer;
  std::string body;
};

/// The page that the request gives, of at most `most` bytes; of an answer other than 200 as much as says why. Fails as
/// Http::perform does, and with corrupt when the page is longer. A status is no failure.
Result<Page> page_of(Http& http, const Request& request, size_t most, const std::atomic<bool>& stop);

/// The same, asked for up to three times where the network, or a status like 429 or 503, fails for a moment; then it
/// fails with unreachable. Other statuses are no failure.
Result<Page> ask(Http& http, const Request& request, size_t most, const std::atomic<bool>& stop);

/// What the page of an answer says, for the end of a sentence: ": status 404, manifest unknown". Reads
/// {"errors":[{"code","message"}]} (OCI distribution-spec, "Error Codes"), {"error":"…"} and {"details":"…"}.
std::string refusal(const Page& page);

}  // namespace weightfs
