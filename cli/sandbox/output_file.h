// What a confined command writes: a file, or a directory of files. It gets its name when it is complete; until then it
// has a temporary one. The broker renames or removes it, because a rule that permits this in a directory would permit
// it for all files there.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/os/descriptor.h"
#include "base/result.h"
#include "cli/sandbox/broker.h"

namespace weightfs::sandbox {

/// The request to rename the output.
inline constexpr char kPublishOutputFile = 'o';

/// Whether a file that exists is replaced.
enum class Existing { replaced, kept };

/// The temporary name and the name of an output.
class Output {
 public:
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Replies to requests, and removes the output at the end unless it is published. Runs in the broker, which is
  /// started after the output was created.
  BrokerReply reply(const Broker::Request& request);

  /// From now on `broker` renames or removes the output. It must outlive the last call of publish().
  void use_broker(const Broker& broker) { broker_ = &broker; }

  /// The directory in which the confined process creates files; empty for a file.
  virtual std::string writable_directory() const { return {}; }

 protected:
  Output(std::string name, std::string path, std::string temporary, Existing existing)
      : name_(std::move(name)), path_(std::move(path)), temporary_(std::move(temporary)), existing_(existing) {}

  /// Removes the output if it is not published, unless a broker does that.
  virtual ~Output();

  Result<void> rename();

  const std::string& name() const { return name_; }
  const std::string& temporary() const { return temporary_; }

 private:
  int rename_now();
  int rename_to_new_name() const;
  void remove() const;

  const std::string name_;       // for messages: as the user wrote it
  const std::string path_;       // absolute, because the broker has another working directory
  const std::string temporary_;  // the same
  const Existing existing_;
  const Broker* broker_ = nullptr;
  bool published_ = false;
};

class OutputFile final : public Output {
 public:
  /// Creates a file with a temporary name in the directory of `path`. Fails with io; also if `path` exists and is not a
  /// regular file, or is kept.
  static Result<std::unique_ptr<OutputFile>> create(const std::string& path, Existing existing = Existing::replaced);

  /// Writes all bytes at an offset. Fails with io.
  Result<void> write(uint64_t offset, std::span<const std::byte> bytes) const;

  int descriptor() const { return file_.number(); }

  /// Writes the file to disk, and gives it its name. Fails with io; also if a file that is kept was created meanwhile.
  Result<void> publish();

 private:
  OutputFile(std::string name, std::string path, std::string temporary, Existing existing, Descriptor file)
      : Output(std::move(name), std::move(path), std::move(temporary), existing), file_(std::move(file)) {}

  const Descriptor file_;  // closed in the broker
};

class OutputDirectory final : public Output {
 public:
  /// Creates a directory with a temporary name in the directory of `path`. Fails with io; also if `path` exists and is
  /// not an empty directory.
  static Result<std::unique_ptr<OutputDirectory>> create(const std::string& path);

  std::string writable_directory() const override { return temporary(); }

  /// Creates a file at a path of components that are names, with the directories to it. Fails with io.
  Result<Descriptor> create_file(const std::string& path) const;

  /// Writes all files to disk, and gives the directory its name. Fails with io.
  Result<void> publish();

 private:
  OutputDirectory(std::string name, std::string path, std::string temporary, Descriptor directory)
      : Output(std::move(name), std::move(path), std::move(temporary), Existing::replaced),
        directory_(std::move(directory)) {}

  const Descriptor directory_;
};

}  // namespace weightfs::sandbox
