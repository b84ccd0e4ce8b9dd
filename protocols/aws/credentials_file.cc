#include <fmt/core.h>

#include <utility>

#include "base/text.h"
#include "protocols/aws/key_requests.h"
#include "protocols/aws/key_sources.h"

namespace weightfs::aws {
namespace {

Result<s3::TimedKeys> keys_of_text(std::string text) {
  const Map object = TRY(object_in(std::move(text)));
  const auto* const version = object.find_as<int64_t>("Version");
  if (version == nullptr || *version != 1) return failure(Code::forbidden, "its Version is not 1");
  return keys_in(object, {.token = "SessionToken"});
}

class CredentialsFile final : public s3::KeySource {
 public:
  explicit CredentialsFile(std::string path) : path_(std::move(path)) {}

  Result<s3::TimedKeys> obtain(http::Client& /*client*/, const std::stop_token& /*stop*/) const override {
    std::string text = TRY(read_small_file(path_).map_error([&](const Error& error) {
      // The sandbox permits the file that was there at the start, and its directory if it is not a shared one.
      const bool is_refused = error.message.ends_with("Permission denied");
      constexpr const char* kAdvice =
          "; a file that is replaced has to be in a directory of its own, not in $HOME or /tmp";
      return Error{error.code, fmt::format("--credentials-file {}{}", error.message, is_refused ? kAdvice : "")};
    }));
    return keys_of_text(std::move(text)).map_error([&](const Error& error) { return named(name(), error); });
  }
  std::string name() const override { return "--credentials-file " + printable(path_); }
  std::string origin() const override { return path_; }

 private:
  const std::string path_;
};

}  // namespace

s3::KeySourcePtr credentials_file(std::string path) { return std::make_shared<CredentialsFile>(std::move(path)); }

}  // namespace weightfs::aws
