#include "cli/serve/protocols.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <span>
#include <utility>

#include "base/files/file_io.h"
#include "base/os/descriptor.h"
#include "base/os/system_error.h"
#include "base/text.h"

namespace weightfs {
namespace {

objects::SiteFiles files_of(const std::function<const httpd::Site&()>& site) {
  return {[site](const httpd::Request& request, Ino ino, const std::string& name, const httpd::FileFields& more) {
            return site().file(request, ino, name, more);
          },
          [site](Ino ino) { return site().entity(ino); }};
}

auto source_of(const std::function<const httpd::Site&()>& site) {
  return [site](const httpd::Request& request, SourcePtr bytes, const std::string& name,
                const httpd::FileFields& more) { return site().source(request, std::move(bytes), name, more); };
}

}  // namespace

Result<objects::AccessKeys> read_s3_keys(const std::string& path) {
  constexpr size_t kMaxSize = 1 << 20;
  const auto wrong = [&](const std::string& what) {
    return failure(Code::unsupported, fmt::format("--s3-keys {}: {}", printable(path), what));
  };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return failure(io_error("--s3-keys " + printable(path)));
  struct stat status {};
  if (::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) return wrong("is not a regular file");
  if (status.st_uid != ::geteuid() && status.st_uid != 0) return wrong("belongs to another user");
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) return wrong("others have access to it; chmod 600");
  std::string text(kMaxSize + 1, '\0');
  text.resize(TRY(read_up_to_end(file.number(), 0, std::as_writable_bytes(std::span(text)))));
  if (text.size() > kMaxSize) return wrong("has more than 1 MiB");
  auto keys = objects::parse_access_keys(text);
  return keys ? keys : wrong(keys.error().message);
}

Protocols::Protocols(Forest& forest, ProtocolOptions options, std::function<const httpd::Site&()> site)
    : needs_token_(options.needs_token),
      is_mirror_only_(options.is_mirror_only),
      mirrors_registry_(options.registry_mirror != nullptr),
      mirrors_objects_(options.object_mirror != nullptr),
      page_(options.assets),
      api_(forest, printable(options.source), std::move(options.url_of), options.takes_files),
      digests_(std::move(options.digests)),
      registry_(forest, options.source, digests_,
                needs_token_ ? distribution::Readers::with_token : distribution::Readers::all,
                std::move(options.registry_mirror)),
      hub_(forest, options.is_secure ? "https" : "http", files_of(site).send,
           {std::move(options.mirror), source_of(site)}, &digests_),
      store_(forest, files_of(site), std::move(options.s3_keys), {std::move(options.object_mirror), source_of(site)}) {}

std::optional<httpd::Accepted<httpd::Response>> Protocols::answer(const httpd::Request& request,
                                                                  const httpd::Target& target,
                                                                  const httpd::Client& client) {
  if (auto pulled = registry_.answer(request, target, client.has_left))
    return httpd::Accepted<httpd::Response>(std::move(*pulled));
  if (auto answered = store_.answer(request, target, client.has_left)) return answered;
  if (auto page = page_.answer(request, target)) return page;
  if (auto answered = api_.answer(request, target, client.has_left)) return answered;
  return hub_.answer(request, target, client.has_left);
}

std::optional<httpd::Response> Protocols::refuse(const httpd::Refusal& refusal, const httpd::Request& request) const {
  if (auto own = store_.refuse(refusal, request)) return own;
  return distribution::Registry::refuse(refusal, request);
}

bool Protocols::is_public(const httpd::Request& request, const httpd::Target& target) const {
  return WebPage::is_of_page(request, target) || (needs_token_ && store_.is_signed(request, target));
}

std::vector<std::string> Protocols::invitations(const std::string& url) {
  const std::string origin = url.substr(0, url.find_last_not_of('/') + 1);
  if (is_mirror_only_ && mirrors_registry_) return registry_.invitations(url);
  const std::string endpoint = origin + "/.s3";
  const bool may_use_s3 = !needs_token_ || store_.has_keys();  // its clients send no token
  if (is_mirror_only_ && mirrors_objects_)
    return may_use_s3 ? std::vector<std::string>{"export AWS_ENDPOINT_URL=" + endpoint} : std::vector<std::string>();
  if (is_mirror_only_) return {"export HF_ENDPOINT=" + origin};
  std::vector<std::string> lines = {"# Hugging Face Hub, Ollama, OCI registry and S3; each line is for one client:",
                                    "export HF_ENDPOINT=" + origin};
  for (std::string& line : registry_.invitations(url)) lines.push_back(std::move(line));
  if (!may_use_s3) return lines;
  lines.push_back(fmt::format("aws --endpoint-url {}{} s3 ls", endpoint, needs_token_ ? "" : " --no-sign-request"));
  lines.push_back(fmt::format("rclone lsd :s3: --s3-provider Other --s3-endpoint {}{}", endpoint,
                              needs_token_ ? " --s3-env-auth" : ""));
  return lines;
}

void Protocols::stop() {
  api_.stop();
  digests_.stop();
}

}  // namespace weightfs
