#include "protocols/netrc.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "base/values/base64.h"
#include "cache/url.h"
#include "protocols/private_file.h"

namespace weightfs::netrc {
namespace {

constexpr size_t kMaxFile = 1 << 20;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// The words of a file.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}

  // Nothing at the end. A line that begins with `#` is a comment.
  std::optional<std::string> next() {
    for (;;) {
      while (!rest_.empty() && is_space(rest_[0])) skip(1);
      if (!is_at_line_begin_ || !rest_.starts_with('#')) break;
      skip(std::min(rest_.find('\n'), rest_.size()));
    }
    if (rest_.empty()) return std::nullopt;
    is_at_line_begin_ = false;
    return rest_[0] == '"' ? quoted_word() : plain_word();
  }

  // A macro ends with an empty line.
  void skip_macro() {
    const size_t end = rest_.find("\n\n");
    skip(end == rest_.npos ? rest_.size() : end + 2);
  }

 private:
  void skip(size_t count) {
    if (rest_.substr(0, count).find('\n') != rest_.npos) is_at_line_begin_ = true;
    rest_.remove_prefix(count);
  }

  std::string plain_word() {
    size_t size = 0;
    while (size < rest_.size() && !is_space(rest_[size])) ++size;
    std::string word(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return word;
  }

  std::string quoted_word() {
    std::string word;
    for (rest_.remove_prefix(1); !rest_.empty(); rest_.remove_prefix(1)) {
      char c = rest_[0];
      if (c == '"') break;
      if (c == '\\' && rest_.size() > 1) {
        rest_.remove_prefix(1);
        c = rest_[0] == 'n' ? '\n' : rest_[0] == 'r' ? '\r' : rest_[0] == 't' ? '\t' : rest_[0];
      }
      word += c;
    }
    if (!rest_.empty()) rest_.remove_prefix(1);
    return word;
  }

  std::string_view rest_;
  bool is_at_line_begin_ = true;
};

class UserLogin final : public http::Credentials {
 public:
  UserLogin(Login login, std::string file) : login_(std::move(login)), file_(std::move(file)) {}

  std::string authorization() override { return "Basic " + base64(login_.user + ":" + login_.password); }
  std::string description() override { return fmt::format("as {} of {}", quoted(login_.user), printable(file_)); }
  http::KeyOrigin key_origin() override { return {file_, read_}; }

 private:
  const Login login_;
  const std::string file_;
  const std::chrono::sys_seconds read_ = http::current_second();
};

// Without the port.
std::string host_of(const std::string& origin) {
  const size_t begin = origin.find("://") + 3;
  return origin.substr(begin, origin.rfind(':') - begin);
}

}  // namespace

std::optional<Login> find_login(std::string_view text, std::string_view host) {
  Words words(text);
  std::optional<Login> found;  // in the entry of the host
  for (auto word = words.next(); word; word = words.next()) {
    if (*word == "default" || (*word == "machine" && found)) break;
    if (*word == "macdef") {
      words.skip_macro();
    } else if (*word == "machine" || *word == "login" || *word == "password" || *word == "account") {
      const auto value = words.next();
      if (!value) break;
      if (*word == "machine" && lower_case(*value) == lower_case(host)) found.emplace();
      if (*word == "login" && found) found->user = *value;
      if (*word == "password" && found) found->password = *value;
    }
  }
  return found && !found->user.empty() ? found : std::nullopt;
}

std::string path() {
  const std::string named = environment("NETRC");
  const std::string home = environment("HOME");
  if (!named.empty()) return named;
  return home.empty() ? "" : home + "/.netrc";
}

http::CredentialsPtr credentials_for(const std::string& server) {
  const std::string origin = http::origin_of(server);
  if (!origin.starts_with("https://")) return std::make_shared<http::FixedCredentials>("", "without a login");
  const std::string file = path();
  const auto text = read_private_file(file, kMaxFile);
  if (!text) return std::make_shared<http::FixedCredentials>("", "without a login: " + text.error().message);
  const std::string host = host_of(origin);
  const auto login = find_login(*text, host);
  if (!login)
    return std::make_shared<http::FixedCredentials>(
        "", fmt::format("without a login: {} has none for {}", printable(file), printable(host)));
  return std::make_shared<UserLogin>(*login, file);
}

}  // namespace weightfs::netrc
