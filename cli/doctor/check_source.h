// Whether a SOURCE opens: its kind, the servers that were asked, the keys that were sent, the answers, and what to do.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "cache/direct_client.h"
#include "cli/doctor/checks.h"
#include "cli/options/open_options.h"

namespace weightfs::doctor {

/// What an attempt to open a source has shown.
struct SourceFacts {
  std::string source;                                ///< as the user gave it
  std::map<std::string, uint64_t> requests = {};     ///< as http::Client::requests()
  std::map<std::string, http::Answer> answers = {};  ///< as http::Client::answers()
  std::map<std::string, http::KeyOrigin> keys = {};  ///< as http::Client::keys(): never the keys
  std::optional<Error> error = {};                   ///< nothing: it opens
};

/// Checks with the names source, server, key, answer and opening; only the last one fails, with advice.
Checks checks_of(const SourceFacts& facts);

/// Opens the source of `input` without the cache, as the commands do that read one.
SourceFacts try_to_open(SourceInput& input);

}  // namespace weightfs::doctor
