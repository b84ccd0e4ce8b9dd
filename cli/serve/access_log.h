// The access log of an HTTP server: a line for each request, in the common log format.
#pragma once

#include <memory>
#include <string>

#include "base/os/descriptor.h"
#include "base/result.h"
#include "fs/http/server_options.h"

namespace weightfs {

/// Callable from any thread.
class AccessLog {
 public:
  /// Opens the file to append to; `-` is standard output. Fails with io.
  static Result<std::unique_ptr<AccessLog>> open(const std::string& path);

  void write(const httpd::Answered& answered);

 private:
  explicit AccessLog(Descriptor file) : file_(std::move(file)) {}

  const Descriptor file_;
};

}  // namespace weightfs
