#include "cli/mount/mount_options.h"

#include <fmt/core.h>
#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/text.h"
#include "cli/options/open_options.h"
#include "cli/options/served_options.h"
#include "cli/verbs.h"
#include "report/text/suggestions.h"

namespace weightfs {
namespace {

// A name or a number. The largest number is not a valid id (chown(2)).
template <class Id>
std::optional<Id> id_of(const std::string& text) {
  const auto number = parse_number<Id>(text);
  return number == std::numeric_limits<Id>::max() ? std::nullopt : number;
}

std::optional<uid_t> parse_user(const std::string& text) {
  const passwd* const entry = ::getpwnam(text.c_str());
  return entry != nullptr ? entry->pw_uid : id_of<uid_t>(text);
}

std::optional<gid_t> parse_group(const std::string& text) {
  const struct group* const entry = ::getgrnam(text.c_str());
  return entry != nullptr ? entry->gr_gid : id_of<gid_t>(text);
}

std::optional<mode_t> parse_mask(const std::string& text) {
  const auto number = parse_number<mode_t>(text, 8);
  return number && *number <= 0777 ? number : std::nullopt;
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
  Options own = {
      kernel_flag(options.kernel, "allow-other",
                  "allow access by other users; ordinary users need user_allow_other in /etc/fuse.conf"),
      kernel_flag(options.kernel, "allow-root", "allow access by root"),
      parsed("uid", "USER", "owner of the files (default: the mounting user)", "is not a user", ownership.user,
             parse_user),
      parsed("gid", "GROUP", "group of the files (default: the mounting user's group)", "is not a group",
             ownership.group, parse_group),
      parsed("umask", "MASK", "permission bits to remove, in octal; 027 removes access by others (default: 000)",
             "is not an octal mask such as 027", ownership.mask, parse_mask),
      seconds("idle-timeout", "unmount after this long without use; 0 means never (default: 0)", kZeroIsNever,
              options.idle_timeout),
      choice("passthrough", "auto|off",
             "let the kernel read whole local files itself, where root or a service mounts (default: auto)", "valid",
             {{"auto", true}, {"off", false}}, options.passthrough),
      choice("io-uring", "auto|off",
             "with --offline, receive requests by io_uring if the kernel offers it (default: off)", "valid",
             {{"auto", true}, {"off", false}}, options.io_uring),
      kernel_flag(options.kernel, "auto-unmount", "unmount when the server process dies"),
      kernel_flag(options.kernel, "noexec", "do not permit execution of files in the mount"),
      kernel_flag(options.kernel, "noatime", "accepted for compatibility; access times are never written"),
  };
  Options served = served_options(
      {options.log_level, options.prefetch, options.require_complete, options.model_files, options.follow});
  std::move(served.begin(), served.end(), std::back_inserter(own));
  return own;
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
