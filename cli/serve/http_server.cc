#include "cli/serve/http_server.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <memory>

#include "base/os/memory.h"
#include "base/text.h"
#include "cli/dropped/dropped_files.h"
#include "cli/mount/mount_report.h"
#include "cli/mount_server/status.h"
#include "cli/pipeline/stages.h"
#include "cli/sandbox/broker.h"
#include "cli/sandbox/temporary_files.h"
#include "cli/serve/access_log.h"
#include "cli/serve/browser.h"
#include "cli/serve/hub_mirror.h"
#include "cli/serve/listen.h"
#include "cli/serve/object_mirror.h"
#include "cli/serve/open_code.h"
#include "cli/serve/protocols.h"
#include "cli/serve/registry_mirror.h"
#include "cli/serve/signal_pipe.h"
#include "formats/one_model.h"
#include "fs/http/server.h"
#include "fs/http/site.h"
#include "fs/living/follower.h"
#include "protocols/keyring.h"
#include "report/inspect/named_file.h"
#include "report/text/suggestions.h"
#include "report/text/words.h"

namespace weightfs {
namespace {

using std::chrono::milliseconds;

constexpr std::array<std::string_view, 4> kOperations = {"get", "head", "options", "other"};
constexpr milliseconds kShutdown{10'000};
constexpr size_t kMaxSuggested = 2'000;  // names that are compared
constexpr char kOpenBrowser = 'b';       // asks the broker for the URL of the page

size_t operation_of(const httpd::Request* request) {
  const auto is = [&](const char* method) { return request != nullptr && request->method == method; };
  return is("GET") ? 0 : is("HEAD") ? 1 : is("OPTIONS") ? 2 : 3;
}

// Reads and drops what can be read without waiting.
bool has_input_ended() {
  std::array<char, 256> bytes{};
  pollfd ready{STDIN_FILENO, POLLIN, 0};
  while (::poll(&ready, 1, 0) > 0)
    if (::read(STDIN_FILENO, bytes.data(), bytes.size()) <= 0) return true;
  return false;
}

// What is opened before the sandbox is entered.
struct Opened {
  std::vector<Listening> listening;
  std::optional<httpd::Tls> tls;
  std::unique_ptr<AccessLog> access_log;
  std::string token;
  objects::AccessKeys s3_keys;
};

Result<Opened> open_all(const HttpParams& params) {
  const HttpOptions& options = params.options;
  TRY_VOID(check_served(params.sources, options));
  Opened opened;
  opened.token = params.token;
  if (options.tls_certificate.empty() != options.tls_key.empty())
    return failure(Code::unsupported, "--tls-cert and --tls-key belong together");
  if (!options.token_file.empty()) opened.token = TRY(read_token_file(options.token_file));
  if (!options.s3_keys.empty() && opened.token.empty())
    return failure(Code::unsupported, "--s3-keys is for a server with a token; add --token-file FILE");
  if (!options.s3_keys.empty()) opened.s3_keys = TRY(read_s3_keys(options.s3_keys));
  if (!options.tls_certificate.empty()) opened.tls = TRY(httpd::Tls::load(options.tls_certificate, options.tls_key));
  const std::vector<std::string> defaults = {kDefaultListen};
  for (const std::string& where : options.listen.empty() ? defaults : options.listen)
    for (Listening& each : TRY(listen_on(where, opened.tls ? "https" : "http")))
      opened.listening.push_back(std::move(each));
  for (const Listening& each : opened.listening)
    if (!each.is_loopback && opened.token.empty() && !options.no_auth)
      return failure(Code::unsupported,
                     fmt::format("{}: other machines can connect; use --token-file FILE, or --no-auth", each.url));
  if (!options.access_log.empty()) opened.access_log = TRY(AccessLog::open(options.access_log));
  return opened;
}

httpd::AccessRules access_rules(const HttpOptions& options, const Opened& opened) {
  httpd::AccessRules rules;
  rules.token = opened.token;
  rules.origins = options.origins;
  for (const std::string& host : options.hosts) rules.hosts.push_back(lower_case(host));
  rules.is_any_host = std::ranges::all_of(opened.listening, [](const Listening& each) { return each.host.empty(); });
  for (const Listening& each : opened.listening) {
    rules.hosts.push_back(each.host);
    rules.is_any_address = rules.is_any_address || each.is_any;
    if (each.is_loopback || each.is_any) rules.hosts.insert(rules.hosts.end(), {"localhost", "127.0.0.1", "::1"});
  }
  std::array<char, 256> name{};
  if (rules.is_any_address && ::gethostname(name.data(), name.size() - 1) == 0)
    rules.hosts.push_back(lower_case(name.data()));
  return rules;
}

class HttpServing {
 public:
  HttpServing(HttpParams params, Opened opened, SignalPipe& signals, Log& log)
      : params_(std::move(params)), opened_(std::move(opened)), signals_(signals), log_(log) {
    warn_ = [this](const std::string& line) { log_.write_once(Level::warning, line); };
  }

  Result<Exit> run() {
    if (params_.opens_browser && has_browser()) TRY_VOID(make_code());
    TRY_VOID(start_broker());
    Confined confined = TRY(Confined::enter({plan(), rights()}));
    Reading reading = TRY(Reading::open(std::move(confined), options().model_files, options().require_complete));
    const ServedMirror& mirrored = options().store_flags.served_mirror;
    const auto log = [this](const std::string& line) { log_.write(Level::warning, line); };
    mirror_ = TRY(open_hub_mirror(mirrored, reading.options.registries, log));
    registry_mirror_ = open_registry_mirror(mirrored, reading.options.registries, log);
    object_mirror_ = open_object_mirror(mirrored, reading.options.registries, log);
    if (params_.sources.empty()) reading.label = mirrored.text();
    if (params_.takes_files && !opened_.tls)
      dropped_ = std::make_unique<DroppedFiles>(reading.options, options().model_files, TRY(random_secret()));
    begin(std::move(reading));
    start();
    wait_for_end();
    return end();
  }

 private:
  HttpOptions& options() { return params_.options; }

  Plan plan() {
    Plan plan = Plan::make(params_.sources, std::move(options().open_options), options().store_flags, warn_);
    plan.prefetch = options().prefetch;
    plan.flags.store.keeps_packed = true;  // a registry sends layers as they are stored
    return plan;
  }

  // The broker has its own copies of the paths.
  Result<void> start_broker() {
    if (!options().store_flags.sandbox) return {};
    broker_ = TRY(sandbox::Broker::start([this](const sandbox::Broker::Request& request) {
      if (request.letter == sandbox::Broker::kEnd) remove_sockets();
      if (request.letter == kOpenBrowser) open_in_browser(code_->url());
      return request.letter == sandbox::kOpenTemporaryFile ? sandbox::open_temporary_file(request.argument)
                                                           : sandbox::BrokerReply{EINVAL};
    }));
    return {};
  }

  Rights rights() {
    Rights rights{.broker = broker_.get()};
    rights.access.accepts = true;
    rights.access.watches = true;
    if (!options().assets.empty()) rights.access.files.read.push_back(absolute_source(options().assets));
    return rights;
  }

  void begin(Reading reading) {
    if (!reading.missing.empty())
      log_.write(Level::error, fmt::format("{}: {}", printable(reading.label), reading.missing));
    trees_ = std::move(reading.trees);
    prefetch_ = std::move(reading.prefetch);
    forest_ = std::make_unique<Forest>(std::move(reading.root));
    state_ = std::unique_ptr<ServerState>(new ServerState{.source = std::move(reading.label),
                                                          .sources = std::move(reading.sources),
                                                          .place = opened_.listening.front().url,
                                                          .store = std::move(reading.store),
                                                          .statistics = statistics_,
                                                          .log = log_,
                                                          .passthrough = nullptr,
                                                          .checksums = std::move(reading.checksums),
                                                          .sandbox = std::move(reading.sandbox),
                                                          .incomplete = SharedText(std::move(reading.missing))});
  }

  void start() {
    follower_ =
        std::make_unique<Follower>(*forest_, *trees_, FollowOptions{.log = warn_, .refresh_every = options().follow});
    background_ = std::make_unique<Prefetch>(*forest_, prefetch_);
    state_->path_of = [this](Ino ino) { return forest_->path(ino); };
    state_->follow_status = [this] { return follower_->status(); };
    forest_->add_unlisted(kStatusDirectory, status_tree(*state_, [this](TreeBuilder& builder) {
                            if (dropped_ != nullptr) dropped_->add_to(builder);
                          }));
    protocols_ =
        std::make_unique<Protocols>(*forest_, protocol_options(), [this]() -> const httpd::Site& { return *site_; });
    site_ = std::make_unique<httpd::Site>(*forest_, site_options());
    std::vector<Descriptor> sockets;
    std::vector<std::string> urls;
    for (Listening& each : opened_.listening) {
      sockets.push_back(std::move(each.socket));
      urls.push_back(each.url);
    }
    server_ = std::make_unique<httpd::Server>(std::move(sockets), server_options());
    follower_->start([](const Changes&) {});
    server_->start();
    signals_.start();
    background_->start();
    for (const std::string& url : urls)
      log_.write(Level::debug, fmt::format("serving {} at {}", printable(state_->source), url));
    if (params_.on_usable) params_.on_usable(*state_, urls, invitations(urls.front()));
    if (code_ != nullptr) show_page();
  }

  ProtocolOptions protocol_options() {
    ProtocolOptions protocols;
    protocols.source = state_->source;
    protocols.is_secure = opened_.tls.has_value();
    protocols.needs_token = !opened_.token.empty();
    protocols.takes_files = dropped_ != nullptr;
    if (!options().assets.empty()) protocols.assets = absolute_source(options().assets);
    protocols.s3_keys = std::move(opened_.s3_keys);
    protocols.digests = digest_keeper();
    protocols.mirror = mirror_;
    protocols.registry_mirror = registry_mirror_;
    protocols.object_mirror = object_mirror_;
    protocols.is_mirror_only = params_.sources.empty();
    protocols.url_of = [this](const std::string& path) { return url_of(path); };
    return protocols;
  }

  std::vector<std::string> invitations(const std::string& url) {
    const bool is_wanted = url.starts_with("http") && log_.is_enabled(Level::info);
    return is_wanted ? protocols_->invitations(url) : std::vector<std::string>();
  }

  digests::Keeper digest_keeper() {
    return {[store = state_->store](const std::string& key) { return store->load_text(key); },
            [store = state_->store](const std::string& key, std::string_view text) { store->save_text(key, text); },
            [this](const std::string& line) { log_.write(Level::info, line); }};
  }

  Result<void> make_code() {
    code_ = std::make_unique<OpenCode>(opened_.listening.front().url, TRY(random_secret()), params_.token);
    return {};
  }

  void show_page() {
    code_->start();
    if (broker_ == nullptr)
      open_in_browser(code_->url());
    else if (const auto asked = broker_->ask(kOpenBrowser); !asked)
      log_.write(Level::warning, asked.error().message);
  }

  // The URL of a path of the tree, without the host; with a ticket if a token is needed.
  std::string url_of(const std::string& path) const {
    std::vector<std::string> segments;
    std::string url;
    for (size_t begin = 0; begin <= path.size();) {
      const size_t end = std::min(path.find('/', begin), path.size());
      segments.push_back(path.substr(begin, end - begin));
      url += "/" + httpd::url_segment(segments.back());
      begin = end + 1;
    }
    const std::string ticket = httpd::ticket_of(rules_, segments);
    return ticket.empty() ? url : url + "?ticket=" + ticket;
  }

  bool is_for_code(const httpd::Target& target) const { return code_ != nullptr && OpenCode::is_for(target); }

  httpd::SiteOptions site_options() {
    httpd::SiteOptions site;
    rules_ = access_rules(options(), opened_);
    site.access = rules_;
    site.is_public = [this](const httpd::Request& request, const httpd::Target& target) {
      return protocols_->is_public(request, target) || is_for_code(target);
    };
    site.answer_first = [this](const httpd::Request& request, const httpd::Target& target,
                               const httpd::Client& client) {
      if (is_for_code(target)) return std::optional(code_->answer(request, target, client));
      if (dropped_ != nullptr && DroppedFiles::is_for(target)) return std::optional(dropped_->accept(request));
      return protocols_->answer(request, target, client);
    };
    site.refuse_first = [this](const httpd::Refusal& refusal, const httpd::Request& request) {
      return protocols_->refuse(refusal, request);
    };
    site.max_body = Protocols::max_body;
    site.layout = WEIGHTFS_VERSION;
    site.prefetch = background_.get();
    site.suggest = [this](const std::string& path) { return suggestion(path); };
    site.on_failed = [this](Ino ino, const Error& error) { failed(ino, error); };
    site.on_used = [this] { statistics_.used(); };
    return site;
  }

  httpd::ServerOptions server_options() {
    httpd::ServerOptions server;
    server.answer = [this](const httpd::Request& request, const httpd::Client& client) {
      return site_->answer(request, client);
    };
    server.refuse = [this](const httpd::Refusal& refusal, const httpd::Request* request) {
      return site_->refuse(refusal, request);
    };
    server.max_body = [this](const httpd::Request& request) { return site_->max_body(request); };
    server.on_request = [this] { statistics_.begin(); };
    server.on_answered = [this](const httpd::Answered& answered) { count(answered); };
    server.tls = opened_.tls;
    return server;
  }

  void count(const httpd::Answered& answered) {
    const bool has_failed = answered.status >= 500 || !answered.error.message.empty();
    statistics_.add_bytes_read(answered.bytes);
    if (answered.failed)
      failed(*answered.failed, answered.error);
    else if (!answered.error.message.empty())
      log_.write_once(Level::warning, answered.error.message);
    if (opened_.access_log != nullptr) opened_.access_log->write(answered);
    statistics_.end(operation_of(answered.request), answered.took, has_failed);
  }

  void failed(Ino ino, const Error& error) {
    if (error.code != Code::not_found) log_.write_once(Level::warning, error.message);
    const bool may_have_changed = error.code == Code::io || error.code == Code::absent || is_about_the_bytes(error);
    if (may_have_changed) follower_->check(ino, error);
  }

  // The path of a tensor that was named without its directory, or names like the last one of the path.
  std::string suggestion(const std::string& path) {
    // For a directory of models this would read them.
    const bool is_model = forest_->model_of(Forest::kRoot) != nullptr;
    const auto tensor = is_model ? resolve_typed(*forest_, {"cat", state_->source, path}, Forest::FinalLink::followed)
                                 : Result<Ino>(failure(Code::not_found, ""));
    if (tensor) return fmt::format("; did you mean /{}?", printable(forest_->path(*tensor)));
    const size_t slash = path.rfind('/');
    const std::string above = slash == path.npos ? "" : path.substr(0, slash);
    const auto directory = forest_->resolve(above, Forest::FinalLink::followed);
    const auto all = directory ? forest_->list(*directory) : tl::unexpected(directory.error());
    if (!all || all->count > kMaxSuggested) return {};
    std::vector<std::string> names;
    for (uint32_t i = 0; i < all->count; ++i) names.push_back(all->tree->node(all->first + i).name());
    return did_you_mean(path.substr(slash == path.npos ? 0 : slash + 1), names);
  }

  void wait_for_end() {
    for (;;) {
      const auto signal = signals_.wait(std::chrono::seconds(1), options().until_eof ? STDIN_FILENO : -1);
      if (signal == SIGINT || signal == SIGTERM) return;
      if (options().until_eof && has_input_ended()) return;
      if (signal == SIGHUP) follower_->refresh();
      if (signal == SIGUSR1)
        for (const std::string& line : statistics_of(*state_)) log_.write_always(line);
      server_->tick();
      give_back_memory();
      if (params_.on_tick) params_.on_tick(*state_);
      const auto idle = options().idle_timeout;
      if (idle.count() > 0 && server_->status().connections == 0 && statistics_.idle_time() > idle) return;
    }
  }

  Exit end() {
    if (params_.on_end) params_.on_end();
    protocols_->stop();
    const bool has_ended = server_->stop(kShutdown, [this] {
      background_->stop();
      state_->store->stop();
      if (dropped_ != nullptr) dropped_->stop();
    });
    follower_->stop();
    if (broker_ == nullptr) remove_sockets();
    log_.write(Level::info, summary());
    if (!has_ended || !follower_->has_ended(kShutdown) || !protocols_->has_ended(kShutdown)) {
      log_.write(Level::error, fmt::format("{}: a source is not responding", printable(state_->source)));
      std::_Exit(static_cast<int>(Exit::ok));
    }
    return Exit::ok;
  }

  void remove_sockets() const {
    for (const Listening& each : opened_.listening) remove_socket(each);
  }

  std::string summary() const {
    uint64_t requests = 0;
    uint64_t failed = 0;
    for (size_t i = 0; i < kOperations.size(); ++i) {
      const auto stats = statistics_.stats(i);
      requests += stats.took.count();
      failed += stats.errors;
    }
    std::string text =
        fmt::format("{}, {}, {}", counted(requests, "request", "requests"), human_size(statistics_.bytes()),
                    counted(server_->status().accepted, "connection", "connections"));
    if (failed > 0) text += fmt::format(", {} failed", failed);
    return text;
  }

  HttpParams params_;
  Opened opened_;
  SignalPipe& signals_;
  Log& log_;
  std::function<void(const std::string&)> warn_;
  PrefetchOptions prefetch_;
  std::unique_ptr<sandbox::Broker> broker_;
  std::unique_ptr<SourceTrees> trees_;
  RequestStatistics statistics_{kOperations};
  std::unique_ptr<DroppedFiles> dropped_;  // null if the page takes none
  std::unique_ptr<Forest> forest_;
  std::unique_ptr<ServerState> state_;
  std::unique_ptr<Follower> follower_;
  std::unique_ptr<Prefetch> background_;
  httpd::AccessRules rules_;
  std::unique_ptr<OpenCode> code_;                         // for the browser
  std::shared_ptr<hub::Mirror> mirror_;                    // null if there is none
  std::shared_ptr<distribution::Mirror> registry_mirror_;  // the same
  std::shared_ptr<objects::Mirror> object_mirror_;         // the same
  std::unique_ptr<Protocols> protocols_;
  std::unique_ptr<httpd::Site> site_;
  std::unique_ptr<httpd::Server> server_;
};

}  // namespace

Exit serve_http(HttpParams params, Log& log) {
  save_memory();
  auto signals = SignalPipe::open();
  auto opened = signals ? open_all(params) : tl::unexpected(signals.error());
  if (!opened) {
    log.write(Level::error, opened.error().message);
    return opened.error().code == Code::unsupported ? Exit::usage : exit_of(opened.error().code);
  }
  HttpServing serving(std::move(params), std::move(*opened), *signals, log);
  const auto served = serving.run();
  if (served) return *served;
  log.write(Level::error, served.error().message);
  return exit_of(served.error().code);
}

}  // namespace weightfs
