#include "cache/http/exchange.h"

#include <curl/curl.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <new>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/os/system_error.h"
#include "base/text.h"
#include "cache/address_policy.h"
#include "cache/certificates.h"
#include "cache/http/error_text.h"
#include "cache/http/proxy.h"
#include "cache/http/transfer_errors.h"

namespace weightfs::http {

struct CurlHandle {
  CurlHandle() : easy(curl_easy_init()), multi(curl_multi_init()) {
    if (easy == nullptr || multi == nullptr) throw std::bad_alloc();
  }
  ~CurlHandle() {
    curl_easy_cleanup(easy);
    curl_multi_cleanup(multi);
  }
  CurlHandle(const CurlHandle&) = delete;
  CurlHandle& operator=(const CurlHandle&) = delete;

  CURL* easy;
  CURLM* multi;
};

CurlHandlePtr new_curl_handle() {
  [[maybe_unused]] static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  return std::make_shared<CurlHandle>();
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxHeaders = 256 * 1024;
// The body of a redirect, challenge or refusal is read that far, to reuse the connection.
constexpr size_t kMaxUnread = 64 * 1024;

// The buffer of an exchange, in bytes; there may be 64 of them. One of 512 KiB was slower by a tenth.
constexpr long kBuffer = 64 * 1024;
constexpr int kStopPollMs = 100;              // ms
constexpr std::chrono::seconds kWaitNews{1};  // between calls of on_wait

using HeaderList = std::unique_ptr<curl_slist, decltype([](curl_slist* list) { curl_slist_free_all(list); })>;

Result<void> add(HeaderList& list, const std::string& header) {
  if (std::any_of(header.begin(), header.end(), [](char c) { return c == '\r' || c == '\n' || c == '\0'; }))
    return failure(Code::corrupt,
                   fmt::format("line break in request header {}", quoted(header.substr(0, header.find(':')))));
  curl_slist* const longer = curl_slist_append(list.get(), header.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  static_cast<void>(list.release());
  list.reset(longer);
  return {};
}

template <class Set>
void set_method(const Request& request, const Set& set) {
  set(CURLOPT_NOBODY, request.method == Request::Method::head ? 1L : 0L);
  if (request.method == Request::Method::put) set(CURLOPT_CUSTOMREQUEST, "PUT");
  if (request.method == Request::Method::post) set(CURLOPT_POSTFIELDS, request.body.c_str());  // without a NUL
}

template <class Set>
void set_certificates(const Url& url, const Proxy& proxy, const ExchangeRequest& request, const Set& set) {
  if (url.scheme == "https" || proxy.url.starts_with("https:")) {
    const auto name_of = [](const std::string& path) { return path.empty() ? nullptr : path.c_str(); };
    const Certificates system = Certificates::find();
    const Certificates& trusted = request.certificates.empty() ? system : request.certificates;
    set(CURLOPT_CAINFO, name_of(trusted.file));
    set(CURLOPT_CAPATH, name_of(trusted.directory));
    set(CURLOPT_PROXY_CAINFO, name_of(system.file));
    set(CURLOPT_PROXY_CAPATH, name_of(system.directory));
  }
  if (const std::string* const pem = request.client_certificate; pem != nullptr) {  // outlives the transfer
    curl_blob blob{const_cast<char*>(pem->data()), pem->size(), CURL_BLOB_NOCOPY};
    set(CURLOPT_SSLCERT_BLOB, &blob);
    set(CURLOPT_SSLKEY_BLOB, &blob);
  }
}

class HttpExchange {
 public:
  explicit HttpExchange(const ExchangeRequest& request)
      : request_(request), url_(request.url), policy_(request.policy) {
    if (request.request.purpose != Purpose::metadata) proxy_ = proxy_of(url_.scheme, url_.host);
  }

  Result<ExchangeResult> run(CurlHandle& handle, const std::stop_token& stop);

 private:
  static HttpExchange& of(void* self) { return *static_cast<HttpExchange*>(self); }
  static size_t on_header(char* bytes, size_t, size_t count, void* self);
  static size_t on_body(char* bytes, size_t, size_t count, void* self);
  static curl_socket_t on_socket(void* self, curlsocktype, curl_sockaddr* address);
  static int on_connected(void* self, char* remote, char*, int, int);

  // Exceptions must not pass through libcurl.
  template <class Work>
  bool run_callback(Work work) {
    try {
      Result<void> done = work();
      if (!done) failed_ = std::move(done).error();
    } catch (const std::bad_alloc&) {
      failed_ = Error{Code::resource, "out of memory"};
    }
    last_activity_ = Clock::now();
    return !failed_;
  }

  Result<void> check_literal_address();
  Result<void> configure(CurlHandle& handle);
  Result<void> on_header_line(std::string_view line);
  bool has_body() const;
  ExchangeResult::Kind kind_of_response() const;
  Result<void> end_of_headers();
  Result<void> on_body_bytes(std::span<const char> bytes);
  Result<void> wait_for_rate(size_t bytes);
  Result<CURLcode> transfer(CurlHandle& handle, const std::stop_token& stop);
  Result<void> check_timeouts(CURL* easy);
  void poll(CURLM* multi);
  Error error_of(CURL* easy, CURLcode code) const;
  Error proxy_refusal(int status) const;
  Error timed_out(const std::string& text, Code code = Code::network) const {
    return timeout(fmt::format("{}: {}", printable_url(url_.text), text), code);
  }
  Error error(const Error& why) const { return error(why.code, why.message); }
  Error error(Code code, const std::string& text) const {
    return {code, fmt::format("{}: {}", printable_url(url_.text), text)};
  }

  using Kind = ExchangeResult::Kind;

  const ExchangeRequest& request_;
  const Url& url_;
  const AddressPolicy& policy_;
  Proxy proxy_;
  HeaderList headers_;
  CURL* easy_ = nullptr;
  std::stop_token stop_;
  std::array<char, CURL_ERROR_SIZE> text_{};

  std::optional<Kind> kind_;  // after the headers
  Response response_;
  size_t header_bytes_ = 0;
  std::string body_;
  size_t skipped_ = 0;
  bool has_new_bytes_ = false;  // since the last on_wait
  bool is_public_ = false;
  std::string refusal_;
  std::optional<Error> failed_;
  bool connected_ = false;
  curl_off_t arrived_ = 0;
  Clock::time_point last_activity_ = Clock::now();
  Clock::duration network_time_{};  // waiting for the network since the last speed check
  uint64_t speed_mark_ = 0;         // received bytes with headers at the last speed check
};

size_t HttpExchange::on_header(char* bytes, size_t, size_t count, void* self) {
  HttpExchange& exchange = of(self);
  return exchange.run_callback([&] { return exchange.on_header_line({bytes, count}); }) ? count : 0;
}

size_t HttpExchange::on_body(char* bytes, size_t, size_t count, void* self) {
  HttpExchange& exchange = of(self);
  return exchange.run_callback([&] { return exchange.on_body_bytes({bytes, count}); }) ? count : 0;
}

// Called for each resolved address, so DNS cannot change between check and connection.
curl_socket_t HttpExchange::on_socket(void* self, curlsocktype, curl_sockaddr* address) {
  HttpExchange& exchange = of(self);
  std::string forbidden;
  const bool known = exchange.run_callback([&]() -> Result<void> {
    if (exchange.proxy_.url.empty()) forbidden = exchange.policy_.refusal(address_of(address->addr));
    if (!forbidden.empty()) exchange.refusal_ = forbidden;
    return {};
  });
  if (!known || !forbidden.empty()) return CURL_SOCKET_BAD;
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// A reused connection did not pass on_socket() for this request.
int HttpExchange::on_connected(void* self, char* remote, char*, int, int) {
  HttpExchange& exchange = of(self);
  exchange.connected_ = true;
  const bool allowed = exchange.run_callback([&]() -> Result<void> {
    const auto address = literal_address(exchange.proxy_.url.empty() ? remote : exchange.url_.host);
    exchange.is_public_ = address ? special_use(*address).empty() : !exchange.proxy_.url.empty();
    // Through a proxy, literals were checked before.
    exchange.refusal_ = exchange.proxy_.url.empty() ? exchange.policy_.refusal(address) : "";
    if (!exchange.refusal_.empty()) return tl::unexpected(exchange.error(Code::forbidden, exchange.refusal_));
    return {};
  });
  return allowed ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

Result<void> HttpExchange::on_header_line(std::string_view line) {
  header_bytes_ += line.size();
  if (header_bytes_ > kMaxHeaders)
    return tl::unexpected(
        error(Code::corrupt, fmt::format("more than {} of response headers", human_size(kMaxHeaders))));
  if (kind_) return {};  // a trailer
  if (line.substr(0, 5) == "HTTP/") {
    const std::string_view status = trimmed(line.substr(std::min(line.find(' '), line.size())));
    response_ = Response{0, {}, url_.text, is_public_};
    std::from_chars(status.data(), status.data() + status.size(), response_.status);
    // A range of an encoded body cannot be decoded.
    const bool is_decoded = request_.is_decoded && response_.status != 206;
    curl_easy_setopt(easy_, CURLOPT_HTTP_CONTENT_DECODING, is_decoded ? 1L : 0L);
    return {};
  }
  const std::string_view text = trimmed(line);
  if (text.empty()) return end_of_headers();
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos)
    response_.headers.emplace_back(lower_case(trimmed(text.substr(0, colon))),
                                   std::string(trimmed(text.substr(colon + 1))));
  return {};
}

// Whether libcurl may decode a body.
bool HttpExchange::has_body() const {
  return response_.status != 206 && request_.request.method != Request::Method::head;
}

ExchangeResult::Kind HttpExchange::kind_of_response() const {
  constexpr std::array kRedirects = {301, 302, 303, 307, 308};
  const int status = response_.status;
  if (status == 401 && request_.may_be_challenged && !response_.header("www-authenticate").empty())
    return Kind::challenge;
  const bool moved = std::find(kRedirects.begin(), kRedirects.end(), status) != kRedirects.end();
  if (moved && !response_.header("location").empty()) return Kind::redirect;
  if ((status == 400 || status == 401 || status == 403) && request_.may_be_refused) return Kind::refusal;
  return request_.is_decoded && has_body() && response_.has_unknown_coding() ? Kind::not_encoded : Kind::final;
}

Result<void> HttpExchange::end_of_headers() {
  if (response_.status < 200) return {};
  if (response_.status == 407 && !proxy_.url.empty()) return tl::unexpected(proxy_refusal(407));
  kind_ = kind_of_response();
  if (kind_ == Kind::final && !request_.is_decoded && has_body() && response_.is_encoded())
    return tl::unexpected(error(Code::corrupt, "the content encoding has changed"));
  return kind_ == Kind::final ? request_.handler.on_response(response_) : Result<void>();
}

// The server is slowed down by what it cannot send meanwhile.
Result<void> HttpExchange::wait_for_rate(size_t bytes) {
  if (request_.rate == nullptr) return {};
  auto told = Clock::now();
  const auto until = told + request_.rate->reserve(bytes, told);
  for (auto now = told; now < until; now = Clock::now()) {
    if (stop_.stop_requested()) return tl::unexpected(error(Code::network, "cancelled"));
    if (now >= request_.request.deadline) return tl::unexpected(timed_out("timed out"));
    if (now - told >= kWaitNews && kind_ == Kind::final && request_.handler.on_wait) {
      TRY_VOID(request_.handler.on_wait());
      told = now;
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(until - now, std::chrono::milliseconds(kStopPollMs)));
  }
  return {};
}

Result<void> HttpExchange::on_body_bytes(std::span<const char> bytes) {
  TRY_VOID(wait_for_rate(bytes.size()));
  if (kind_ == Kind::final) {
    has_new_bytes_ = true;
    return request_.handler.on_body(std::as_bytes(bytes));
  }
  skipped_ += bytes.size();
  if (skipped_ > kMaxUnread)
    return failure(Code::corrupt, fmt::format("response body too large: more than {}", human_size(kMaxUnread)));
  if (kind_ != Kind::redirect) body_.append(bytes.data(), bytes.size());
  return {};
}

// Address literals are refused without DNS. Through a proxy, only the proxy resolves names.
Result<void> HttpExchange::check_literal_address() {
  const auto address = literal_address(url_.host);
  if (!address && policy_.loopback_only && !proxy_.url.empty())
    return tl::unexpected(error(Code::forbidden, "plain http through a proxy refused; use https or --insecure"));
  const std::string forbidden = address ? policy_.refusal(address) : "";
  if (!forbidden.empty()) return tl::unexpected(error(Code::forbidden, forbidden));
  return {};
}

Result<void> HttpExchange::configure(CurlHandle& handle) {
  for (const std::string& header : request_.request.headers) TRY_VOID(add(headers_, header));
  for (const std::string& header : request_.credential_headers) TRY_VOID(add(headers_, header));
  bool ok = true;
  const auto set = [&](CURLoption option, auto value) {
    ok = ok && curl_easy_setopt(handle.easy, option, value) == CURLE_OK;
  };
  const long connect_timeout = static_cast<long>(request_.options.connect_timeout.count());
  curl_easy_reset(handle.easy);
  const std::string& query = request_.secret_query;
  const char* const before_query = query.empty() ? "" : url_.text.find('?') == url_.text.npos ? "?" : "&";
  set(CURLOPT_URL, (url_.text + before_query + query).c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_2TLS});
  set(CURLOPT_SSLVERSION, long{CURL_SSLVERSION_TLSv1_2});
  set(CURLOPT_PROXY, proxy_.url.c_str());
  set(CURLOPT_NOPROXY, "");  // already applied
  set_certificates(url_, proxy_, request_, set);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_QUICK_EXIT, 1L);  // do not wait for a DNS timeout after cancellation
  set(CURLOPT_CONNECTTIMEOUT_MS, connect_timeout);
  set(CURLOPT_BUFFERSIZE, kBuffer);
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_USERAGENT, request_.options.user_agent.c_str());
  // Any value makes libcurl decode the body; "" requests all supported encodings.
  set(CURLOPT_ACCEPT_ENCODING, request_.request.encoded ? "" : "identity");
  set(CURLOPT_HTTPHEADER, headers_.get());
  set_method(request_.request, set);
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_ERRORBUFFER, text_.data());
  set(CURLOPT_HEADERFUNCTION, &HttpExchange::on_header);
  set(CURLOPT_HEADERDATA, this);
  set(CURLOPT_WRITEFUNCTION, &HttpExchange::on_body);
  set(CURLOPT_WRITEDATA, this);
  set(CURLOPT_OPENSOCKETFUNCTION, &HttpExchange::on_socket);
  set(CURLOPT_OPENSOCKETDATA, this);
  set(CURLOPT_PREREQFUNCTION, &HttpExchange::on_connected);
  set(CURLOPT_PREREQDATA, this);
  if (!ok) return tl::unexpected(error(Code::unsupported, "this version of libcurl lacks required features"));
  return {};
}

Result<ExchangeResult> HttpExchange::run(CurlHandle& handle, const std::stop_token& stop) {
  TRY_VOID(check_literal_address());
  TRY_VOID(configure(handle));
  easy_ = handle.easy;
  stop_ = stop;
  if (curl_multi_add_handle(handle.multi, handle.easy) != CURLM_OK) throw std::bad_alloc();
  const auto code = transfer(handle, stop);
  curl_multi_remove_handle(handle.multi, handle.easy);
  if (!code) return tl::unexpected(code.error());
  // A body that was not read completely may end with an error.
  if (!kind_ || kind_ == Kind::final) {
    if (failed_) return tl::unexpected(std::move(*failed_));
    if (*code != CURLE_OK) return tl::unexpected(error_of(handle.easy, *code));
    if (!kind_) return tl::unexpected(error(Code::network, "truncated before the end of the headers"));
  }
  return ExchangeResult{*kind_, std::move(response_), std::move(body_)};
}

// libcurl's result; fails when the wait ended early.
Result<CURLcode> HttpExchange::transfer(CurlHandle& handle, const std::stop_token& stop) {
  last_activity_ = Clock::now();
  for (int running = 1;;) {
    if (curl_multi_perform(handle.multi, &running) != CURLM_OK) throw std::bad_alloc();
    int left = 0;
    if (const CURLMsg* const done = curl_multi_info_read(handle.multi, &left); done != nullptr)
      return done->data.result;
    if (stop.stop_requested()) return tl::unexpected(error(Code::network, "cancelled"));
    TRY_VOID(check_timeouts(handle.easy));
    if (std::exchange(has_new_bytes_, false) && request_.handler.on_wait && !run_callback(request_.handler.on_wait))
      return CURLE_WRITE_ERROR;
    poll(handle.multi);
  }
}

// Limits how long a slow server is waited for.
Result<void> HttpExchange::check_timeouts(CURL* easy) {
  const Options& options = request_.options;
  const auto now = Clock::now();
  if (now >= request_.request.deadline) return tl::unexpected(timed_out("timed out"));
  curl_off_t arrived = 0;
  curl_easy_getinfo(easy, CURLINFO_SIZE_DOWNLOAD_T, &arrived);
  // Until connected, the connect timeout applies.
  if (!connected_ || arrived != arrived_) last_activity_ = now;
  arrived_ = arrived;
  if (now - last_activity_ > options.stall_timeout)
    return tl::unexpected(timed_out(fmt::format("no data for {}", human_time(options.stall_timeout))));
  if (network_time_ < 2 * options.stall_timeout) return {};
  const uint64_t total_now = static_cast<uint64_t>(arrived_) + header_bytes_;
  const double speed =
      static_cast<double>(total_now - speed_mark_) / std::chrono::duration<double>(network_time_).count();
  if (speed < static_cast<double>(options.min_speed))
    return tl::unexpected(timed_out(
        fmt::format("slower than {}/s for {}", human_size(options.min_speed), human_time(2 * options.stall_timeout))));
  network_time_ = {};
  speed_mark_ = total_now;
  return {};
}

// The time before the response is limited by the stall timeout.
void HttpExchange::poll(CURLM* multi) {
  const auto started = Clock::now();
  curl_multi_poll(multi, nullptr, 0, kStopPollMs, nullptr);
  if (header_bytes_ > 0) network_time_ += Clock::now() - started;
}

Error HttpExchange::error_of(CURL* easy, CURLcode code) const {
  if (!refusal_.empty()) return error(Code::forbidden, refusal_);
  long number = 0;
  curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &number);
  const std::string detail = uncapitalized(text_[0] == '\0' ? curl_easy_strerror(code) : text_.data());
  const std::string system = number == 0 ? detail : uncapitalized(errno_text(static_cast<int>(number)));
  const Code contact = request_.is_expected_to_answer ? Code::network : Code::unreachable;
  // libcurl quotes the proxy with its password.
  if (detail.starts_with("unsupported proxy"))
    return error(contact, fmt::format("unsupported proxy {}", printable_url(proxy_.url)));
  long connect = 0;  // the status of a tunnel
  curl_easy_getinfo(easy, CURLINFO_HTTP_CONNECTCODE, &connect);
  if (connect >= 400) return proxy_refusal(static_cast<int>(connect));
  const std::string by = proxy_.url.empty() ? "" : to_text(proxy_) + ": ";
  const TlsSide ours{request_.options.insecure, request_.client_certificate != nullptr, request_.certificates};
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return error(contact, "cannot resolve the host name");
    case CURLE_COULDNT_RESOLVE_PROXY:
      return error(contact, by + "cannot resolve its name");
    case CURLE_OPERATION_TIMEDOUT:
      return timed_out(by + "no connection within " + human_time(request_.options.connect_timeout), contact);
    case CURLE_COULDNT_CONNECT:
      return error(contact, by + system);
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
      if (wants_certificate(detail)) return error(tls_error({code, detail, system}, contact, ours));
      return error(Code::network, system);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CONNECT_ERROR:
      return error(tls_error({code, detail, system}, contact, ours));
    default:
      return error(response_error({code, detail, system}, header_bytes_ > 0));
  }
}

Error HttpExchange::proxy_refusal(int status) const {
  return error(is_temporary(status) ? Code::network : Code::forbidden, refusal_text(proxy_, status));
}

}  // namespace

Result<ExchangeResult> run_exchange(CurlHandle& handle, const ExchangeRequest& request, const std::stop_token& stop) {
  return HttpExchange(request).run(handle, stop);
}

}  // namespace weightfs::http
