#include "cache/store/side_files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/files/file_io.h"
#include "base/os/system_error.h"

namespace weightfs::store {
namespace {

constexpr int kMaxCreations = 100;  // to create a file that no other process sweeps

}  // namespace

std::unique_ptr<SideFile> SideFile::create(const FoldersPtr& folders, std::string_view kind) {
  const Descriptor& making = *folders->making;
  for (int attempt = 0; attempt < kMaxCreations; ++attempt) {
    std::string name = fmt::format("{}-{}.{}", kind, random_hex(), boot_id());
    Descriptor file(::openat(making.number(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return nullptr;
    std::unique_ptr<SideFile> created(new SideFile(folders, std::move(file), std::move(name)));
    // The lock tells other processes that the file is being written; before, one of them may have swept it.
    if (try_lock(created->number()) && is_same_file(making, created->name_, created->number())) return created;
  }
  return nullptr;
}

SideFile::~SideFile() {
  if (!is_published_) ::unlinkat(folders_->making->number(), name_.c_str(), 0);
}

// Not flushed to the disk: entries that a crash of the machine loses are absent.
void SideFile::publish(const char* folder, const std::string& path) {
  ::mkdirat(folders_->root->number(), folder, 0700);  // a failure shows when the file is renamed
  std::ignore = move(*folders_->root, path);
}

bool SideFile::move(const Descriptor& folder, const std::string& path) {
  is_published_ = ::renameat(folders_->making->number(), name_.c_str(), folder.number(), path.c_str()) == 0;
  return is_published_;
}

void MapWriter::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto block = bytes.first(static_cast<size_t>(std::min<uint64_t>(bytes.size(), kBlock)));
    entries_.push_back(entry_of(block));
    size_ += block.size();
    bytes = bytes.subspan(block.size());
    if (entries_.size() == kEntriesPerRead) write_entries();
  }
}

void MapWriter::write_entries() {
  if (file_ == nullptr && !has_failed_) file_ = SideFile::create(folders_, "map");
  has_failed_ = file_ == nullptr || !store::write_entries(file_->number(), written_, entries_);
  if (has_failed_) file_ = nullptr;
  written_ += entries_.size();
  entries_.clear();
}

void MapWriter::publish(const Digest& blob, DiskQuota& quota) {
  if (size_ <= kWorthAMap || !quota.try_reserve(*folders_, map_size(size_))) return;
  write_entries();
  if (!has_failed_ && write_map_header(file_->number(), {MapOf::blob, size_, blob_identity(blob, size_)}))
    file_->publish(kSumsFolder, sums_file(blob));
}

SharedDescriptor open_map(const Folders& folders, const Digest& blob, uint64_t size) {
  if (size <= kWorthAMap) return nullptr;
  auto file = std::make_shared<const Descriptor>(
      ::openat(folders.root->number(), sums_file(blob).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  const MapHeader header{MapOf::blob, size, blob_identity(blob, size)};
  return *file && read_map_header(file->number()) == header ? file : nullptr;
}

}  // namespace weightfs::store
