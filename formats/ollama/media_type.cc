#include "formats/ollama/media_type.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"

namespace weightfs::ollama {
namespace {

constexpr std::string_view kSpecials = "()<>@,;:\\\"/[]?=";

bool is_special(char c) { return kSpecials.find(c) != kSpecials.npos; }

// RFC 2045: any character but space, control characters and specials.
bool is_token(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F && !is_special(c); });
}

// Parses the parameters one by one.
class Parameters {
 public:
  explicit Parameters(std::string_view left) : left_(trimmed(left)) {}

  Result<std::vector<std::pair<std::string, std::string>>> all() {
    // Trailing semicolons are ignored.
    while (left_.find_first_not_of(';') != left_.npos) {
      if (left_[0] != ';') return wrong("`;` expected before ", left_);
      left_ = trimmed(left_.substr(1));
      TRY_VOID(one());
      left_ = trimmed(left_);
    }
    return std::move(all_);
  }

 private:
  Result<void> one() {
    const size_t equals = left_.find_first_of("=;");
    if (equals == left_.npos || left_[equals] == ';') return wrong("no value in ", left_.substr(0, equals));
    const std::string name = lower_case(trimmed(left_.substr(0, equals)));
    if (!is_token(name)) return wrong("not a name of a parameter: ", name);
    left_ = trimmed(left_.substr(equals + 1));
    return add(name, TRY(value(name)));
  }

  Result<std::string> value(const std::string& name) {
    if (left_.starts_with('"')) return quoted_value(name);
    const size_t end = std::min(left_.find(';'), left_.size());
    const std::string_view text = trimmed(left_.substr(0, end));
    left_.remove_prefix(end);
    return std::string(text);
  }

  // A backslash before an ordinary character is literal, as in Go, for paths of Windows.
  Result<std::string> quoted_value(const std::string& name) {
    std::string out;
    for (size_t i = 1; i < left_.size(); ++i) {
      const bool escaped = left_[i] == '\\' && i + 1 < left_.size() && is_special(left_[i + 1]);
      if (!escaped && left_[i] == '"') {
        left_.remove_prefix(i + 1);
        return out;
      }
      if (left_[i] == '\r' || left_[i] == '\n') break;
      if (escaped) ++i;
      out += left_[i];
    }
    return wrong("no closing quote in the value of ", name);
  }

  Result<void> add(const std::string& name, std::string value) {
    const auto known = std::find_if(all_.begin(), all_.end(), [&](const auto& other) { return other.first == name; });
    if (known == all_.end())
      all_.emplace_back(name, std::move(value));
    else if (known->second != value)
      return wrong("repeated: ", name);
    if (all_.size() > kMaxParameters)
      return failure(Code::corrupt, fmt::format("media type: more than {} parameters", kMaxParameters));
    return {};
  }

  static tl::unexpected<Error> wrong(const char* what, std::string_view where) {
    return failure(Code::corrupt, fmt::format("media type: {}{}", what, quoted(where)));
  }

  // Manifests have three parameters; duplicates are found by comparing each with all others.
  static constexpr size_t kMaxParameters = 16;

  std::string_view left_;
  std::vector<std::pair<std::string, std::string>> all_;
};

}  // namespace

const std::string* MediaType::find(std::string_view name) const {
  const auto found = std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.first == name; });
  return found == parameters.end() ? nullptr : &found->second;
}

std::string without_parameters(std::string_view media_type) {
  return lower_case(trimmed(media_type.substr(0, media_type.find(';'))));
}

Result<MediaType> parse_media_type(std::string_view text) {
  MediaType out{without_parameters(text), {}};
  const size_t slash = std::min(out.type.find('/'), out.type.size());
  const std::string_view type = out.type;
  if (!is_token(type.substr(0, slash)) || (slash < type.size() && !is_token(type.substr(slash + 1))))
    return failure(Code::corrupt, fmt::format("not a media type: {}", quoted(text)));
  out.parameters = TRY(Parameters(text.substr(std::min(text.find(';'), text.size()))).all());
  return out;
}

}  // namespace weightfs::ollama
