#include "cache/store/list_writer.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "base/files/file_io.h"
#include "base/os/system_error.h"
#include "cache/store/file_range.h"

namespace weightfs::store {

std::unique_ptr<ListWriter> ListWriter::create(FoldersPtr folders, DiskQuota& quota, std::string file_name,
                                               uint64_t size) {
  const uint64_t list_size = BlockListLayout(size).list_size();
  if (!quota.try_reserve(*folders, list_size)) return nullptr;
  Descriptor file(
      ::openat(folders->making->number(), file_name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  // The lock tells other processes that the file is being written.
  if (!file || !try_lock(file.number()) || !allocate(file.number(), 0, list_size)) {
    if (file) ::unlinkat(folders->making->number(), file_name.c_str(), 0);
    return nullptr;
  }
  return std::unique_ptr<ListWriter>(new ListWriter(std::move(folders), std::move(file), std::move(file_name), size));
}

ListWriter::ListWriter(FoldersPtr folders, Descriptor file, std::string file_name, uint64_t size)
    : folders_(std::move(folders)),
      file_(std::move(file)),
      file_name_(std::move(file_name)),
      builder_(size, [this](uint64_t offset, std::span<const std::byte> bytes) -> Result<void> {
        if (write_fully(file_.number(), offset, bytes)) return {};
        return failure(io_error("cannot write a block list"));
      }) {}

ListWriter::~ListWriter() {
  if (!is_published_) ::unlinkat(folders_->making->number(), file_name_.c_str(), 0);
}

void ListWriter::add(std::span<const std::byte> bytes) { has_failed_ = has_failed_ || !builder_.add(bytes); }

// Not flushed to the disk: blocks that a crash of the machine loses do not match the root.
void ListWriter::publish(const Digest& blob) {
  if (has_failed_ || !builder_.finish()) return;
  const int root = folders_->root->number();
  ::mkdirat(root, kListsFolder, 0700);  // a failure shows when the file is renamed
  is_published_ = ::renameat(folders_->making->number(), file_name_.c_str(), root, list_file(blob).c_str()) == 0;
}

Result<Digest> copy_list(const Folders& folders, const Digest& blob, uint64_t size,
                         const BlockListBuilder::Write& write) {
  const std::string path = list_file(blob);
  auto file = std::make_shared<const Descriptor>(
      ::openat(folders.root->number(), path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!*file || ::fstat(file->number(), &status) != 0 || !S_ISREG(status.st_mode))
    return failure(Code::not_found, fmt::format("{}: no block list", blob.hex()));
  const auto list =
      TRY(BlockList::open(std::make_shared<FileRange>(std::move(file), static_cast<uint64_t>(status.st_size))));
  if (list->size() != size)
    return failure(Code::corrupt, fmt::format("the block list is of a file of {} bytes, not {}", list->size(), size));
  TRY_VOID(list->copy(write));
  return list->digest();
}

}  // namespace weightfs::store
