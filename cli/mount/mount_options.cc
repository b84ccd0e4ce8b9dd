#include "cli/mount/mount_options.h"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/text.h"
#include "cli/console/suggestions.h"
#include "cli/options/number.h"
#include "cli/verbs.h"

namespace weightfs {
namespace {

constexpr unsigned kLongestIdleS = 365 * 24 * 60 * 60;

Result<void> wrong(const std::string& value, const char* what) {
  return failure(Code::unsupported, str(quoted(value), " ", what));
}

// By name or by number; the largest one means nobody to the system (chown(2)).
template <class Id>
std::optional<Id> id_of(const std::string& text) {
  const auto number = number_of<Id>(text);
  return number == std::numeric_limits<Id>::max() ? std::nullopt : number;
}

Result<void> take_user(uid_t& user, const std::string& value) {
  const passwd* entry = ::getpwnam(value.c_str());
  const auto number = id_of<uid_t>(value);
  if (entry == nullptr && !number) return wrong(value, "is no user");
  user = entry != nullptr ? entry->pw_uid : *number;
  return {};
}

Result<void> take_group(gid_t& group, const std::string& value) {
  const struct group* entry = ::getgrnam(value.c_str());
  const auto number = id_of<gid_t>(value);
  if (entry == nullptr && !number) return wrong(value, "is no group");
  group = entry != nullptr ? entry->gr_gid : *number;
  return {};
}

Result<void> take_mask(mode_t& mask, const std::string& value) {
  const auto number = number_of<mode_t>(value, 8);
  if (!number || *number > 0777) return wrong(value, "is no mask (octal: 027)");
  mask = *number;
  return {};
}

Result<void> take_level(Level& level, const std::string& value) {
  const auto named = level_named(value);
  if (!named) return wrong(value, "is no level; there are error, warning, info, debug");
  level = *named;
  return {};
}

Result<void> take_idle_timeout(std::chrono::seconds& timeout, const std::string& value) {
  const auto seconds = number_of<unsigned>(value);
  if (!seconds || *seconds > kLongestIdleS) return wrong(value, "is no number of seconds (0: never)");
  timeout = std::chrono::seconds(*seconds);
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

// What fstab(5) and mount(8) have beside our options, and what their helpers are given: of no meaning here, or already
// true. mount(8) adds rw when nobody said ro.
bool is_of_fstab(const std::string& word) {
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

std::string unknown(const std::string& word, const Options& options) {
  std::vector<std::string> known;
  for (const Option& option : options) known.push_back(option.word());
  const std::string near = did_you_mean(word.substr(0, word.find('=')), known);
  return str("unknown mount option ", quoted(word), near.empty() ? "; known are " + words_of(options) : near);
}

Result<void> take_one(const Options& all, const std::string& word, Words words) {
  constexpr std::array kAlways = {"ro", "nosuid", "nodev", "default_permissions"};
  constexpr std::array kNever = {"rw", "suid", "dev"};
  const auto is = [&](const char* each) { return word == each; };
  if (TRY(take_word(all, word)) || std::any_of(kAlways.begin(), kAlways.end(), is)) return {};
  if (word == "remount")
    return failure(Code::unsupported, "a mount cannot be changed while it is mounted: unmount it, and mount it again");
  if (words != Words::ours && is_of_fstab(word)) return {};
  if (std::any_of(kNever.begin(), kNever.end(), is))
    return failure(Code::unsupported, str("-o ", word, ": every mount is ro, nosuid and nodev"));
  if (words == Words::sloppy_fstab) return {};
  return failure(Code::unsupported, unknown(word, all));
}

}  // namespace

bool is_for_others(const MountOptions& options) {
  return std::find(options.kernel.begin(), options.kernel.end(), "allow_other") != options.kernel.end();
}

Options own_mount_options(MountOptions& options) {
  Ownership& ownership = options.ownership;
  return {
      kernel_flag(options.kernel, "allow-other",
                  "let other users in, too (/etc/fuse.conf has to allow it to ordinary users)"),
      kernel_flag(options.kernel, "allow-root", "let root in, too"),
      {"uid", "USER", "who owns what is shown (who mounts)",
       [&](const std::string& value) { return take_user(ownership.user, value); }},
      {"gid", "GROUP", "the group that owns it",
       [&](const std::string& value) { return take_group(ownership.group, value); }},
      {"umask", "MASK", "permissions that are taken away, in octal (027: others may not read)",
       [&](const std::string& value) { return take_mask(ownership.mask, value); }},
      {"idle-timeout", "SECONDS", "unmount when nobody has used it for so long (0: never)",
       [&](const std::string& value) { return take_idle_timeout(options.idle_timeout, value); }},
      {"log-level", "LEVEL", "say what is as bad as this, or worse: error, warning, info, debug (info)",
       [&](const std::string& value) { return take_level(options.log_level, value); }},
      kernel_flag(options.kernel, "auto-unmount", "unmount when the server dies"),
      kernel_flag(options.kernel, "noexec", "nothing in it may be executed"),
      kernel_flag(options.kernel, "noatime", "accepted; nothing is ever written"),
  };
}

Options all_mount_options(MountOptions& options) {
  Options all = opening_options(options.opening);
  for (Options more : {store_options(options.storing), own_mount_options(options)})
    std::move(more.begin(), more.end(), std::back_inserter(all));
  return all;
}

Result<void> take_words(MountOptions& options, std::string_view text, Words words) {
  const Options all = all_mount_options(options);
  for (const std::string& word : split_words(text)) TRY_VOID(take_one(all, word, words));
  return {};
}

}  // namespace weightfs
