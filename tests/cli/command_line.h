// Runs command lines of weightfs in the process of the test, and captures what they print. Without the sandbox, which a
// process cannot leave.
#pragma once

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/descriptor.h"
#include "cli/verbs.h"
#include "tests/builders/gguf_builder.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/builders/zip_builder.h"
#include "tests/support/memory_folder.h"
#include "tests/support/temporary.h"

namespace weightfs::test {

/// What a command printed, and its exit status.
struct Ended {
  int status;
  std::string out;
  std::string err;
  bool operator==(const Ended&) const = default;
};

// For GoogleTest.
inline void PrintTo(const Ended& ended, std::ostream* to) {
  *to << fmt::format("status {}\n{}\nstandard error:\n{}", ended.status, ended.out, ended.err);
}

/// A standard stream whose output goes to memory as long as this exists.
class CapturedStream {
 public:
  CapturedStream(FILE* stream, int descriptor)
      : stream_(stream), descriptor_(descriptor), before_(::fcntl(descriptor, F_DUPFD_CLOEXEC, 3)) {
    std::fflush(stream_);
    ::dup2(memory_.number(), descriptor_);
  }
  ~CapturedStream() {
    std::fflush(stream_);
    ::dup2(before_.number(), descriptor_);
  }
  CapturedStream(const CapturedStream&) = delete;
  CapturedStream& operator=(const CapturedStream&) = delete;

  std::string text() {
    std::fflush(stream_);
    const off_t size = ::lseek(memory_.number(), 0, SEEK_END);
    std::string bytes(static_cast<size_t>(size), '\0');
    EXPECT_EQ(::pread(memory_.number(), bytes.data(), bytes.size(), 0), size);
    return bytes;
  }

 private:
  FILE* stream_;
  int descriptor_;
  Descriptor before_;
  Descriptor memory_{::memfd_create("captured", MFD_CLOEXEC)};
};

/// Little-endian numbers.
inline std::string floats(std::initializer_list<float> values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), std::data(values), bytes.size());
  return bytes;
}

/// A tensor of float32 with one dimension.
struct Floats {
  std::string name;
  std::initializer_list<float> values;
};

/// A model of these tensors; `metadata` as JSON spells it.
inline std::string model_of(std::initializer_list<Floats> tensors, std::string_view metadata = {}) {
  SafetensorsBuilder model;
  if (!metadata.empty()) model.metadata(metadata);
  for (const auto& [name, values] : tensors) model.tensor(name, "F32", std::to_string(values.size()), floats(values));
  return model.build();
}

inline std::string gguf_of(std::initializer_list<Floats> tensors) {
  GgufBuilder model;
  for (const auto& [name, values] : tensors) model.tensor(name, {values.size()}, 0, floats(values));
  return model.build();
}

/// A GGUF of two tensors, without the bytes of the second.
inline std::string cut_gguf() {
  const std::string whole = gguf_of({{"a", {1}}, {"b", {2}}});
  return whole.substr(0, whole.size() - 32);
}

/// A zip of these files.
inline std::string zip_of(const Files& files) {
  ZipBuilder zip;
  for (const auto& [name, bytes] : files) zip.stored(name, bytes);
  return zip.build();
}

inline std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// JSON without the white space between its tokens.
inline std::string compact(std::string_view json) {
  std::string out;
  bool is_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (is_text && json[i] == '\\') out += json[i++];
    if (json[i] == '"') is_text = !is_text;
    if (is_text || (json[i] != ' ' && json[i] != '\n')) out += json[i];
  }
  return out;
}

/// A test with a directory and a cache of its own.
class CommandTest : public testing::Test {
 protected:
  CommandTest() {
    ::setenv("WEIGHTFS_CACHE", temporary.path("cache").c_str(), 1);
    ::setenv("LC_ALL", "C.UTF-8", 1);
    ::unsetenv("COLUMNS");
  }

  /// Runs `weightfs WORDS`.
  static Ended run(std::vector<std::string> words) {
    constexpr std::array kReaders = {"cat", "diff", "info", "list", "ls", "show", "stats", "verify"};
    if (std::ranges::find(kReaders, words.front()) != kReaders.end()) words.insert(words.begin() + 1, "--sandbox=off");
    CapturedStream out(stdout, STDOUT_FILENO), err(stderr, STDERR_FILENO);
    const Exit status = run_captured(words);
    Ended ended{static_cast<int>(status), out.text(), err.text()};
    constexpr std::string_view kWarning = "weightfs: the sandbox is off (--sandbox=off)\n";
    if (ended.err.starts_with(kWarning)) ended.err.erase(0, kWarning.size());
    return ended;
  }

  /// Writes a file and returns its path.
  std::string write(std::string_view name, std::string_view bytes) const { return temporary.write(name, bytes); }

  TemporaryDirectory temporary;

 private:
  static Exit run_captured(const std::vector<std::string>& words) {
    const Command weightfs = program();
    const auto invocation = parse(weightfs, words);
    if (invocation) return invocation->command().run();
    log_to_stderr(invocation.error().message);
    return Exit::usage;
  }
};

}  // namespace weightfs::test
