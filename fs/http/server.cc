#include "fs/http/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <string_view>
#include <system_error>
#include <utility>

#include "fs/http/session.h"

namespace weightfs::httpd {
namespace {

// The address of a client; IPv4 in an IPv6 address as IPv4.
Client client_of(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return {text.data(), ntohl(v4.sin_addr.s_addr) >> 24 == 127, {}, ntohs(v4.sin_port)};
  }
  if (address.ss_family != AF_INET6) return {"unix", true};
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  const uint16_t port = ntohs(v6.sin6_port);
  if (!IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return {text.data(), IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0, {}, port};
  const std::string mapped = std::string_view(text.data()).substr(std::string_view("::ffff:").size()).data();
  return {mapped, v6.sin6_addr.s6_addr[12] == 127, {}, port};
}

void reject(const Descriptor& socket) {
  constexpr std::string_view kBusy =
      "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  ::send(socket.number(), kBusy.data(), kBusy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

struct Server::Listener {
  Descriptor socket;
};

Server::Server(std::vector<Descriptor> listeners, ServerOptions options)
    : options_(std::move(options)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      workers_([this] { return next(); }, [this](void* what) { run(what); }) {
  if (!epoll_ || !wake_) throw std::system_error(errno, std::generic_category());
  for (Descriptor& socket : listeners) listeners_.push_back(std::make_unique<Listener>(Listener{std::move(socket)}));
}

Server::~Server() {
  stop(std::chrono::milliseconds(0), [] {});
}

void Server::start() {
  // Not one-shot: every worker sees it.
  epoll_event woken{EPOLLIN, {.ptr = nullptr}};
  ::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, wake_.number(), &woken);
  for (const auto& listener : listeners_)
    if (!watch(listener->socket.number(), listener.get(), EPOLLIN, true))
      throw std::system_error(errno, std::generic_category());
  workers_.start();
}

bool Server::watch(int descriptor, void* what, uint32_t events, bool is_new) {
  epoll_event event{events | EPOLLONESHOT, {.ptr = what}};
  return ::epoll_ctl(epoll_.number(), is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, descriptor, &event) == 0;
}

// Null when the server stops.
void* Server::next() const {
  for (;;) {
    epoll_event event{};
    const int count = ::epoll_wait(epoll_.number(), &event, 1, -1);
    if (count > 0) return event.data.ptr;
    if (count < 0 && errno != EINTR) return nullptr;
  }
}

void Server::run(void* what) {
  const auto listener = std::ranges::find(listeners_, what, [](const auto& each) -> void* { return each.get(); });
  if (listener != listeners_.end()) return accept_from(**listener);
  Session& session = *static_cast<Session*>(what);
  Wait wait = Wait::closed;
  try {
    wait = session.proceed();
  } catch (const std::exception&) {
    session.abort();  // out of memory
  }
  const bool goes_on =
      wait != Wait::closed && watch(session.socket(), &session, wait == Wait::writable ? EPOLLOUT : EPOLLIN, false);
  if (!goes_on) remove(session);
}

void Server::accept_from(Listener& listener) {
  constexpr int kAtOnce = 32;
  for (int i = 0; i < kAtOnce; ++i) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    Descriptor socket(::accept4(listener.socket.number(), reinterpret_cast<sockaddr*>(&address), &size,
                                SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      // Without a free descriptor the connection stays where it is, and would be found again at once.
      constexpr int kPauseMs = 50;
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) ::poll(nullptr, 0, kPauseMs);
      break;
    }
    // Small responses are written at once.
    if (const int yes = 1; address.ss_family != AF_UNIX)
      ::setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    try {
      add(std::move(socket), client_of(address));
    } catch (const std::exception&) {
      ++rejected_;  // out of memory
    }
  }
  if (!is_stopping_) watch(listener.socket.number(), &listener, EPOLLIN, false);
}

void Server::add(Descriptor socket, Client client) {
  Session* added = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    size_t& of_address = per_address_[client.address];
    const bool is_too_many =
        sessions_.size() >= options_.max_connections || (!client.is_loopback && of_address >= options_.max_per_address);
    if (is_too_many || is_stopping_) {
      if (of_address == 0) per_address_.erase(client.address);
      ++rejected_;
      return reject(socket);
    }
    auto session = std::make_unique<Session>(std::move(socket), std::move(client), options_, is_stopping_, workers_);
    added = session.get();
    sessions_.emplace(added, std::move(session));
    ++of_address;
    ++accepted_;
  }
  if (!watch(added->socket(), added, EPOLLIN, true)) remove(*added);
}

void Server::remove(Session& session) {
  std::unique_ptr<Session> removed;  // destroyed after the lock is released
  const std::scoped_lock lock(mutex_);
  const auto of_address = per_address_.find(session.client().address);
  if (of_address != per_address_.end() && --of_address->second == 0) per_address_.erase(of_address);
  const auto found = sessions_.find(&session);
  removed = std::move(found->second);
  sessions_.erase(found);
  changed_.notify_all();
}

void Server::tick() {
  const auto now = Clock::now();
  const std::scoped_lock lock(mutex_);
  for (const auto& [session, owned] : sessions_) session->expire(now, is_stopping_);
}

bool Server::stop(std::chrono::milliseconds within, const std::function<void()>& cancel) {
  is_stopping_ = true;
  for (const auto& listener : listeners_)
    ::epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, listener->socket.number(), nullptr);
  std::unique_lock lock(mutex_);
  const auto until = Clock::now() + within;
  while (!sessions_.empty() && Clock::now() < until) {
    for (const auto& [session, owned] : sessions_) session->expire(Clock::now(), true);
    changed_.wait_for(lock, std::chrono::milliseconds(50));
  }
  lock.unlock();
  cancel();
  ::eventfd_write(wake_.number(), 1);
  if (!workers_.end(within)) return false;
  sessions_.clear();
  return true;
}

Server::Status Server::status() const {
  const std::scoped_lock lock(mutex_);
  return {sessions_.size(), accepted_, rejected_, workers_.count()};
}

}  // namespace weightfs::httpd
