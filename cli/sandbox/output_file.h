// A file that a confined command writes. It gets its name when it is complete; until then it has a temporary one. The
// broker renames or removes it, because a rule that permits this in a directory would permit it for all files there.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/os/descriptor.h"
#include "base/result.h"
#include "cli/sandbox/broker.h"

namespace weightfs::sandbox {

/// The request to rename the file.
inline constexpr char kPublishOutputFile = 'o';

class OutputFile {
 public:
  /// Creates a file with a temporary name in the directory of `path`. Fails with io; also if `path` exists and is not a
  /// regular file.
  static Result<std::unique_ptr<OutputFile>> create(const std::string& path);

  /// Removes the file if it is not published, unless a broker does that.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Replies to requests, and removes the file at the end unless it is published. Runs in the broker, which is started
  /// after create().
  BrokerReply reply(const Broker::Request& request);

  /// From now on `broker` renames or removes the file. It must outlive the last call of publish().
  void use_broker(const Broker& broker) { broker_ = &broker; }

  /// Writes all bytes at an offset. Fails with io.
  Result<void> write(uint64_t offset, std::span<const std::byte> bytes) const;

  /// Writes the file to disk, and gives it its name, replacing an existing file. Fails with io.
  Result<void> publish();

 private:
  OutputFile(std::string name, std::string path, std::string temporary, Descriptor file)
      : name_(std::move(name)), path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

  int rename_file();

  const std::string name_;       // for messages: as the user wrote it
  const std::string path_;       // absolute, because the broker has another working directory
  const std::string temporary_;  // the same
  const Descriptor file_;        // closed in the broker
  const Broker* broker_ = nullptr;
  bool published_ = false;
};

}  // namespace weightfs::sandbox
