#include "fs/http/connection.h"

#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace weightfs::httpd {
namespace {

Moved after_call(ssize_t result, Wait would_block) {
  if (result > 0) return {static_cast<size_t>(result), Wait::nothing};
  if (result == 0) return {0, Wait::closed};
  if (errno == EINTR) return {};
  return {0, errno == EAGAIN || errno == EWOULDBLOCK ? would_block : Wait::closed};
}

std::string tls_error() {
  const char* const reason = ::ERR_reason_error_string(::ERR_peek_last_error());
  ::ERR_clear_error();
  return reason == nullptr ? "unknown error" : reason;
}

}  // namespace

Result<Tls> Tls::load(const std::string& certificate, const std::string& key) {
  for (const std::string& path : {certificate, key})
    if (::access(path.c_str(), R_OK) != 0) return failure(Code::not_found, fmt::format("{}: cannot be read", path));
  const std::shared_ptr<ssl_ctx_st> context(::SSL_CTX_new(::TLS_server_method()), ::SSL_CTX_free);
  if (context == nullptr) return failure(Code::resource, "TLS: out of memory");
  ::SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  ::SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  ::SSL_CTX_set_mode(context.get(),
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  if (::SSL_CTX_use_certificate_chain_file(context.get(), certificate.c_str()) != 1)
    return failure(Code::unsupported, fmt::format("{}: not a valid certificate: {}", certificate, tls_error()));
  if (::SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) != 1)
    return failure(Code::unsupported, fmt::format("{}: not the key of the certificate: {}", key, tls_error()));
  return Tls(context);
}

Transport::Transport(Descriptor socket, const Tls* tls) : socket_(std::move(socket)), ssl_(nullptr, ::SSL_free) {
  if (tls == nullptr) return;
  ssl_.reset(::SSL_new(tls->context()));
  if (ssl_ == nullptr || ::SSL_set_fd(ssl_.get(), socket_.number()) != 1) throw std::bad_alloc();
  ::SSL_set_accept_state(ssl_.get());
}

Transport::~Transport() = default;

Moved Transport::after_tls(int result) {
  if (result > 0) return {static_cast<size_t>(result), Wait::nothing};
  const int error = ::SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_READ) return {0, Wait::readable};
  if (error == SSL_ERROR_WANT_WRITE) return {0, Wait::writable};
  has_failed_ = true;
  return {0, Wait::closed};
}

// The queue of errors belongs to the thread, so it must be empty before each call.
Moved Transport::read(std::span<std::byte> out) {
  if (has_failed_) return {0, Wait::closed};
  if (ssl_ != nullptr) {
    ::ERR_clear_error();
    return after_tls(::SSL_read(ssl_.get(), out.data(), static_cast<int>(out.size())));
  }
  return after_call(::recv(socket(), out.data(), out.size(), 0), Wait::readable);
}

Moved Transport::write(std::span<const std::byte> bytes, bool more) {
  if (has_failed_) return {0, Wait::closed};
  if (ssl_ != nullptr) {
    ::ERR_clear_error();
    return after_tls(::SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())));
  }
  return after_call(::send(socket(), bytes.data(), bytes.size(), MSG_NOSIGNAL | (more ? MSG_MORE : 0)), Wait::writable);
}

std::optional<Moved> Transport::send_file(const Extent& extent, uint64_t offset, size_t size) {
  auto at = static_cast<off_t>(extent.offset + offset);
  const ssize_t sent = ::sendfile(socket(), extent.fd, &at, size);
  const bool is_of_the_socket =
      errno == EAGAIN || errno == EINTR || errno == EPIPE || errno == ECONNRESET || errno == ETIMEDOUT;
  if (sent == 0 || (sent < 0 && !is_of_the_socket)) return std::nullopt;
  return after_call(sent, Wait::writable);
}

void Transport::end_writing() {
  if (ssl_ != nullptr && !has_failed_) {
    ::ERR_clear_error();
    ::SSL_shutdown(ssl_.get());
  }
  ::shutdown(socket(), SHUT_WR);
}

void Transport::reset_on_close() {
  const linger at_once{1, 0};
  ::setsockopt(socket(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

}  // namespace weightfs::httpd
