// The network of a process that has none: the fetcher, another process, sends its requests. The process that reads
// containers then has no sockets to the world, and neither keys nor tokens (docs/security.md). A request names its
// credentials, and the fetcher decides whether it is sent.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "base/os/descriptor.h"
#include "base/result.h"
#include "cache/http/client.h"

namespace weightfs::fetcher {

/// Thread-safe.
class FetchedClient final : public http::Client {
 public:
  /// `socket` (SOCK_SEQPACKET) leads to serve_requests() in the fetcher, whose client has the same options.
  /// `process` is destroyed after the socket is closed.
  FetchedClient(http::Options options, Descriptor socket, std::shared_ptr<const void> process = nullptr)
      : Client(std::move(options)), process_(std::move(process)), socket_(std::move(socket)) {}

  /// Fails with io if the fetcher has ended, too.
  Result<void> perform(const http::Request& request, const http::ResponseHandler& handler,
                       const std::stop_token& stop) override;
  /// Reads nothing: the fetcher has them.
  Result<http::CredentialsPtr> credentials(const http::CredentialsName& name) override;

 private:
  Error lost();
  Result<Descriptor> ask(const http::Request& request, const std::stop_token& stop);

  const std::shared_ptr<const void> process_;
  const Descriptor socket_;
};

/// A request and the name of its credentials; `request.credentials` is null.
struct Asked {
  http::Request request;
  http::CredentialsName credentials = {};
  std::chrono::milliseconds patience{};  ///< Client::patience(), also for the requests for tokens
};

/// How an admitted request is sent.
struct Admitted {
  http::CredentialsPtr credentials = nullptr;  ///< null: without
  bool public_only = false;                    ///< to public addresses, whatever was asked
};

/// Decides which requests are sent. Thread-safe.
class Gate {
 public:
  virtual ~Gate() = default;
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Fails with forbidden if a request must not be sent, and as Keyring::find().
  virtual Result<Admitted> admit(const Asked& asked) = 0;
  /// An admitted request was redirected: the final URL may be requested by itself from now on.
  virtual void note_redirect(const Asked& asked, const http::Response& response) = 0;
};

inline constexpr size_t kMaxRequests = 256;  ///< at once; others wait

/// Sends the requests that arrive on `socket` with `client`, each in a thread, until the other end is closed. When
/// `parent`, a pidfd, is readable, this process ends at once; -1: it is not watched.
void serve_requests(int socket, const http::ClientPtr& client, Gate& gate, int parent = -1);

}  // namespace weightfs::fetcher
