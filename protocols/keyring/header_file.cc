#include "protocols/keyring/header_file.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "protocols/private_file.h"

namespace weightfs::header_file {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kBetweenReads{10};  // after refusals

// What each request sets by itself, what frames it, and what is for one connection or for a proxy.
constexpr std::array<std::string_view, 20> kRefused = {"host",
                                                       "content-length",
                                                       "content-type",
                                                       "content-encoding",
                                                       "transfer-encoding",
                                                       "range",
                                                       "if-range",
                                                       "if-match",
                                                       "if-none-match",
                                                       "if-modified-since",
                                                       "accept-encoding",
                                                       "connection",
                                                       "te",
                                                       "trailer",
                                                       "keep-alive",
                                                       "upgrade",
                                                       "expect",
                                                       "if-unmodified-since",
                                                       "via",
                                                       "forwarded"};

bool is_refused(const std::string& name) {
  return std::ranges::find(kRefused, name) != kRefused.end() || name.starts_with("proxy-");
}

// A token of RFC 9110, section 5.6.2.
bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return is_letter || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool is_value(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return (c >= ' ' && c <= '~') || c == '\t'; });
}

// A version of a file.
using Stamp = std::tuple<dev_t, ino_t, off_t, time_t, long>;

std::optional<Stamp> stamp_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return Stamp{status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

Result<std::vector<std::string>> read_headers(const std::string& path) {
  auto headers = parse(TRY(read_private_file(path, kMaxFile)));
  if (!headers) return failure(headers.error().code, fmt::format("{}: {}", printable(path), headers.error().message));
  return headers;
}

class HeadersOfFile final : public http::Credentials {
 public:
  HeadersOfFile(std::string path, std::optional<Stamp> stamp, std::vector<std::string> headers,
                http::CredentialsPtr token, std::function<Clock::time_point()> now)
      : path_(std::move(path)),
        token_(std::move(token)),
        now_(std::move(now)),
        stamp_(stamp),
        headers_(std::move(headers)),
        last_read_(now_()) {}

  std::string authorization() override { return token_ == nullptr ? "" : token_->authorization(); }
  std::vector<std::string> headers(std::string_view /*method*/, const std::string& /*url*/) override {
    const std::scoped_lock lock(mutex_);
    read_if_changed();
    return headers_;
  }
  uint64_t generation() override {
    const std::scoped_lock lock(mutex_);
    read_if_changed();
    return generation_;
  }
  bool read_again(uint64_t sent, const std::stop_token& /*stop*/) override {
    const std::scoped_lock lock(mutex_);
    if (generation_ == sent && now_() - last_read_ >= kBetweenReads) read();
    return generation_ != sent;
  }
  // The file has no challenges; what was sent may be old.
  Result<bool> on_unauthorized(const http::Response& /*response*/, const http::SentKeys& sent,
                               const std::stop_token& stop) override {
    return read_again(sent.generation, stop);
  }
  http::KeyOrigin key_origin() override {
    const std::scoped_lock lock(mutex_);
    return {path_, read_};
  }
  std::string description() override {
    return fmt::format("with the headers of {}", printable(path_)) +
           (token_ == nullptr ? "" : ", " + token_->description());
  }

 private:
  void read_if_changed() {
    if (stamp_of(path_) != stamp_) read();
  }
  void read() {
    last_read_ = now_();
    const auto stamp = stamp_of(path_);  // before the text: a change in between is noticed later
    auto headers = read_headers(path_);
    if (!headers || (token_ != nullptr && has(*headers, "authorization"))) return;
    stamp_ = stamp;
    read_ = http::current_second();
    if (*headers == headers_) return;
    headers_ = std::move(*headers);
    ++generation_;
  }

  const std::string path_;
  const http::CredentialsPtr token_;
  const std::function<Clock::time_point()> now_;
  std::mutex mutex_;  // guards the rest
  std::optional<Stamp> stamp_;
  std::vector<std::string> headers_;
  uint64_t generation_ = 1;
  Clock::time_point last_read_;
  std::chrono::sys_seconds read_ = http::current_second();
};

}  // namespace

Result<std::vector<std::string>> parse(std::string_view text) {
  std::vector<std::string> headers;
  for (size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.empty() || line.starts_with('#')) continue;
    const auto refused = [&](std::string_view why) {
      return failure(Code::unsupported, fmt::format("line {}: {}", number, why));
    };
    const size_t colon = std::min(line.find(':'), line.size());
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trimmed(line.substr(std::min(colon + 1, line.size())));
    if (line.find('\r') != line.npos || line.find('\0') != line.npos)
      return refused("not a header: it has a carriage return or NUL");
    if (!is_name(name) || colon == line.size()) return refused("not a header: \"Name: value\" expected");
    if (!is_value(value)) return refused("not a header: its value must be ASCII characters");
    if (is_refused(lower_case(name)))
      return refused(fmt::format("the header {} is not permitted: requests set it by themselves", quoted(name)));
    if (headers.size() == kMaxLines) return refused(fmt::format("more than {} headers", kMaxLines));
    headers.push_back(fmt::format("{}: {}", name, value));
  }
  if (headers.empty()) return failure(Code::unsupported, "no header: \"Name: value\" expected on each line");
  return headers;
}

bool has(const std::vector<std::string>& headers, std::string_view name) {
  return std::ranges::any_of(
      headers, [&](const std::string& header) { return lower_case(header.substr(0, header.find(':'))) == name; });
}

Result<http::CredentialsPtr> credentials(std::string path, http::CredentialsPtr token,
                                         std::function<Clock::time_point()> now) {
  const auto stamp = stamp_of(path);
  auto headers = TRY(read_headers(path));
  if (token != nullptr && has(headers, "authorization"))
    return failure(Code::unsupported,
                   fmt::format("{}: it has an Authorization, and --source-token-file another", printable(path)));
  return std::make_shared<HeadersOfFile>(std::move(path), stamp, std::move(headers), std::move(token), std::move(now));
}

}  // namespace weightfs::header_file
