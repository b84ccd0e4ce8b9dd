#include "cache/http/exchange.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <new>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "cache/address_policy.h"
#include "cache/http/proxy.h"

namespace weightfs {

struct Handle {
  Handle() : easy(curl_easy_init()), multi(curl_multi_init()) {
    if (easy == nullptr || multi == nullptr) throw std::bad_alloc();
  }
  ~Handle() {
    curl_easy_cleanup(easy);
    curl_multi_cleanup(multi);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  CURL* easy;
  CURLM* multi;
};

void HandleEnd::operator()(Handle* handle) const { delete handle; }

HandlePtr new_handle() {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  static_cast<void>(ready);
  return HandlePtr(new Handle());
}

std::string Bounds::forbid(const sockaddr& address) const {
  const std::string_view use = special_use(address);
  if (loopback_only && use != "loopback")
    return str("refused: http leads in the clear to ", printable_address(address),
               ", and only loopback is asked so unless --insecure is given");
  if (public_only && !use.empty())
    return str("refused: ", printable_address(address), " is a ", use, " address, and ", who,
               " may only lead to public ones unless --allow-private-urls is given");
  return "";
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostHeaders = 256 * 1024;
constexpr size_t kMostUnread = 64 * 1024;  // of a redirect's or a challenge's body: to keep the connection
constexpr long kBuffer = 512 * 1024;
constexpr int kLookAtStop = 100;  // ms

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

// A sentence of a library or the system, to stand after a colon.
std::string uncapitalised(std::string text) {
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])) != 0)
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return printable(text);
}

std::string human_time(std::chrono::milliseconds time) {
  return time.count() % 1000 == 0 ? str(time.count() / 1000, " s") : str(time.count(), " ms");
}

struct HeaderListEnd {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, HeaderListEnd>;

Result<void> add(HeaderList& list, const std::string& header) {
  if (std::any_of(header.begin(), header.end(), [](char c) { return c == '\r' || c == '\n' || c == '\0'; }))
    return failure(Code::corrupt,
                   str("a header to send has a line break: ", quoted(header.substr(0, header.find(':')))));
  curl_slist* const longer = curl_slist_append(list.get(), header.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  static_cast<void>(list.release());
  list.reset(longer);
  return {};
}

class Hop {
 public:
  explicit Hop(const Question& question)
      : question_(question),
        place_(question.place),
        bounds_(question.bounds),
        proxy_(proxy_of(place_.scheme, place_.host)) {}

  Result<Hopped> run(Handle& handle, const std::atomic<bool>& stop);

 private:
  static Hop& of(void* self) { return *static_cast<Hop*>(self); }
  static size_t on_header(char* bytes, size_t, size_t count, void* self);
  static size_t on_body(char* bytes, size_t, size_t count, void* self);
  static curl_socket_t on_socket(void* self, curlsocktype, curl_sockaddr* address);
  static int on_connected(void* self, char* remote, char*, int, int);

  // An exception must not pass through the library.
  template <class Work>
  bool goes_on(Work work) {
    try {
      Result<void> done = work();
      if (!done) failed_ = std::move(done).error();
    } catch (const std::bad_alloc&) {
      failed_ = Error{Code::resource, "out of memory"};
    }
    heard_ = Clock::now();
    return !failed_;
  }

  std::string forbid_connection(const sockaddr* address) const;
  Result<void> check_spelling();
  Result<void> set_up(Handle& handle);
  Result<void> take_header(std::string_view line);
  Result<void> end_of_headers();
  Result<void> take_body(std::span<const char> bytes);
  Result<CURLcode> transfer(Handle& handle, const std::atomic<bool>& stop);
  Result<void> check_patience(CURL* easy);
  void wait(CURLM* multi);
  Error error_of(CURL* easy, CURLcode code) const;
  Error error(Code code, const std::string& text) const { return {code, str(printable_url(place_.url), ": ", text)}; }

  using Kind = Hopped::Kind;

  const Question& question_;
  const Place& place_;
  const Bounds& bounds_;
  const std::string proxy_;
  HeaderList headers_;
  std::array<char, CURL_ERROR_SIZE> text_{};

  std::optional<Kind> kind_;  // once the headers are over
  Answer answer_;
  size_t header_bytes_ = 0;
  std::string kept_;  // of the body of a challenge
  size_t unread_ = 0;
  bool led_to_public_ = false;
  std::string refused_;
  std::optional<Error> failed_;
  bool connected_ = false;
  curl_off_t arrived_ = 0;
  Clock::time_point heard_ = Clock::now();
  Clock::duration waited_{};   // for the network, since the speed was looked at
  uint64_t arrived_then_ = 0;  // headers included, when it was
};

size_t Hop::on_header(char* bytes, size_t, size_t count, void* self) {
  Hop& hop = of(self);
  return hop.goes_on([&] { return hop.take_header({bytes, count}); }) ? count : 0;
}

size_t Hop::on_body(char* bytes, size_t, size_t count, void* self) {
  Hop& hop = of(self);
  return hop.goes_on([&] { return hop.take_body({bytes, count}); }) ? count : 0;
}

// Asked for each address that a name has, so a name cannot lead elsewhere between a check and the connection.
curl_socket_t Hop::on_socket(void* self, curlsocktype, curl_sockaddr* address) {
  Hop& hop = of(self);
  std::string forbidden;
  const bool known = hop.goes_on([&]() -> Result<void> {
    if (hop.proxy_.empty()) forbidden = hop.bounds_.forbid(address->addr);
    if (!forbidden.empty()) hop.refused_ = forbidden;
    return {};
  });
  if (!known || !forbidden.empty()) return CURL_SOCKET_BAD;
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// A connection that was kept from another request did not pass on_socket for this one.
int Hop::on_connected(void* self, char* remote, char*, int, int) {
  Hop& hop = of(self);
  hop.connected_ = true;
  const bool allowed = hop.goes_on([&]() -> Result<void> {
    const auto address = spelled_address(hop.proxy_.empty() ? remote : hop.place_.host);
    const auto* const any = address ? reinterpret_cast<const sockaddr*>(&*address) : nullptr;
    hop.led_to_public_ = any == nullptr ? !hop.proxy_.empty() : special_use(*any).empty();
    hop.refused_ = hop.forbid_connection(any);
    if (!hop.refused_.empty()) return tl::unexpected(hop.error(Code::unsupported, hop.refused_));
    return {};
  });
  return allowed ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

std::string Hop::forbid_connection(const sockaddr* address) const {
  if (!proxy_.empty()) return "";  // what the URL spells has been looked at
  return address == nullptr ? "refused: its address is not known" : bounds_.forbid(*address);
}

Result<void> Hop::take_header(std::string_view line) {
  header_bytes_ += line.size();
  if (header_bytes_ > kMostHeaders)
    return tl::unexpected(error(Code::corrupt, str("more than ", human_size(kMostHeaders), " of headers")));
  if (kind_) return {};  // a trailer
  if (line.substr(0, 5) == "HTTP/") {
    const std::string_view status = trimmed(line.substr(std::min(line.find(' '), line.size())));
    answer_ = Answer{0, {}, place_.url, led_to_public_};
    std::from_chars(status.data(), status.data() + status.size(), answer_.status);
    return {};
  }
  const std::string_view text = trimmed(line);
  if (text.empty()) return end_of_headers();
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos)
    answer_.headers.emplace_back(lower_case(trimmed(text.substr(0, colon))),
                                 std::string(trimmed(text.substr(colon + 1))));
  return {};
}

Result<void> Hop::end_of_headers() {
  if (answer_.status < 200) return {};
  constexpr std::array kRedirects = {301, 302, 303, 307, 308};
  const bool moved = std::find(kRedirects.begin(), kRedirects.end(), answer_.status) != kRedirects.end();
  kind_ = Kind::final;
  if (moved && answer_.header("location")) kind_ = Kind::redirect;
  if (answer_.status == 401 && question_.may_be_challenged && answer_.header("www-authenticate"))
    kind_ = Kind::challenge;
  return kind_ == Kind::final ? question_.receiver.answered(answer_) : Result<void>();
}

Result<void> Hop::take_body(std::span<const char> bytes) {
  if (kind_ == Kind::final) return question_.receiver.received(std::as_bytes(bytes));
  unread_ += bytes.size();
  if (unread_ > kMostUnread) return failure(Code::corrupt, "more than is read of such a body");
  if (kind_ == Kind::challenge) kept_.append(bytes.data(), bytes.size());
  return {};
}

// What the URL spells needs no name server to be refused. Through a proxy only the proxy learns where a name leads.
Result<void> Hop::check_spelling() {
  const auto address = spelled_address(place_.host);
  if (!address && bounds_.loopback_only && !proxy_.empty())
    return tl::unexpected(error(Code::unsupported,
                                "refused: http through a proxy is sent in the clear, and is not used "
                                "unless --insecure is given"));
  const std::string forbidden = address ? bounds_.forbid(reinterpret_cast<const sockaddr&>(*address)) : "";
  if (!forbidden.empty()) return tl::unexpected(error(Code::unsupported, forbidden));
  return {};
}

Result<void> Hop::set_up(Handle& handle) {
  for (const std::string& header : question_.request.headers) TRY_VOID(add(headers_, header));
  if (!question_.authorization.empty()) TRY_VOID(add(headers_, "Authorization: " + question_.authorization));
  bool ok = true;
  const auto set = [&](CURLoption option, auto value) {
    ok = ok && curl_easy_setopt(handle.easy, option, value) == CURLE_OK;
  };
  const long connect_timeout = static_cast<long>(question_.options.connect_timeout.count());
  curl_easy_reset(handle.easy);
  set(CURLOPT_URL, place_.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_2TLS});
  set(CURLOPT_SSLVERSION, long{CURL_SSLVERSION_TLSv1_2});
  set(CURLOPT_PROXY, proxy_.c_str());
  set(CURLOPT_NOPROXY, "");  // has been looked at
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_QUICK_EXIT, 1L);  // a name server that is silent does not keep whoever gave up
  set(CURLOPT_CONNECTTIMEOUT_MS, connect_timeout);
  set(CURLOPT_BUFFERSIZE, kBuffer);
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_USERAGENT, question_.options.user_agent.c_str());
  // Any value makes libcurl decode whatever comes; "" asks for all that it can.
  set(CURLOPT_ACCEPT_ENCODING, question_.request.encoded ? "" : "identity");
  set(CURLOPT_HTTPHEADER, headers_.get());
  set(CURLOPT_NOBODY, question_.request.method == Request::Method::head ? 1L : 0L);
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_ERRORBUFFER, text_.data());
  set(CURLOPT_HEADERFUNCTION, &Hop::on_header);
  set(CURLOPT_HEADERDATA, this);
  set(CURLOPT_WRITEFUNCTION, &Hop::on_body);
  set(CURLOPT_WRITEDATA, this);
  set(CURLOPT_OPENSOCKETFUNCTION, &Hop::on_socket);
  set(CURLOPT_OPENSOCKETDATA, this);
  set(CURLOPT_PREREQFUNCTION, &Hop::on_connected);
  set(CURLOPT_PREREQDATA, this);
  if (!ok) return tl::unexpected(error(Code::unsupported, "this libcurl lacks what is needed to ask safely"));
  return {};
}

Result<Hopped> Hop::run(Handle& handle, const std::atomic<bool>& stop) {
  TRY_VOID(check_spelling());
  TRY_VOID(set_up(handle));
  if (curl_multi_add_handle(handle.multi, handle.easy) != CURLM_OK) throw std::bad_alloc();
  const auto code = transfer(handle, stop);
  curl_multi_remove_handle(handle.multi, handle.easy);
  if (!code) return tl::unexpected(code.error());
  // What is not read to its end need not end well.
  if (!kind_ || kind_ == Kind::final) {
    if (failed_) return tl::unexpected(std::move(*failed_));
    if (*code != CURLE_OK) return tl::unexpected(error_of(handle.easy, *code));
    if (!kind_) return tl::unexpected(error(Code::network, "cut short before its headers ended"));
  }
  return Hopped{*kind_, std::move(answer_), std::move(kept_)};
}

// How libcurl says that it ended; a failure when the wait was given up.
Result<CURLcode> Hop::transfer(Handle& handle, const std::atomic<bool>& stop) {
  heard_ = Clock::now();
  for (int running = 1;;) {
    if (curl_multi_perform(handle.multi, &running) != CURLM_OK) throw std::bad_alloc();
    int left = 0;
    if (const CURLMsg* const done = curl_multi_info_read(handle.multi, &left); done != nullptr)
      return done->data.result;
    if (stop) return tl::unexpected(error(Code::network, "cancelled"));
    TRY_VOID(check_patience(handle.easy));
    wait(handle.multi);
  }
}

// A server that lets something trickle in would otherwise be waited for as long as it likes.
Result<void> Hop::check_patience(CURL* easy) {
  const HttpOptions& options = question_.options;
  const auto now = Clock::now();
  if (now >= question_.request.until) return tl::unexpected(error(Code::network, "not answered in time"));
  curl_off_t arrived = 0;
  curl_easy_getinfo(easy, CURLINFO_SIZE_DOWNLOAD_T, &arrived);
  // Before it is connected the connection's own limit holds.
  if (!connected_ || arrived != arrived_) heard_ = now;
  arrived_ = arrived;
  if (now - heard_ > options.stall_timeout)
    return tl::unexpected(error(Code::network, str("nothing arrived for ", human_time(options.stall_timeout))));
  if (waited_ < 2 * options.stall_timeout) return {};
  const uint64_t arrived_now = static_cast<uint64_t>(arrived_) + header_bytes_;
  const double speed =
      static_cast<double>(arrived_now - arrived_then_) / std::chrono::duration<double>(waited_).count();
  if (speed < static_cast<double>(options.least_speed))
    return tl::unexpected(error(Code::network, str("slower than ", human_size(options.least_speed), "/s for ",
                                                   human_time(2 * options.stall_timeout))));
  waited_ = {};
  arrived_then_ = arrived_now;
  return {};
}

// The time until an answer begins is the stall timeout's matter.
void Hop::wait(CURLM* multi) {
  const auto begun = Clock::now();
  curl_multi_poll(multi, nullptr, 0, kLookAtStop, nullptr);
  if (header_bytes_ > 0) waited_ += Clock::now() - begun;
}

Error Hop::error_of(CURL* easy, CURLcode code) const {
  if (!refused_.empty()) return error(Code::unsupported, refused_);
  long number = 0;
  curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &number);
  const std::string system =
      number == 0 ? "" : uncapitalised(std::generic_category().message(static_cast<int>(number)));
  const std::string told = uncapitalised(text_[0] == '\0' ? curl_easy_strerror(code) : text_.data());
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return error(Code::network, "no such host, or no name server");
    case CURLE_COULDNT_RESOLVE_PROXY:
      return error(Code::network, "the proxy's name is not known");
    case CURLE_OPERATION_TIMEDOUT:
      return error(Code::network, str("no connection within ", human_time(question_.options.connect_timeout)));
    case CURLE_COULDNT_CONNECT:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
      return error(Code::network, system.empty() ? told : system);
    case CURLE_GOT_NOTHING:
      return error(Code::network, "closed without an answer");
    case CURLE_PARTIAL_FILE:
      return error(Code::network, "cut short: " + told);
    case CURLE_PEER_FAILED_VERIFICATION:
      return error(Code::network, "certificate not accepted: " + told);
    case CURLE_BAD_CONTENT_ENCODING:
      return error(Code::corrupt, "broken content encoding: " + told);
    case CURLE_URL_MALFORMAT:
      return error(Code::unsupported, told);
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return error(Code::corrupt, told);  // no HTTP
    default:
      return error(Code::network, told);
  }
}

}  // namespace

Result<Hopped> hop(Handle& handle, const Question& question, const std::atomic<bool>& stop) {
  return Hop(question).run(handle, stop);
}

}  // namespace weightfs
