#include "sources/disk_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <optional>

#include "base/os/mounts.h"
#include "base/text.h"

namespace weightfs {
namespace {

class ListedFile final : public Source {
 public:
  ListedFile(Location location, const struct stat& listed)
      : size_(FileStatus(listed).size),
        occupied_(FileStatus(listed).occupied),
        opened_([location = std::move(location), size = listed.st_size] { return open_as_listed(location, size); }) {}

  uint64_t size() const override { return size_; }
  uint64_t occupied() const override { return occupied_; }
  std::string identity() const override {
    const auto opened = opened_.get();
    return opened ? (*opened)->identity() : "";
  }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return TRY(opened_.get())->read(offset, out);
  }
  Result<Place> place(uint64_t offset, Opens opens) const override {
    auto opened = opened_.peek();
    if (!opened && opens == Opens::files) opened = TRY(opened_.get());
    if (opened) return (*opened)->place(offset, opens);
    return Place{.length = bytes_after(offset), .is_ready = true};
  }

 private:
  static Result<SourcePtr> open_as_listed(const Location& location, off_t size) {
    SourcePtr file = TRY(location.open());
    if (file->size() == static_cast<uint64_t>(size)) return file;
    return changed_file(fmt::format("{}: {} bytes, {} when listed", location.path(), file->size(), size));
  }

  const uint64_t size_;
  const uint64_t occupied_;
  Later<SourcePtr> opened_;
};

// Lists all files below a directory.
class PartLister {
 public:
  explicit PartLister(Location top) : top_(std::move(top)) { pending_.emplace_back(); }

  Result<std::vector<Part>> list() {
    while (!pending_.empty()) {
      const std::string directory = std::move(pending_.back());
      pending_.pop_back();
      TRY_VOID(list_directory(directory));
    }
    std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) { return a.path < b.path; });
    return std::move(parts_);
  }

 private:
  // `shown` is relative to the top. A subdirectory that cannot be listed is skipped.
  Result<void> list_directory(const std::string& shown) {
    const Location directory = shown.empty() ? top_ : top_ / shown;
    if (std::count(shown.begin(), shown.end(), '/') >= kMaxDepth)
      return failure(Code::unsupported, fmt::format("{}: directories more than {} deep", top_.path(), kMaxDepth));
    const auto opened = directory.root->open(directory.name, OpenFor::list);
    if (!opened && !shown.empty()) return {};
    if (!opened) return tl::unexpected(opened.error());
    for (const DirectoryEntry& entry : TRY(entries_of(opened->descriptor))) {
      if (parts_.size() == kMaxMembers)
        return failure(Code::unsupported, fmt::format("{}: more than {} files", top_.path(), kMaxMembers));
      add(opened->descriptor.number(), entry.name,
          shown.empty() ? entry.name : fmt::format("{}/{}", shown, entry.name));
    }
    return {};
  }

  void add(int directory, const std::string& name, const std::string& shown) {
    struct stat found {};
    if (::fstatat(directory, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (S_ISREG(found.st_mode)) {
      parts_.push_back(Part{shown, Later<SourcePtr>::of(listed_file(top_ / shown, found))});
    } else if (S_ISLNK(found.st_mode)) {
      std::array<char, PATH_MAX> target{};
      const ssize_t length = ::readlinkat(directory, name.c_str(), target.data(), target.size());
      if (length <= 0) return;
      Part link{shown, Later<SourcePtr>::of(in_memory(""))};
      link.link_target.assign(target.data(), static_cast<size_t>(length));
      parts_.push_back(std::move(link));
    } else if (S_ISDIR(found.st_mode) && !mounts_.is_weightfs(found.st_dev)) {
      // A weightfs mount below is skipped, because it might show this directory.
      pending_.push_back(shown);
    }
  }

  Location top_;
  Mounts mounts_ = Mounts::now();
  std::vector<std::string> pending_;  // directories to list, relative to the top
  std::vector<Part> parts_;
};

}  // namespace

namespace {

// The directory in the text of a symbolic link; nothing if it is not a link.
std::optional<std::string> link_directory(const Location& location) {
  auto text = link_text(location);
  if (text) text->resize(text->rfind('/') + 1);
  return text;
}

}  // namespace

Location Location::operator/(std::string_view entry) const {
  return {root, name.empty() ? std::string(entry) : fmt::format("{}/{}", name, entry)};
}

Location Location::parent() const {
  const size_t slash = name.rfind('/');
  return {root, slash == name.npos ? "" : name.substr(0, slash)};
}

std::string Location::file_name() const {
  const std::string whole = path();
  return whole.substr(whole.rfind('/') + 1);
}

std::optional<std::string> link_text(const Location& location) {
  const auto directory = location.root->open(location.parent().name, OpenFor::status);
  if (!directory) return std::nullopt;
  std::array<char, PATH_MAX> target{};
  const std::string name = location.name.substr(location.name.rfind('/') + 1);
  const ssize_t length = ::readlinkat(directory->descriptor.number(), name.c_str(), target.data(), target.size());
  if (length <= 0) return std::nullopt;
  return std::string(target.data(), static_cast<size_t>(length));
}

bool is_directory(const Location& location) {
  const auto found = location.examine();
  return found && S_ISDIR(found->st_mode);
}

bool is_store(const Location& location) {
  return is_directory(location / "manifests") && is_directory(location / "blobs");
}

Time modified(const struct stat& status) {
  constexpr Time kMaxSeconds = 9'000'000'000;
  return std::clamp<Time>(status.st_mtim.tv_sec, -kMaxSeconds, kMaxSeconds) * 1'000'000'000 + status.st_mtim.tv_nsec;
}

SourcePtr listed_file(Location location, const struct stat& listed) {
  return std::make_shared<ListedFile>(std::move(location), listed);
}

bool is_forbidden(const Error& error) { return error.code == Code::forbidden; }

Result<std::vector<std::string>> DiskFolder::names() const {
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : TRY(directory_.root->list(directory_.name))) {
    if (entry.type == DT_DIR) continue;
    // An entry that cannot be examined is not counted as a regular file.
    const auto found = entry.type == DT_REG ? Result<struct stat>() : (directory_ / entry.name).examine();
    if (entry.type == DT_REG || (found && S_ISREG(found->st_mode))) names.push_back(entry.name);
  }
  return names;
}

Result<std::vector<Part>> DiskFolder::parts() const { return PartLister(directory_).list(); }

Result<SourcePtr> DiskFolder::open(std::string_view name) const {
  if (!is_file_name(name))
    return failure(Code::corrupt, fmt::format("{} is not the name of a file beside the container", quoted(name)));
  return (directory_ / name).open();
}

Result<SourcePtr> DiskFolder::open_below(std::string_view path, std::string_view referrer) const {
  const auto beside = path.find('/') == path.npos ? link_directory(directory_ / path) : std::nullopt;
  if (beside && beside == link_directory(directory_ / referrer)) return (directory_ / path).open();
  return open_file(TRY(inside_.get()), std::string(path));
}

}  // namespace weightfs
