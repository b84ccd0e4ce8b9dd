// The options of `weightfs serve`: one table for the command line and the config of a service.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console/log.h"
#include "cli/options/option.h"
#include "cli/options/store_options.h"
#include "fs/layout/source_tree.h"
#include "fs/reading/prefetch.h"

namespace weightfs {

struct HttpOptions {
  OpenOptions open_options;
  StoreFlags store_flags;
  std::vector<std::string> listen;   ///< where; empty: kDefaultListen
  std::vector<std::string> hosts;    ///< names of this server, besides its addresses
  std::vector<std::string> origins;  ///< of web pages that may read
  std::string token_file;
  std::string s3_keys;  ///< a file with access keys; empty: none
  bool no_auth = false;
  std::string tls_certificate;
  std::string tls_key;
  std::string assets;                    ///< a directory with the files of the page; empty: those of the program
  std::string access_log;                ///< a file, or `-` for standard output; empty: none
  std::chrono::seconds idle_timeout{0};  ///< end after this time without a request; 0: never
  bool until_eof = false;                ///< end when standard input has ended
  std::chrono::seconds follow{0};
  Level log_level = Level::info;
  PrefetchMode prefetch = PrefetchMode::in_order;
  ModelFileOptions model_files;
  bool require_complete = false;
};

/// The options that only serve has.
Options own_http_options(HttpOptions& options);

/// Those of open.
Options open_options(HttpOptions& options, bool& no_browser);

/// Fails with unsupported if there is nothing to serve, or if the options of a mirror do not fit.
Result<void> check_served(const std::vector<std::string>& sources, const HttpOptions& options);

/// Applies the words of OPTIONS of a config, separated by commas. Fails with unsupported; the message names the word.
Result<void> parse_http_options(HttpOptions& options, std::string_view text);

}  // namespace weightfs
