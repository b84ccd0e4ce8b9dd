#include "cli/sandbox/output_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/files/file_io.h"
#include "base/os/system_error.h"
#include "base/text.h"
#include "sources/location.h"

namespace weightfs::sandbox {
namespace {

Result<std::string> absolute_output(const std::string& path) {
  return absolute_path(path).map_error([](const Error& error) { return Error{Code::io, error.message}; });
}

// A name beside `absolute` that does not exist.
Result<std::string> temporary_name(const std::string& absolute) {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) return failure(io_error("random number"));
  return (std::filesystem::path(absolute).parent_path() / fmt::format(".weightfs-{:016x}", number)).string();
}

std::optional<struct stat> status_of_path(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 ? std::optional(found) : std::nullopt;
}

}  // namespace

Output::~Output() {
  if (broker_ == nullptr && !published_) remove();
}

void Output::remove() const {
  std::error_code ignored;
  std::filesystem::remove_all(temporary_, ignored);
}

BrokerReply Output::reply(const Broker::Request& request) {
  if (request.letter == kPublishOutputFile) return {rename_now()};
  if (request.letter != Broker::kEnd) return {EINVAL};
  if (!published_) remove();
  return {};
}

Result<void> Output::rename() {
  const int error = broker_ == nullptr ? rename_now() : TRY(broker_->ask(kPublishOutputFile)).status;
  if (error != 0) return failure(io_error(name_, error));
  return {};
}

// Returns 0 or the errno.
int Output::rename_now() {
  if (published_) return EINVAL;
  const int error = existing_ == Existing::kept                        ? rename_to_new_name()
                    : ::rename(temporary_.c_str(), path_.c_str()) == 0 ? 0
                                                                       : errno;
  published_ = error == 0;
  return error;
}

// Some file systems cannot rename without replacing; a link never replaces.
int Output::rename_to_new_name() const {
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  if (::link(temporary_.c_str(), path_.c_str()) != 0) return errno;
  ::unlink(temporary_.c_str());
  return 0;
}

Result<std::unique_ptr<OutputFile>> OutputFile::create(const std::string& path, Existing existing) {
  const std::string absolute = TRY(absolute_output(path));
  const auto found = status_of_path(absolute);
  if (path.ends_with('/') || (found && !S_ISREG(found->st_mode)))
    return failure(Code::io, fmt::format("{}: not a regular file", path));
  if (found && existing == Existing::kept)
    return failure(Code::io, fmt::format("{}: exists; use --force to replace it", path));
  std::string temporary = TRY(temporary_name(absolute));
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file) return failure(io_error(path));
  return std::unique_ptr<OutputFile>(new OutputFile(path, absolute, std::move(temporary), existing, std::move(file)));
}

Result<void> OutputFile::write(uint64_t offset, std::span<const std::byte> bytes) const {
  if (!write_fully(file_.number(), offset, bytes)) return failure(io_error(name()));
  return {};
}

Result<void> OutputFile::publish() {
  if (::fsync(file_.number()) != 0) return failure(io_error(name()));
  return rename();
}

Result<std::unique_ptr<OutputDirectory>> OutputDirectory::create(const std::string& path) {
  std::string without_slash = path;
  while (without_slash.size() > 1 && without_slash.ends_with('/')) without_slash.pop_back();
  const std::string absolute = TRY(absolute_output(without_slash));
  if (const auto found = status_of_path(absolute)) {
    std::error_code error;
    if (!S_ISDIR(found->st_mode) || !std::filesystem::is_empty(absolute, error) || error)
      return failure(Code::io, fmt::format("{}: exists and is not an empty directory", path));
  }
  std::string temporary = TRY(temporary_name(absolute));
  if (::mkdir(temporary.c_str(), 0777) != 0) return failure(io_error(path));
  Descriptor directory(::open(temporary.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!directory) {
    const Error error = io_error(path);
    ::rmdir(temporary.c_str());
    return failure(error);
  }
  return std::unique_ptr<OutputDirectory>(
      new OutputDirectory(path, absolute, std::move(temporary), std::move(directory)));
}

Result<Descriptor> OutputDirectory::create_file(const std::string& path) const {
  const auto about = [&] { return io_error(fmt::format("{}/{}", name(), printable(path))); };
  for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1))
    if (::mkdirat(directory_.number(), path.substr(0, slash).c_str(), 0777) != 0 && errno != EEXIST)
      return failure(about());
  Descriptor file(
      ::openat(directory_.number(), path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file) return failure(about());
  return file;
}

Result<void> OutputDirectory::publish() {
  if (::syncfs(directory_.number()) != 0) return failure(io_error(name()));
  return rename();
}

}  // namespace weightfs::sandbox
