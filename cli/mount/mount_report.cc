#include "cli/mount/mount_report.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <limits>
#include <system_error>

#include "base/source.h"
#include "base/text.h"
#include "base/values/json.h"
#include "cli/console/time.h"
#include "cli/mount/mount_point.h"
#include "cli/mount/status.h"
#include "cli/process/isolated.h"

namespace weightfs {
namespace {

constexpr size_t kLongestHead = 1 << 20;
constexpr uint64_t kMostValues = 100'000;
constexpr std::array kStates = {"serving", "dead", "not answering", "private", "covered", "not known"};

Map said(MountState state) {
  Map answer;
  answer.append("state", name_of(state));
  return answer;
}

// FUSE compares all three ids of each kind; what may be done in that user's name, that user may do to us.
bool become(uid_t user, gid_t group) {
  if (::setgroups(0, nullptr) != 0 || ::setresgid(group, group, group) != 0 || ::setresuid(user, user, user) != 0)
    return false;
  end_with_parent();
  return true;
}

MountState state_by(int error) {
  if (error == ENOTCONN || error == ECONNABORTED) return MountState::dead;
  return error == EACCES || error == EPERM ? MountState::foreign : MountState::unasked;
}

std::string read_head() {
  std::string text;
  const int file = ::open((std::string(kStatusDirectory) + "/status.json").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  std::array<char, 1 << 16> piece{};
  ssize_t count = 0;
  while (text.size() < kLongestHead && (count = ::read(file, piece.data(), piece.size())) > 0)
    text.append(piece.data(), static_cast<size_t>(count));
  ::close(file);
  return text;
}

// The status up to its list of blobs, which may be long, and comes last.
class Head final : public JsonEvents {
 public:
  bool scalar(Value value) override { return value_.scalar(std::move(value)); }
  bool unsigned_integer(uint64_t n) override { return value_.unsigned_integer(n); }
  bool string(std::string& text) override { return value_.string(text); }
  bool key(std::string& text) override {
    cut_ = depth_ == 1 && text == "blobs";
    return !cut_ && value_.key(text);
  }
  bool begin_object() override { return ++depth_ > 0 && value_.begin_object(); }
  bool end_object() override { return --depth_ >= 0 && value_.end_object(); }
  bool begin_array() override { return ++depth_ > 0 && value_.begin_array(); }
  bool end_array() override { return --depth_ >= 0 && value_.end_array(); }

  /// What there is of it, after reading has ended with that.
  std::optional<Map> take(const Result<void>& read) {
    if (!read && !(cut_ && value_.end_object())) return {};
    const Value whole = value_.take();
    const Map* map = std::get_if<Map>(&whole);
    return map == nullptr ? std::nullopt : std::optional<Map>(*map);
  }

 private:
  ValueBuilder value_{kMostValues};
  int depth_ = 0;
  bool cut_ = false;
};

// What we show of the status; whoever serves the mount may have written anything.
void copy_status(Map& answer) {
  const std::string text = read_head();
  Head head;
  const auto status = head.take(read_json(*in_memory(text), 0, text.size(), head));
  if (!status) return;
  for (const char* key : {"pid", "source", "since", "served_bytes"})
    if (const Value* found = status->find(key)) answer.set(key, *found);
  const Value* counters = status->find("counters");
  const Map* counts = counters == nullptr ? nullptr : std::get_if<Map>(counters);
  if (const Value* fetched = counts == nullptr ? nullptr : counts->find("bytes_fetched"))
    answer.set("bytes_fetched", *fetched);
}

// A server may name any process; nobody is to wait for another user's, or end it. That of root's mount may be
// anybody's. One in another pid namespace names the number that it has there, which here is somebody else's.
bool may_serve(uint64_t process, const Mount& mount) {
  struct stat found {};
  if (process == 0 || process > std::numeric_limits<pid_t>::max()) return false;
  const std::string about = str("/proc/", process);
  const uid_t user = mount.user.value_or(0);
  if (user != 0 && (::stat(about.c_str(), &found) != 0 || found.st_uid != user)) return false;
  std::error_code failed;
  for (std::filesystem::directory_iterator each(about + "/fd", failed), end; !failed && each != end;
       each.increment(failed)) {
    std::error_code gone;
    if (std::filesystem::read_symlink(each->path(), gone) == "/dev/fuse") return true;
  }
  return false;
}

// In a process of its own: it goes into the mount, and stays there if the server does not answer.
Map ask(const Mount& mount) {
  // That does not ask the server, and is done before we are somebody who may not come so far.
  const int root = ::open(mount.point.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return said(errno == ENOENT || errno == ENOTDIR ? MountState::covered : state_by(errno));
  if (mount_id_of("self", std::to_string(root)) != mount.id) return said(MountState::covered);
  if (::geteuid() == 0 && mount.user.value_or(0) != 0 && !become(*mount.user, mount.group.value_or(*mount.user)))
    return said(MountState::foreign);
  if (::fchdir(root) != 0) return said(state_by(errno));
  std::array<char, 32> pid{};
  const ssize_t length = ::getxattr(".", kPidXattr, pid.data(), pid.size());
  if (length < 0 && errno != ENODATA && errno != ERANGE) return said(state_by(errno));
  Map answer = said(MountState::serving);
  uint64_t number = 0;
  if (length > 0 && std::from_chars(pid.data(), pid.data() + length, number).ec == std::errc())
    answer.set("pid", number);
  copy_status(answer);
  if (const auto process = number_in(answer, "pid"); process && !may_serve(*process, mount)) answer.set("pid", Value());
  return answer;
}

MountState state_in(const Map& answer) {
  const auto name = text_in(answer, "state");
  for (size_t i = 0; i < kStates.size(); ++i)
    if (name == kStates.at(i)) return static_cast<MountState>(i);
  return MountState::unasked;
}

MountReport understood(const Mount& mount, const Reply& answer) {
  MountReport known{mount, MountState::silent, mount.source, {}, {}, {}, {}};
  if (!answer && answer.error() == NoAnswer::at_all) known.state = MountState::unasked;
  if (!answer) return known;
  known.state = state_in(*answer);
  constexpr size_t kLongestSource = 4096;  // PATH_MAX
  if (const auto source = text_in(*answer, "source"); source && source->size() <= kLongestSource)
    known.source = *source;
  if (const auto pid = number_in(*answer, "pid"); pid && *pid <= std::numeric_limits<pid_t>::max())
    known.server = static_cast<pid_t>(*pid);
  if (const auto since = text_in(*answer, "since")) known.since = time_in(*since);
  known.served_bytes = number_in(*answer, "served_bytes");
  known.fetched_bytes = number_in(*answer, "bytes_fetched");
  return known;
}

}  // namespace

const char* name_of(MountState state) { return kStates.at(static_cast<size_t>(state)); }

std::vector<MountReport> ask_mounts(const std::vector<Mount>& mounts) {
  std::vector<Question> questions;
  for (const Mount& mount : mounts) questions.emplace_back([&mount] { return ask(mount); });
  const auto answers = ask_apart(questions);
  std::vector<MountReport> known;
  for (size_t i = 0; i < mounts.size(); ++i) known.push_back(understood(mounts[i], answers[i]));
  return known;
}

}  // namespace weightfs
