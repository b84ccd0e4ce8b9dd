#include "cli/sandbox/output_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/os/system_error.h"
#include "sources/location.h"

namespace weightfs::sandbox {

Result<std::unique_ptr<OutputFile>> OutputFile::create(const std::string& path) {
  const auto absolute = absolute_path(path);
  if (!absolute) return failure(Code::io, absolute.error().message);
  struct stat found {};
  const bool exists = ::lstat(absolute->c_str(), &found) == 0;
  if (path.ends_with('/') || (exists && !S_ISREG(found.st_mode)))
    return failure(Code::io, fmt::format("{}: not a regular file", path));
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) return failure(io_error("random number"));
  std::string temporary =
      (std::filesystem::path(*absolute).parent_path() / fmt::format(".weightfs-{:016x}", number)).string();
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file) return failure(io_error(path));
  return std::unique_ptr<OutputFile>(new OutputFile(path, *absolute, std::move(temporary), std::move(file)));
}

OutputFile::~OutputFile() {
  if (broker_ == nullptr && !published_) ::unlink(temporary_.c_str());
}

BrokerReply OutputFile::reply(const Broker::Request& request) {
  if (request.letter == kPublishOutputFile) return {rename_file()};
  if (request.letter != Broker::kEnd) return {EINVAL};
  if (!published_) ::unlink(temporary_.c_str());
  return {};
}

Result<void> OutputFile::write(uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_.number(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure(io_error(name_));
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return {};
}

Result<void> OutputFile::publish() {
  if (::fsync(file_.number()) != 0) return failure(io_error(name_));
  const int error = broker_ == nullptr ? rename_file() : TRY(broker_->ask(kPublishOutputFile)).status;
  if (error != 0) return failure(io_error(name_, error));
  return {};
}

// Returns 0 or the errno.
int OutputFile::rename_file() {
  if (published_) return EINVAL;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return errno;
  published_ = true;
  return 0;
}

}  // namespace weightfs::sandbox
