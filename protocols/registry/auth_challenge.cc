#include "protocols/registry/auth_challenge.h"

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace weightfs::registry {
namespace {

constexpr size_t kMaxChallenges = 16;
constexpr size_t kMaxParameters = 32;  // per challenge

bool is_letter_or_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// RFC 9110, section 5.6.2.
bool is_token_character(char c) {
  return is_letter_or_digit(c) || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_space(char c) { return c == ' ' || c == '\t'; }

class Parser {
 public:
  explicit Parser(std::string_view header) : left_(header) {}

  std::vector<AuthChallenge> challenges() {
    while (true) {
      take([](char c) { return is_space(c) || c == ','; });
      if (left_.empty() || !item()) return std::move(found_);
    }
  }

 private:
  // Parses a parameter of the last challenge, or the scheme of a new one. False when there are too many.
  bool item() {
    const std::string_view word = take(is_token_character);
    take(is_space);
    if (word.empty()) {
      take([](char c) { return c != ','; });
      return true;
    }
    if (!left_.starts_with('=')) return begin(word);
    left_.remove_prefix(1);
    take(is_space);
    const auto text = value();
    if (!text || found_.empty()) return true;
    auto& parameters = found_.back().parameters;
    parameters.emplace_back(lower_case(word), *text);
    return parameters.size() < kMaxParameters;
  }

  bool begin(std::string_view scheme) {
    if (found_.size() == kMaxChallenges) return false;
    found_.push_back({lower_case(scheme)});
    skip_token68();
    return true;
  }

  // A scheme may have a token68 instead of parameters (section 11.2); no supported scheme uses it.
  void skip_token68() {
    const std::string_view before = left_;
    take([](char c) { return is_letter_or_digit(c) || std::string_view("-._~+/").find(c) != std::string_view::npos; });
    take([](char c) { return c == '='; });
    if (!is_at_item_end()) left_ = before;
  }

  std::optional<std::string> value() {
    if (!left_.starts_with('"')) return std::string(take([](char c) { return c != ',' && !is_space(c); }));
    left_.remove_prefix(1);
    std::string out;
    while (!left_.empty()) {
      char c = left_[0];
      left_.remove_prefix(1);
      if (c == '"' && is_at_item_end()) return out;
      if (c == '\\' && !left_.empty()) {
        c = left_[0];
        left_.remove_prefix(1);
      }
      out += c;
    }
    return std::nullopt;
  }

  bool is_at_item_end() const {
    const size_t next = left_.find_first_not_of(" \t");
    return next == std::string_view::npos || left_[next] == ',';
  }

  template <class Belongs>
  std::string_view take(Belongs belongs) {
    const auto end = std::find_if_not(left_.begin(), left_.end(), belongs);
    const std::string_view taken = left_.substr(0, static_cast<size_t>(end - left_.begin()));
    left_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view left_;
  std::vector<AuthChallenge> found_;
};

}  // namespace

std::string_view AuthChallenge::parameter(std::string_view name) const {
  const auto found = std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.first == name; });
  return found == parameters.end() ? std::string_view() : found->second;
}

std::vector<AuthChallenge> parse_challenges(std::string_view header) { return Parser(header).challenges(); }

}  // namespace weightfs::registry
