// The URLs of buckets and their objects, and what their names consist of.
#pragma once

#include <string>
#include <string_view>

#include "protocols/s3.h"

namespace weightfs::s3 {

/// Whether the text has digits, small letters and `others` only, or also capitals.
bool consists_of(std::string_view text, std::string_view others, bool upper_case);

bool is_region(std::string_view text);

/// The number of a version of an object: 1 to 20 digits.
bool is_generation(std::string_view text);

/// The URL of the bucket, without a `/` at its end. `endpoint`, `host` and `addressing`: as in Settings. A name that
/// cannot be before the host is in the path.
std::string url_of(const std::string& bucket, const std::string& endpoint, std::string_view host,
                   const std::string& region, Addressing addressing = Addressing::automatic);

}  // namespace weightfs::s3
