// Task roles of ECS, and EKS Pod Identity. (docs.aws.amazon.com, "AWS SDKs and Tools Reference Guide": container
// credential provider.)
#include <fmt/core.h>

#include <utility>

#include "base/text.h"
#include "protocols/aws/key_requests.h"
#include "protocols/aws/key_sources.h"

namespace weightfs::aws {
namespace {

class ContainerKeys final : public s3::KeySource {
 public:
  explicit ContainerKeys(Container settings) : settings_(std::move(settings)) {}

  Result<s3::TimedKeys> obtain(http::Client& client, const std::stop_token& stop) const override {
    const auto name_it = [&](const Error& error) { return named(name(), error); };
    std::string token = settings_.token;
    if (!settings_.token_file.empty()) token = TRY(read_small_file(settings_.token_file).map_error(name_it));
    if (token.find_first_of(std::string_view("\r\n\0", 3)) != token.npos)
      return failure(Code::forbidden, name() + ": a line break in the authorization token");
    http::Request request{.url = settings_.url,
                          .headers = {"Accept: application/json"},
                          .purpose = http::Purpose::metadata,
                          .certificates = settings_.certificates};
    if (!token.empty())
      request.credentials = std::make_shared<SecretHeaders>(std::vector<std::string>{"Authorization: " + token});
    const download::Response page = TRY(ask(client, request, stop).map_error(name_it));
    if (page.head.status != 200) return refused(name(), settings_.url, page);
    const Map object = TRY(object_in(page.body).map_error(name_it));
    return keys_in(object).map_error(name_it);
  }
  std::string name() const override { return "container metadata"; }

 private:
  const Container settings_;
};

}  // namespace

s3::KeySourcePtr container(Container settings) { return std::make_shared<ContainerKeys>(std::move(settings)); }

}  // namespace weightfs::aws
