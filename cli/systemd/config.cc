#include "cli/systemd/config.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/files/file_source.h"
#include "base/os/mounts.h"
#include "base/source.h"
#include "base/text.h"
#include "report/text/suggestions.h"
#include "sources/source.h"

namespace weightfs::service {
namespace {

constexpr uint64_t kMaxBytes = 64 * 1024;
constexpr std::string_view kBlanks = " \t\r";

struct Line {
  size_t number;
  std::string key;
  std::string value;
};

// systemd.exec(5), EnvironmentFile=: # and ; begin a comment where a line begins; a backslash takes the next character
// as it is, and at the end of a line joins it with the next one; within "..." it does so before " \ ` $ only, within
// '...' never; blanks at both ends of a value belong to it only within quotes.
class ConfigParser {
 public:
  explicit ConfigParser(std::string_view text) : text_(text) {}

  // The next KEY=VALUE; nothing at the end. Fails with unsupported; the message has no position.
  Result<std::optional<Line>> next() {
    for (; !at_end(); ++at_) {
      if (peek() == '#' || peek() == ';') skip_comment();
      if (at_end()) break;
      if (peek() == '\n')
        ++number_;
      else if (kBlanks.find(peek()) == kBlanks.npos)
        return TRY(assignment());
    }
    return std::optional<Line>();
  }

  size_t number() const { return number_; }

 private:
  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return text_[at_]; }

  void skip_comment() { at_ = std::min(text_.find('\n', at_), text_.size()); }

  Result<Line> assignment() {
    Line line{number_, "", ""};
    while (!at_end() && peek() != '=' && peek() != '\n') line.key += text_[at_++];
    if (at_end() || peek() != '=')
      return failure(Code::unsupported, fmt::format("{} is not KEY=VALUE", quoted(line.key)));
    line.key.erase(line.key.find_last_not_of(kBlanks) + 1);
    ++at_;
    line.value = TRY(value());
    return line;
  }

  Result<std::string> value() {
    std::string out;
    size_t kept = 0;  // length without unquoted trailing blanks
    for (; !at_end() && peek() != '\n'; ++at_) {
      const char c = peek();
      if (c == '"' || c == '\'') {
        out += TRY(quotation(c));
        kept = out.size();
      } else if (c == '\\') {
        if (take_escaped(out)) kept = out.size();
      } else if (kBlanks.find(c) == kBlanks.npos) {
        out += c;
        kept = out.size();
      } else if (!out.empty()) {
        out += c;
      }
    }
    out.resize(kept);
    return out;
  }

  // Takes the character after a backslash; false at the end of a line.
  bool take_escaped(std::string& out) {
    if (++at_ == text_.size()) {
      --at_;
      return false;
    }
    if (peek() == '\n') {
      ++number_;
      return false;
    }
    out += peek();
    return true;
  }

  // Stops at the closing quote.
  Result<std::string> quotation(char quote) {
    constexpr std::string_view kEscapable = "\"\\`$";
    std::string out;
    while (++at_ < text_.size() && peek() != '\n') {
      if (peek() == quote) return out;
      const bool escape = quote == '"' && peek() == '\\' && at_ + 1 < text_.size() &&
                          kEscapable.find(text_[at_ + 1]) != kEscapable.npos;
      if (escape) ++at_;
      out += peek();
    }
    return failure(Code::unsupported, fmt::format("the quote {} is not closed on its line", quote));
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t number_ = 1;
};

tl::unexpected<Error> wrong(std::string what) { return failure(Code::unsupported, std::move(what)); }

// Services start in /, so a path must be absolute. ollama:llama3.2 is not a path.
Result<std::string> parse_source(const std::string& value) {
  if (value.starts_with('/') || !is_path(value)) return value;
  return wrong(fmt::format("SOURCE={} is not an absolute path or a model name (ollama:..., hf://...)", quoted(value)));
}

// Directories that the system needs; a mount there could not be removed.
bool is_system_directory(const std::string& path) {
  constexpr std::array kPlaces = {"/",     "/bin",  "/boot", "/dev",  "/etc", "/home", "/lib", "/lib64", "/opt",
                                  "/proc", "/root", "/run",  "/sbin", "/srv", "/sys",  "/tmp", "/usr",   "/var"};
  return std::find(kPlaces.begin(), kPlaces.end(), path) != kPlaces.end();
}

Result<std::string> parse_mountpoint(const std::string& value) {
  if (!value.starts_with('/')) return wrong(fmt::format("MOUNTPOINT={} is not an absolute path", quoted(value)));
  std::string path = std::filesystem::path(value).lexically_normal();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const std::filesystem::path given(value);
  if (is_system_directory(path) || std::find(given.begin(), given.end(), "..") != given.end())
    return wrong(fmt::format("MOUNTPOINT={} is not a permitted mount point", quoted(value)));
  return path;
}

Result<bool> parse_bool(const std::string& key, const std::string& value) {
  for (const char* yes : {"yes", "true", "on", "1"})
    if (value == yes) return true;
  for (const char* no : {"no", "false", "off", "0"})
    if (value == no) return false;
  return wrong(fmt::format("{}={}: must be yes or no", key, quoted(value)));
}

Result<std::chrono::seconds> parse_seconds(const std::string& key, const std::string& value) {
  constexpr unsigned kMaxSeconds = 365 * 24 * 60 * 60;
  const auto seconds = parse_number<unsigned>(value);
  if (!seconds || *seconds > kMaxSeconds)
    return wrong(fmt::format("{}={}: must be a number of seconds", key, quoted(value)));
  return std::chrono::seconds(*seconds);
}

Result<void> take(Config& config, const Line& line, ConfigKind kind) {
  const bool mounts = kind == ConfigKind::mount;
  if (line.key == "SOURCE") {
    config.sources.push_back(TRY(parse_source(line.value)));
  } else if (mounts && line.key == "MOUNTPOINT") {
    if (!config.mountpoint.empty()) return wrong("second MOUNTPOINT; use a file for each mount");
    config.mountpoint = TRY(parse_mountpoint(line.value));
  } else if (line.key == "OPTIONS") {
    config.options += (config.options.empty() || line.value.empty() ? "" : ",") + line.value;
    config.options_line = line.number;
  } else if (mounts && line.key == "AUTOMOUNT") {
    config.automount = TRY(parse_bool(line.key, line.value));
  } else if (mounts && line.key == "AUTOMOUNT_IDLE") {
    config.automount_idle = TRY(parse_seconds(line.key, line.value));
  } else {
    std::vector<std::string> known = {"SOURCE", "OPTIONS"};
    if (mounts) known.insert(known.end(), {"MOUNTPOINT", "AUTOMOUNT", "AUTOMOUNT_IDLE"});
    std::string upper = line.key;
    std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
    return wrong(fmt::format("unknown setting {}{}", quoted(line.key), did_you_mean(upper, known)));
  }
  return {};
}

Result<std::string> read_config_text(const std::string& path) {
  const SourcePtr file = TRY(open_file(path));
  if (file->size() > kMaxBytes) return wrong(fmt::format("{}: {} bytes, limit {}", path, file->size(), kMaxBytes));
  const std::string text = TRY(read_text(*file, 0, file->size()));
  if (text.find('\0') != text.npos) return wrong(fmt::format("{}: not a text file: contains a NUL byte", path));
  return text;
}

}  // namespace

std::string config_directory() {
  const char* directory = std::getenv("WEIGHTFS_MOUNTS");
  return directory != nullptr && *directory != '\0' ? directory : "/etc/weightfs/mounts.d";
}

Result<Config> read_config(const std::string& path, ConfigKind kind) {
  const std::string text = TRY(read_config_text(path));
  Config config;
  config.name = std::filesystem::path(path).stem();
  ConfigParser parser(text);
  while (true) {
    const auto at = [&](size_t number) {
      return [&path, number](const Error& error) {
        return Error{error.code, fmt::format("{}:{}: {}", path, number, error.message)};
      };
    };
    const auto line = TRY(parser.next().map_error(at(parser.number())));
    if (!line) break;
    TRY_VOID(take(config, *line, kind).map_error(at(line->number)));
  }
  if (kind == ConfigKind::http) return config;
  if (config.sources.empty()) return wrong(fmt::format("{}: SOURCE= is missing", path));
  if (config.mountpoint.empty()) return wrong(fmt::format("{}: MOUNTPOINT= is missing", path));
  for (const std::string& source : config.sources)
    if (is_at_or_below(std::filesystem::path(source).lexically_normal(), config.mountpoint))
      return wrong(
          fmt::format("{}: MOUNTPOINT={} would hide SOURCE={}", path, quoted(config.mountpoint), quoted(source)));
  return config;
}

}  // namespace weightfs::service
