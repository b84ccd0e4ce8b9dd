// What obtains keys that expire: protocols/aws/ has the sources of AWS.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "cache/http/client.h"
#include "protocols/s3.h"

namespace weightfs::s3 {

struct TimedKeys {
  std::optional<Keys> keys = {};                                     ///< nothing: the source has none
  std::optional<std::chrono::system_clock::time_point> expiry = {};  ///< nothing: they do not expire
};

/// Thread-safe.
class KeySource {
 public:
  virtual ~KeySource() = default;
  KeySource() = default;
  KeySource(const KeySource&) = delete;
  KeySource& operator=(const KeySource&) = delete;

  /// Reads files and sends requests. Fails with network if a later attempt may succeed, else with forbidden; the
  /// message names the source.
  virtual Result<TimedKeys> obtain(http::Client& client, const std::stop_token& stop) const = 0;

  /// For messages: "STS web identity".
  virtual std::string name() const = 0;

  /// Where the keys are from, as in http::KeyOrigin: the path of the file that has them, or name().
  virtual std::string origin() const { return name(); }

  /// It was not asked for by name. If it fails, its old keys are used even after they have expired, because the service
  /// may have extended them, and without old keys requests are anonymous.
  virtual bool is_optional() const { return false; }
};

using KeySourcePtr = std::shared_ptr<const KeySource>;

}  // namespace weightfs::s3
