// A connection of a client: its socket, TLS if that is used, and what has been received.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/files/leaf.h"
#include "base/os/descriptor.h"
#include "base/result.h"
#include "base/source.h"

struct ssl_ctx_st;
struct ssl_st;

namespace weightfs::httpd {

/// The certificate and key of a server, for TLS 1.2 and 1.3.
class Tls {
 public:
  /// Reads PEM files: the certificate with its chain, and its key. Fails with not_found, or with unsupported if they
  /// are not valid or do not belong together.
  static Result<Tls> load(const std::string& certificate, const std::string& key);

  ssl_ctx_st* context() const { return context_.get(); }

 private:
  explicit Tls(std::shared_ptr<ssl_ctx_st> context) : context_(std::move(context)) {}
  std::shared_ptr<ssl_ctx_st> context_;
};

/// What a transfer of bytes waits for.
enum class Wait { nothing, readable, writable, closed };

/// The number of bytes that were transferred, and what must happen before more can be.
struct Moved {
  size_t bytes = 0;
  Wait wait = Wait::nothing;
};

/// A socket that never blocks. Used by one thread at a time.
class Transport {
 public:
  /// `tls` may be null.
  Transport(Descriptor socket, const Tls* tls);
  ~Transport();

  int socket() const { return socket_.number(); }
  bool is_encrypted() const { return ssl_ != nullptr; }

  Moved read(std::span<std::byte> out);
  /// `more`: other bytes follow at once, so a small packet is not worth sending.
  Moved write(std::span<const std::byte> bytes, bool more);
  /// Sends bytes of a file by sendfile(2); not with TLS. Nothing if the file system does not permit that, or the file
  /// cannot be read: a read has the reason.
  std::optional<Moved> send_file(const Extent& extent, uint64_t offset, size_t size);
  /// Sends the end of the stream. The client's bytes can still be read.
  void end_writing();
  /// The connection is reset when it is closed, so that the client cannot take what it has received for complete.
  void reset_on_close();

 private:
  Moved after_tls(int result);

  Descriptor socket_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;
  bool has_failed_ = false;  // TLS: no more calls are permitted
};

}  // namespace weightfs::httpd
