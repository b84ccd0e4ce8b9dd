#include "cli/fetcher/helper_broker.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "base/cancel.h"
#include "base/os/descriptor.h"
#include "base/os/system_error.h"
#include "base/os/unix_socket.h"
#include "base/text.h"
#include "base/values/packing.h"
#include "cache/url.h"
#include "cli/fetcher/helper_program.h"
#include "cli/process/child_process.h"
#include "cli/process/isolated.h"
#include "cli/sandbox/broker.h"

namespace weightfs {
namespace {

using registry::HelperOutput;
using registry::HelperUse;

constexpr std::chrono::seconds kHelperTimeout{30};
constexpr size_t kMaxServer = 1024;
constexpr char kRunHelper = 'r';

// A helper that a file names.
struct HelperFile {
  std::string path = {};     // of the program; empty: it is not run
  std::string refusal = {};  // why
};

using HelperFiles = std::map<HelperUse, HelperFile>;

// Root runs no program because another user's file names it, nor does a user.
HelperFile find_helper_file(const HelperUse& use, const std::string& file) {
  if (!registry::is_helper_name(use.name) || use.server.size() > kMaxServer || !is_visible_ascii(use.server))
    return {.refusal = "is not run: not a name of a credential helper"};
  struct stat status {};
  const bool is_own = ::stat(file.c_str(), &status) == 0 && (status.st_uid == ::geteuid() || status.st_uid == 0);
  if (!is_own || (status.st_mode & S_IWOTH) != 0)
    return {.refusal =
                fmt::format("is not run: {} belongs to another user, or others may write to it", printable(file))};
  const std::string program = "docker-credential-" + use.name;
  const std::string path = find_on_path(program);
  if (!path.starts_with('/')) return {.refusal = fmt::format("is not run: {} is not on PATH", program)};
  return {.path = path};
}

// Mirrors of sources are not among them: a file of the machine may name one.
std::vector<std::string> registries_of(const std::vector<std::string>& sources, OpenOptions options,
                                       const StoreFlags& flags) {
  options.registries.http = nullptr;
  options.registries.plain_http = flags.requests.insecure;
  std::vector<Scope> scopes = scopes_of(sources, options, {});
  if (flags.served_mirror.is_of_registry())
    scopes.push_back(scope_of_repositories(flags.served_mirror.endpoint, flags.served_mirror.allow));
  std::vector<std::string> hosts;
  for (const Scope& scope : scopes) {
    if (scope.credentials.kind != http::CredentialsName::Kind::registry) continue;
    std::string_view host = scope.credentials.server;
    host.remove_prefix(host.find("://") + 3);
    hosts.emplace_back(host.substr(0, host.find_first_of("/?#")));
  }
  return hosts;
}

// In the broker. The argument is the number of the request, which is the status of the reply, and what is run.
sandbox::BrokerReply run_for_reply(const HelperFiles& files, const sandbox::Broker::Request& request) {
  if (request.letter != kRunHelper) return {};
  Unpacker in(request.argument);
  sandbox::BrokerReply reply{static_cast<int>(in.number())};
  HelperUse use{in.text(), in.text()};
  const auto known = in.is_done() ? files.find(use) : files.end();
  if (known == files.end() || known->second.path.empty()) return reply;
  const HelperRun run = run_helper(known->second.path, use.server + "\n", kHelperTimeout);
  Packer out;
  out.number(static_cast<uint64_t>(run.end)).number(static_cast<uint64_t>(run.status)).text(run.text);
  reply.text = out.take();
  return reply;
}

Result<HelperOutput> output_in(std::string_view reply) {
  const auto failed = [](std::string_view why) { return failure(Code::unsupported, std::string(why)); };
  Unpacker in(reply);
  const auto end = static_cast<HelperRun::End>(in.number());
  HelperOutput output{static_cast<int>(in.number()), in.text()};
  if (!in.is_done()) return failed("is not run");
  if (end == HelperRun::End::timed_out)
    return failed(fmt::format("did not end within {} seconds", kHelperTimeout.count()));
  if (end == HelperRun::End::too_long) return failed(fmt::format("printed more than {}", human_size(kMaxHelperOutput)));
  if (end != HelperRun::End::exited) return failed("did not run");
  return output;
}

// The other end of the socket. Calls are serialised by CredentialHelpers.
class HelperBroker {
 public:
  HelperBroker(Descriptor socket, HelperFiles files) : socket_(std::move(socket)), files_(std::move(files)) {}

  Result<HelperOutput> run(const HelperUse& use, const std::stop_token& stop) {
    const auto known = files_.find(use);
    if (known == files_.end())
      return failure(Code::unsupported, "was not named for a source when this process started; start it again");
    if (known->second.path.empty()) return failure(Code::unsupported, known->second.refusal);
    Packer out;
    out.number(++request_).text(use.name).text(use.server);
    if (!send_message(socket_.number(), kRunHelper + out.take())) return exited();
    for (;;) {
      const std::string bytes = TRY(next_reply(stop));
      sandbox::BrokerReply reply;
      std::memcpy(&reply.status, bytes.data(), sizeof reply.status);
      if (reply.status == static_cast<int>(request_)) return output_in(std::string_view(bytes).substr(sizeof(int)));
    }
  }

 private:
  static tl::unexpected<Error> exited() { return failure(Code::unsupported, "is not run: its process has ended"); }

  // The reply to a request that was cancelled may come first.
  Result<std::string> next_reply(const std::stop_token& stop) {
    pollfd waiting{socket_.number(), POLLIN, 0};
    while (::poll(&waiting, 1, static_cast<int>(kCancelCheck.count())) <= 0)
      if (stop.stop_requested() || is_cancelled())
        return failure(Code::network, "stopped while waiting for a credential helper");
    SocketMessage reply = receive_message(socket_.number(), sandbox::kMaxBrokerMessage);
    if (reply.bytes.size() < sizeof(int)) return exited();
    return std::move(reply.bytes);
  }

  const Descriptor socket_;
  const HelperFiles files_;
  unsigned request_ = 0;
};

Result<std::shared_ptr<HelperBroker>> start_broker(HelperFiles files) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return failure(io_error("the process that runs credential helpers"));
  Descriptor ours(ends[0]);
  const Descriptor theirs(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return failure(io_error("the process that runs credential helpers"));
  if (child == 0)
    sandbox::Broker::serve(
        theirs.number(), [&](const sandbox::Broker::Request& request) { return run_for_reply(files, request); },
        [] {
          die_with_parent();
          close_standard_descriptors();
        });
  return std::make_shared<HelperBroker>(std::move(ours), std::move(files));
}

}  // namespace

Result<CredentialPaths> logins_with_helpers(const std::vector<std::string>& sources, const OpenOptions& options,
                                            const StoreFlags& flags) {
  CredentialPaths paths = CredentialPaths::of_user();
  if (!flags.credential_helpers) return paths;
  HelperFiles files;
  bool has_program = false;
  for (const auto& [use, file] : registry::configured_helpers(paths, registries_of(sources, options, flags))) {
    HelperFile found = find_helper_file(use, file);
    has_program |= !found.path.empty();
    files.try_emplace(use, std::move(found));
  }
  std::shared_ptr<HelperBroker> broker;
  if (has_program)
    broker = TRY(start_broker(std::move(files)));
  else
    broker = std::make_shared<HelperBroker>(Descriptor(), std::move(files));
  paths.helpers = std::make_shared<registry::CredentialHelpers>(
      [broker = std::move(broker)](const HelperUse& use, const std::stop_token& stop) {
        return broker->run(use, stop);
      });
  return paths;
}

}  // namespace weightfs
