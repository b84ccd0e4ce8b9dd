// Small questions to a registry, or to whoever gives the tokens for it: asked again where the network fails for a
// moment, and what is said when they are refused.
#pragma once

#include <atomic>
#include <string>

#include "cache/http.h"

namespace weightfs {

/// The page that the request gives, of at most `most` bytes; of an answer other than 200 as much as says why. Asks up
/// to three times where the network, or a status 429 or 5xx, fails for a moment, and then fails with unreachable. Fails
/// with corrupt when the page is longer. Other statuses are no failure.
Result<Http::Page> ask(Http& http, const Request& request, size_t most, const std::atomic<bool>& stop);

/// What the page of an answer says, for the end of a sentence: ": status 404, manifest unknown". Reads
/// {"errors":[{"code","message"}]} (OCI distribution-spec, "Error Codes"), {"error":"…"} and {"details":"…"}.
std::string refusal(const Http::Page& page);

}  // namespace weightfs
