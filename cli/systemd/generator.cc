#include "cli/systemd/generator.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "base/text.h"
#include "cli/systemd/config.h"

namespace weightfs::service {
namespace {

namespace files = std::filesystem;

constexpr const char* kGeneratorName = "weightfs-generator";

// At boot there is no other log, and standard error is not connected. Does not create /dev/kmsg in containers without
// it.
void log_line(const std::string& text) {
  const std::string line = printable(text);
  std::fprintf(stderr, "%s: %s\n", kGeneratorName, line.c_str());
  if (std::getenv("WEIGHTFS_MOUNTS") == nullptr)
    std::ofstream("/dev/kmsg", std::ios::in) << "<4>" << kGeneratorName << ": " << line << std::endl;
}

bool is_unit_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == ':' || c == '_' || c == '.';
}

// systemd.unit(5), "String escaping for inclusion in unit names", of an absolute path other than /.
std::string unit_name_of(const std::string& path) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 1; i < path.size(); ++i) {
    const char c = path[i];
    const auto byte = static_cast<unsigned char>(c);
    if (c == '/')
      out += '-';
    else if (is_unit_name_char(c) && !(c == '.' && i == 1))
      out += c;
    else
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
  }
  return out;
}

// A value in a unit file is the rest of its line, in which % begins a specifier and a backslash at the end joins the
// next line.
Result<std::string> unit_value(const std::string& path) {
  if (!is_utf8(path) || path.ends_with('\\') || path.ends_with(' ') || printable(path) != path)
    return failure(Code::unsupported, fmt::format("MOUNTPOINT={} cannot be written to a unit file", quoted(path)));
  std::string out;
  for (const char c : path) out += c == '%' ? std::string("%%") : std::string(1, c);
  return out;
}

// An existing unit comes from another config or /etc/fstab, and is not replaced.
Result<void> write(const files::path& file, const std::string& text) {
  std::FILE* out = std::fopen(file.c_str(), "wxe");
  if (out == nullptr)
    return failure(Code::io, fmt::format("{}{}", file.filename().string(),
                                         errno == EEXIST ? ": already exists, from another config or /etc/fstab"
                                                         : ": cannot write"));
  const bool written = std::fputs(text.c_str(), out) >= 0;
  if (std::fclose(out) != 0 || !written) return failure(Code::io, fmt::format("{}: cannot write", file.string()));
  return {};
}

// No default dependencies: they would order the units before local-fs.target, but the service starts after it.
constexpr const char* kUnit =
    "# Made by weightfs-generator.\n"
    "[Unit]\n"
    "Documentation=man:weightfs(1)\n"
    "DefaultDependencies=no\n"
    "Conflicts=umount.target\n"
    "Before=umount.target\n"
    "After=sysinit.target\n";

Result<void> write_units(const Config& config, const files::path& directory) {
  const std::string where = TRY(unit_value(config.mountpoint));
  const std::string unit = unit_name_of(config.mountpoint);
  constexpr size_t kMaxNameBytes = 255;
  if (unit.size() + std::string_view(".automount").size() > kMaxNameBytes)
    return failure(Code::unsupported,
                   fmt::format("MOUNTPOINT={} is too long for a unit name", quoted(config.mountpoint)));
  const std::string head = fmt::format("{}Description=weightfs {}\nSourcePath={}/{}.conf\n\n", kUnit, config.name,
                                       config_directory(), config.name);
  TRY_VOID(write(directory / (unit + ".mount"),
                 fmt::format("{}[Mount]\nWhat={}\nWhere={}\nType=weightfs\nOptions=service={}\nTimeoutSec=infinity\n",
                             head, config.name, where, config.name)));
  TRY_VOID(write(directory / (unit + ".automount"), fmt::format("{}[Automount]\nWhere={}\n", head, where)));
  std::error_code error;
  const files::path wants = directory / "multi-user.target.wants";
  files::create_directory(wants, error);
  files::create_symlink(fmt::format("../{}.automount", unit), wants / (unit + ".automount"), error);
  if (error) return failure(Code::io, fmt::format("{}: {}", wants.string(), error.message()));
  return {};
}

// The file name becomes the instance name of the service.
Result<void> check_name(const std::string& name) {
  if (!name.empty() && name.size() <= 200 &&
      std::all_of(name.begin(), name.end(), [](char c) { return is_unit_name_char(c) || c == '-' || c == '@'; }))
    return {};
  return failure(Code::unsupported, "invalid service name; use letters, digits and :-_.@ only");
}

Result<void> generate_for(const files::path& file, const files::path& directory) {
  const Config config = TRY(read_config(file));
  if (!config.automount) return {};
  TRY_VOID(check_name(config.name).map_error([&](const Error& error) {
    return Error{error.code, fmt::format("{}: {}", file.string(), error.message)};
  }));
  return write_units(config, directory).map_error([&](const Error& error) {
    return Error{error.code, fmt::format("{}: {}", file.string(), error.message)};
  });
}

std::set<files::path> config_files() {
  std::set<files::path> found;
  std::error_code error;
  for (files::directory_iterator entry(config_directory(), error), end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".conf") found.insert(entry->path());
  return found;
}

}  // namespace

bool is_generator(std::string_view program) { return program.substr(program.rfind('/') + 1) == kGeneratorName; }

Exit generate(int argc, char** argv) {
  if (argc != 2 && argc != 4) {
    log_line("usage: weightfs-generator DIR [DIR DIR]");
    return Exit::usage;
  }
  for (const files::path& file : config_files())
    if (const auto done = generate_for(file, argv[1]); !done) log_line(done.error().message);
  return Exit::ok;
}

}  // namespace weightfs::service
