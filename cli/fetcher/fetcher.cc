#include "cli/fetcher/fetcher.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

#include "base/os/system_error.h"
#include "base/os/unix_socket.h"
#include "base/text.h"
#include "base/values/packing.h"
#include "cache/direct_client.h"
#include "cache/fetcher.h"
#include "cli/fetcher/helper_broker.h"
#include "cli/fetcher/source_gate.h"
#include "cli/process/child_process.h"
#include "cli/sandbox/sandbox.h"
#include "protocols/client_certificate.h"
#include "protocols/keyring.h"
#include "sources/location.h"

namespace weightfs {
namespace {

constexpr size_t kMaxGreeting = 160 * 1024;  // of one message, as the kernel limits it

// The first message of the fetcher.
struct Greeting {
  std::optional<Error> error = {};  // it has ended
  CloudSettings clouds = {};
  MirrorTable mirrors = {};
  std::vector<std::string> warnings = {};
};

// Without headers, which may be secret.
void add_mirror(Packer& out, const Mirror& mirror) {
  out.text(mirror.registry).text(mirror.url).number(mirror.has_tags).number(mirror.has_digests);
  out.text(mirror.replaced).text(mirror.path).text(mirror.name_space).number(mirror.is_complete_path);
}

Mirror mirror_in(Unpacker& in) {
  Mirror mirror;
  mirror.registry = in.text();
  mirror.url = in.text();
  mirror.has_tags = in.flag();
  mirror.has_digests = in.flag();
  mirror.replaced = in.text();
  mirror.path = in.text();
  mirror.name_space = in.text();
  mirror.is_complete_path = in.flag();
  return mirror;
}

// Without keys.
void add_settings(Packer& out, const s3::Settings* settings) {
  const s3::Settings none;
  const s3::Settings& of = settings == nullptr ? none : *settings;
  out.number(settings != nullptr).text(of.region).text(of.endpoint).text(of.note);
  out.text(of.region_from).text(of.endpoint_from).text(of.host).number(static_cast<uint64_t>(of.addressing));
}

std::shared_ptr<const s3::Settings> settings_in(Unpacker& in, const s3::Dialect& dialect) {
  auto settings = std::make_shared<s3::Settings>();
  settings->dialect = &dialect;
  const bool has_settings = in.flag();
  for (std::string* const field : {&settings->region, &settings->endpoint, &settings->note, &settings->region_from,
                                   &settings->endpoint_from, &settings->host})
    *field = in.text();
  settings->addressing = static_cast<s3::Addressing>(std::min<uint64_t>(in.number(), 2));
  return has_settings ? settings : nullptr;
}

std::string pack(const Greeting& greeting) {
  Packer out;
  add_error(out, greeting.error);
  add_settings(out, greeting.clouds.s3.get());
  add_settings(out, greeting.clouds.google.get());
  const azure::Settings none;
  const azure::Settings& azure = greeting.clouds.azure == nullptr ? none : *greeting.clouds.azure;
  out.number(greeting.clouds.azure != nullptr).text(azure.account).text(azure.endpoint).text(azure.endpoint_from);
  out.list(greeting.mirrors, [&](const auto& repository) {
    out.text(repository.first);
    out.list(repository.second, [&](const Mirror& mirror) { add_mirror(out, mirror); });
  });
  out.list(greeting.warnings, [&](const std::string& line) { out.text(line); });
  return out.take();
}

Result<Greeting> unpack_greeting(std::string_view bytes) {
  Unpacker in(bytes);
  Greeting greeting;
  greeting.error = error_in(in);
  greeting.clouds.s3 = settings_in(in, s3::kAmazon);
  greeting.clouds.google = settings_in(in, s3::kGoogle);
  auto azure = std::make_shared<azure::Settings>();
  const bool has_azure = in.flag();
  for (std::string* const field : {&azure->account, &azure->endpoint, &azure->endpoint_from}) *field = in.text();
  if (has_azure) greeting.clouds.azure = std::move(azure);
  in.list([&] {
    std::vector<Mirror>& mirrors = greeting.mirrors[in.text()];
    in.list([&] { mirrors.push_back(mirror_in(in)); });
  });
  in.list([&] { greeting.warnings.push_back(in.text()); });
  if (!in.is_done()) return failure(Code::io, "the process that downloads did not start");
  return greeting;
}

// Variables with paths of files that this process opens later, from another directory.
void make_paths_absolute() {
  for (const char* const name : {"SSL_CERT_FILE",
                                 "CURL_CA_BUNDLE",
                                 "OLLAMA_MODELS",
                                 "HF_HOME",
                                 "HF_TOKEN_PATH",
                                 "XDG_CACHE_HOME",
                                 "DOCKER_CONFIG",
                                 "REGISTRY_AUTH_FILE",
                                 "MODELSCOPE_HOME",
                                 "NETRC",
                                 "XDG_RUNTIME_DIR",
                                 "XDG_CONFIG_HOME",
                                 "AWS_CA_BUNDLE",
                                 "AWS_CONFIG_FILE",
                                 "AWS_SHARED_CREDENTIALS_FILE",
                                 "AWS_WEB_IDENTITY_TOKEN_FILE",
                                 "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                 "GOOGLE_APPLICATION_CREDENTIALS",
                                 "CLOUDSDK_CONFIG",
                                 "AZURE_FEDERATED_TOKEN_FILE",
                                 "CONTAINERS_REGISTRIES_CONF",
                                 "HOME"}) {
    const std::string value = environment(name);
    if (value.empty() || value.starts_with('/')) continue;
    if (const auto absolute = absolute_path(value)) ::setenv(name, absolute->c_str(), 1);
  }
  std::string directories;  // separated by colons
  const std::string all = environment("SSL_CERT_DIR");
  for (std::string_view rest = all; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (const auto absolute = absolute_path(std::string(one)))
      directories += (directories.empty() ? "" : ":") + *absolute;
  }
  if (!directories.empty()) ::setenv("SSL_CERT_DIR", directories.c_str(), 1);
}

// It ends with its parent, whatever the terminal sends to the process group.
void leave_terminal() {
  ::setsid();
  make_paths_absolute();
  for (const int number : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE}) std::signal(number, SIG_IGN);
  ::prctl(PR_SET_NAME, "weightfs-fetch");
  (void)!::chdir("/");
}

// Without it, a container whose first process reaps no orphans would keep one of each command. It ends when its socket
// is closed. A resolver that hangs delays the end of the command by a second at most.
void wait_for_end(pid_t child) {
  constexpr std::chrono::milliseconds kStep{2};
  for (int step = 0; step < 500 && ::waitpid(child, nullptr, WNOHANG) == 0; ++step) std::this_thread::sleep_for(kStep);
}

void ignore_line(const std::string&) {}

Result<void> confine_fetcher(const RegistryOptions& stores, const SourceKeys& source_keys) {
  std::vector<std::string> key_files = source_keys.files();
  const auto add = [&](const auto& settings) {
    if (settings != nullptr) key_files.insert(key_files.end(), settings->files.begin(), settings->files.end());
  };
  add(stores.clouds.s3);
  add(stores.clouds.google);
  add(stores.clouds.azure);
  add(stores.clouds.registries.azure);
  return sandbox::enter_sandbox(sandbox::access_for_fetcher(key_files), ignore_line).map([](const auto&) {});
}

// The child of `parent`. `options` are a copy.
void run_fetcher(int socket, pid_t parent, const std::vector<std::string>& sources, OpenOptions options,
                 const StoreFlags& flags) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // until the sandbox of the parent keeps the signal from it
  const Descriptor parent_end(static_cast<int>(::syscall(SYS_pidfd_open, parent, 0)));
  if (::getppid() != parent) return;
  leave_terminal();
  close_all_but({socket, parent_end.number()});
  close_standard_descriptors();
  Greeting greeting;
  options.log = [&](const std::string& line) {
    if (std::ranges::find(greeting.warnings, line) == greeting.warnings.end()) greeting.warnings.push_back(line);
  };
  auto logins = logins_with_helpers(sources, options, flags);  // before this process has keys
  if (!logins) greeting.error = logins.error();
  if (auto read = read_credentials(sources_with_credentials(sources, flags), options); !read)
    greeting.error = std::move(read).error();
  if (auto checked = check_source_keys(flags.source_keys); !checked && !greeting.error)
    greeting.error = std::move(checked).error();
  greeting.clouds = options.registries.clouds;
  const auto keyring = std::make_shared<UserKeyring>(std::move(logins).value_or(CredentialPaths()),
                                                     options.registries.clouds, flags.source_keys);
  auto certificates = read_client_certificates(flags.client_certificates);
  if (!certificates && !greeting.error) greeting.error = certificates.error();
  const auto client = std::make_shared<http::DirectClient>(
      request_options(flags), keyring, std::move(certificates).value_or(http::ClientCertificates()));
  options.registries.http = client;
  options.registries.mirrors = flags.mirrors;
  options.registries.plain_http = flags.requests.insecure;
  greeting.mirrors = mirrors_of_sources(sources, options);
  options.registries.known_mirrors = std::make_shared<const MirrorTable>(greeting.mirrors);
  std::vector<Scope> scopes = scopes_of(sources, options, flags.store.fetching.cache_mirrors);
  const ServedMirror& mirror = flags.served_mirror;
  if (mirror.is_of_hub()) scopes.push_back(scope_of_models(mirror.endpoint, mirror.allow));
  if (mirror.is_of_registry()) scopes.push_back(scope_of_repositories(mirror.endpoint, mirror.allow));
  if (mirror.is_of_objects()) scopes.push_back(scope_of_objects(mirror.endpoint, mirror.allow));
  SourceGate gate(std::move(scopes), keyring, client);
  if (auto confined = confine_fetcher(options.registries, flags.source_keys); !confined && !greeting.error)
    greeting.error = std::move(confined).error();
  std::string message = pack(greeting);
  if (message.size() > kMaxGreeting)
    message = pack(Greeting{.error = Error(Code::resource, "too many mirrors of the sources")});
  if (!send_message(socket, message) || greeting.error) return;
  fetcher::serve_requests(socket, client, gate, parent_end.number());
}

}  // namespace

Result<Fetcher> start_fetcher(const std::vector<std::string>& sources, const OpenOptions& options,
                              const StoreFlags& flags) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return failure(io_error("the process that downloads"));
  Descriptor ours(ends[0]);
  Descriptor theirs(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return failure(io_error("the process that downloads"));
  if (child == 0) {
    const auto done = exceptions_to_errors([&]() -> Result<void> {
      run_fetcher(theirs.number(), parent, sources, options, flags);
      return {};
    });
    std::_Exit(done ? 0 : 1);
  }
  theirs = Descriptor();
  std::shared_ptr<const void> process(static_cast<const void*>(nullptr), [child](const void*) { wait_for_end(child); });
  Greeting greeting = TRY(unpack_greeting(receive_message(ours.number(), kMaxGreeting).bytes));
  if (greeting.error) return failure(std::move(*greeting.error));
  for (const std::string& line : greeting.warnings) options.log(line);
  return Fetcher{std::move(ours), std::move(greeting.clouds),
                 std::make_shared<const MirrorTable>(std::move(greeting.mirrors)), std::move(process)};
}

}  // namespace weightfs
