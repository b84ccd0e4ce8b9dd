// What a store of blobs has done, for status.json and progress lines.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "cache/http/client.h"

namespace weightfs {

/// Counters since the store was opened, and the state of the blobs that were requested by digest.
struct StoreStatus {
  struct Blob {
    std::string name;
    Digest digest;
    std::optional<uint64_t> size;
    uint64_t fetched = 0;  ///< bytes received, verified or not
    bool verified = false;
    std::string from;   ///< a directory, a URL without its query, or empty
    std::string error;  ///< of the last failed attempt; empty if none failed
  };
  /// A file on a server that is read by ranges.
  struct Remote {
    std::string url;  ///< without its query
    uint64_t size = 0;
    uint64_t requests = 0;       ///< sent
    uint64_t bytes_fetched = 0;  ///< received
    uint64_t bytes_read = 0;     ///< returned to readers and parsers
    /// How its bytes are verified: "transport", "blocks" (each by a block list), "whole" (the digest of all bytes
    /// matched), or "mismatch".
    std::string_view verified = "transport";
    uint64_t blocks = 0;  ///< of 16 KiB, the last one may be shorter
    /// Blocks that were cached when the file was opened, or were received since. Those that other processes write
    /// meanwhile are missing.
    uint64_t present = 0;
    std::optional<uint64_t> verified_blocks = {};  ///< of a file with a known digest or a block list
    std::optional<uint64_t> comparing = {};        ///< bytes that are hashed, while all are compared with the digest
  };
  std::vector<Blob> blobs;      ///< in the order of the first request, each digest once
  std::vector<Remote> remotes;  ///< those that are in use
  uint64_t hits = 0;            ///< blobs that were local at their first read
  uint64_t misses = 0;          ///< blobs that had to be downloaded
  uint64_t bytes_fetched = 0;
  uint64_t errors = 0;                          ///< failed downloads
  std::map<std::string, uint64_t> requests;     ///< as http::Client::requests()
  http::Waiting waiting;                        ///< as http::Client::waiting()
  std::map<std::string, http::KeyOrigin> keys;  ///< as http::Client::keys()
};

}  // namespace weightfs
