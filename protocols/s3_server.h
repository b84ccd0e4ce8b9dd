// Buckets of one object store that are requested by names that clients send: `weightfs serve --mirror s3=ENDPOINT`.
//
// A pattern is BUCKET/KEY, or BUCKET for all of its objects. `*` and `?` stand for any characters (fnmatch(3)): before
// the first `/` of the pattern for those of the name of the bucket, behind it for those of the key, also `/`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weightfs::s3 {

/// The URL of an object store, without a `/` at its end. Fails with unsupported, without quoting the text: it may have
/// a password.
Result<std::string> parse_endpoint(std::string_view text);

/// Whether it is a valid name of a bucket, and a pattern permits some of its objects.
bool is_permitted_bucket(const std::string& bucket, const std::vector<std::string>& patterns);

/// Whether a pattern permits the object. False for a key with an empty component, `.` or `..`, and for one of more than
/// 1024 bytes.
bool is_permitted_object(const std::string& bucket, const std::string& key, const std::vector<std::string>& patterns);

/// Whether a pattern permits all objects whose keys begin with the prefix: it matches the prefix, and ends with `*`.
bool is_permitted_prefix(const std::string& bucket, const std::string& prefix,
                         const std::vector<std::string>& patterns);

/// Whether a normalized URL is that of a permitted object, or of a list of the keys with a permitted prefix, in path
/// style; `endpoint` is as of parse_endpoint().
bool is_permitted_request(const std::string& url, const std::string& endpoint,
                          const std::vector<std::string>& patterns);

}  // namespace weightfs::s3
