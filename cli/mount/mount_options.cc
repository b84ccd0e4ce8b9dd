#include "cli/mount/mount_options.h"

#include <fmt/core.h>
#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/text.h"
#include "cli/console/suggestions.h"
#include "cli/options/open_options.h"
#include "cli/verbs.h"

namespace weightfs {
namespace {

constexpr unsigned kMaxSeconds = 365 * 24 * 60 * 60;

Result<void> invalid(const std::string& value, const char* what) {
  return failure(Code::unsupported, fmt::format("{} {}", quoted(value), what));
}

// A name or a number. The largest number is not a valid id (chown(2)).
template <class Id>
std::optional<Id> id_of(const std::string& text) {
  const auto number = parse_number<Id>(text);
  return number == std::numeric_limits<Id>::max() ? std::nullopt : number;
}

Result<void> take_user(uid_t& user, const std::string& value) {
  const passwd* entry = ::getpwnam(value.c_str());
  const auto number = id_of<uid_t>(value);
  if (entry == nullptr && !number) return invalid(value, "is not a user");
  user = entry != nullptr ? entry->pw_uid : *number;
  return {};
}

Result<void> take_group(gid_t& group, const std::string& value) {
  const struct group* entry = ::getgrnam(value.c_str());
  const auto number = id_of<gid_t>(value);
  if (entry == nullptr && !number) return invalid(value, "is not a group");
  group = entry != nullptr ? entry->gr_gid : *number;
  return {};
}

Result<void> take_mask(mode_t& mask, const std::string& value) {
  const auto number = parse_number<mode_t>(value, 8);
  if (!number || *number > 0777) return invalid(value, "is not an octal mask such as 027");
  mask = *number;
  return {};
}

Result<void> take_level(Level& level, const std::string& value) {
  const auto named = parse_level(value);
  if (!named) return invalid(value, "is not a log level; use error, warning, info or debug");
  level = *named;
  return {};
}

Result<void> take_passthrough(bool& passthrough, const std::string& value) {
  if (value != "auto" && value != "off") return invalid(value, "is not valid; use auto or off");
  passthrough = value == "auto";
  return {};
}

Result<void> take_prefetch(PrefetchMode& mode, const std::string& value) {
  if (value != "off" && value != "auto" && value != "all") return invalid(value, "is not valid; use off, auto or all");
  mode = value == "off" ? PrefetchMode::off : value == "auto" ? PrefetchMode::in_order : PrefetchMode::all;
  return {};
}

Result<void> take_seconds(std::chrono::seconds& time, const std::string& value) {
  const auto seconds = parse_number<unsigned>(value);
  if (!seconds || *seconds > kMaxSeconds) return invalid(value, "is not a number of seconds; 0 means never");
  time = std::chrono::seconds(*seconds);
  return {};
}

Result<void> take_shard_size(uint64_t& size, const std::string& value) {
  constexpr uint64_t kMinShardSize = uint64_t{1} << 20;
  const auto bytes = parse_size(value);
  if (!bytes || (*bytes > 0 && *bytes < kMinShardSize))
    return invalid(value, "is not a size; use a number from 1M on, such as 2G, or 0 for no shards");
  size = *bytes;
  return {};
}

// For the kernel and fusermount3.
Option kernel_flag(std::vector<std::string>& kernel, const std::string& name, std::string help) {
  Option option{name, "", std::move(help), {}};
  option.take = [&kernel, word = option.word()](const std::string&) -> Result<void> {
    if (std::find(kernel.begin(), kernel.end(), word) == kernel.end()) kernel.push_back(word);
    return {};
  };
  return option;
}

// Options of fstab(5) and mount(8) that are ignored here: they have no meaning, or always hold. mount(8) adds rw unless
// ro is given.
bool is_fstab_word(const std::string& word) {
  constexpr std::array kWords = {"rw",          "suid",          "dev",      "exec",       "async",      "sync",
                                 "dirsync",     "auto",          "noauto",   "user",       "users",      "nouser",
                                 "nousers",     "owner",         "noowner",  "group",      "nogroup",    "nofail",
                                 "_netdev",     "atime",         "relatime", "diratime",   "norelatime", "nodiratime",
                                 "strictatime", "nostrictatime", "lazytime", "nolazytime", "mand",       "nomand",
                                 "silent",      "loud",          "defaults"};
  constexpr std::array kBeginnings = {"x-", "X-", "comment=", "user="};
  return std::any_of(kWords.begin(), kWords.end(), [&](const char* each) { return word == each; }) ||
         std::any_of(kBeginnings.begin(), kBeginnings.end(), [&](const char* each) { return word.starts_with(each); });
}

std::string unknown_option(const std::string& word, const Options& options) {
  std::vector<std::string> known;
  for (const Option& option : options) known.push_back(option.word());
  const std::string near = did_you_mean(word.substr(0, word.find('=')), known);
  return fmt::format("unknown mount option {}{}", quoted(word),
                     near.empty() ? "; known options: " + option_names(options) : near);
}

Result<void> take_one(const Options& all, const std::string& word, OptionOrigin origin) {
  constexpr std::array kAlways = {"ro", "nosuid", "nodev", "default_permissions"};
  constexpr std::array kNever = {"rw", "suid", "dev"};
  const auto is = [&](const char* each) { return word == each; };
  if (TRY(take_word(all, word)) || std::any_of(kAlways.begin(), kAlways.end(), is)) return {};
  if (word == "remount") return failure(Code::unsupported, "remount is not supported; unmount it and mount it again");
  if (origin != OptionOrigin::command_line && is_fstab_word(word)) return {};
  if (std::any_of(kNever.begin(), kNever.end(), is))
    return failure(Code::unsupported, fmt::format("-o {}: every mount is ro, nosuid and nodev", word));
  if (origin == OptionOrigin::sloppy_fstab) return {};
  return failure(Code::unsupported, unknown_option(word, all));
}

}  // namespace

bool is_for_others(const MountOptions& options) {
  return std::find(options.kernel.begin(), options.kernel.end(), "allow_other") != options.kernel.end();
}

Options own_mount_options(MountOptions& options) {
  fuse::Ownership& ownership = options.ownership;
  return {
      kernel_flag(options.kernel, "allow-other",
                  "allow access by other users; ordinary users need user_allow_other in /etc/fuse.conf"),
      kernel_flag(options.kernel, "allow-root", "allow access by root"),
      {"uid", "USER", "owner of the files (default: the mounting user)",
       [&](const std::string& value) { return take_user(ownership.user, value); }},
      {"gid", "GROUP", "group of the files (default: the mounting user's group)",
       [&](const std::string& value) { return take_group(ownership.group, value); }},
      {"umask", "MASK", "permission bits to remove, in octal; 027 removes access by others (default: 000)",
       [&](const std::string& value) { return take_mask(ownership.mask, value); }},
      {"idle-timeout", "SECONDS", "unmount after this long without use; 0 means never (default: 0)",
       [&](const std::string& value) { return take_seconds(options.idle_timeout, value); }},
      {"log-level", "LEVEL", "minimum severity to log: error, warning, info, debug (default: info)",
       [&](const std::string& value) { return take_level(options.log_level, value); }},
      {"prefetch", "off|auto|all",
       "what to download before it is read: nothing, the tensors after those read in order, everything (default: auto)",
       [&](const std::string& value) { return take_prefetch(options.prefetch, value); }},
      {"passthrough", "auto|off",
       "let the kernel read whole local files itself, where root or a service mounts (default: auto)",
       [&](const std::string& value) { return take_passthrough(options.passthrough, value); }},
      flag("require-complete", "fail if a part of the model is missing or cannot be read", options.require_complete),
      {"shard-size", "SIZE", "size of a file in views/sharded/, such as 2G; 0 means no such files (default: 5 GB)",
       [&](const std::string& value) { return take_shard_size(options.model_files.shard_size, value); }},
      layout_option(options.model_files.layout),
      {"follow", "SECONDS",
       "resolve names again, and list directories again, at this interval; 0 means never (default: 0)",
       [&](const std::string& value) { return take_seconds(options.follow, value); }},
      kernel_flag(options.kernel, "auto-unmount", "unmount when the server process dies"),
      kernel_flag(options.kernel, "noexec", "do not permit execution of files in the mount"),
      kernel_flag(options.kernel, "noatime", "accepted for compatibility; access times are never written"),
  };
}

Options all_mount_options(MountOptions& options) {
  Options all = all_source_options(options.open_options, options.store_flags);
  Options own = own_mount_options(options);
  std::move(own.begin(), own.end(), std::back_inserter(all));
  return all;
}

Result<void> parse_mount_options(MountOptions& options, std::string_view text, OptionOrigin origin) {
  const Options all = all_mount_options(options);
  for (const std::string& word : split_words(text)) TRY_VOID(take_one(all, word, origin));
  return {};
}

}  // namespace weightfs
