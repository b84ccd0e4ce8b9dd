#include "cli/console/source_error.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace weightfs::source_error_test {
namespace {

std::string message_of(const std::string& source, const std::string& message) {
  return error_of_source(source, {Code::network, message}).message;
}

TEST(SourceError, PathIsThatOfTheArgument) {
  const std::string here = std::filesystem::current_path();
  EXPECT_EQ(message_of("dir/m.gguf", here + "/dir/m.gguf: cut"), "dir/m.gguf: cut") << "its directory does not exist";
  EXPECT_EQ(message_of("./dir/", here + "/./dir: cut"), "./dir: cut");
  EXPECT_EQ(message_of("a\x1b", here + "/a\x1b: cut"), "a\\x1b: cut");
  EXPECT_EQ(message_of("m.gguf", here + "/m.gguf: cut"), "m.gguf: cut");
  EXPECT_EQ(message_of("./m.gguf", here + "/m.gguf: cut"), "./m.gguf: cut");
  EXPECT_EQ(message_of(".", here + "/shard: cut"), "./shard: cut");
  EXPECT_EQ(message_of("dir/m.gguf", "m.gguf: an empty file"), "dir/m.gguf: an empty file");
  EXPECT_EQ(message_of("m.gguf", "gguf: bad magic"), "m.gguf: gguf: bad magic");
  EXPECT_EQ(message_of("dir/", "dir: no model"), "dir: no model");
  EXPECT_EQ(message_of("dir", "dir has 2 models"), "dir has 2 models");
  EXPECT_EQ(message_of("dir", "directory: no"), "dir: directory: no");
}

TEST(SourceError, UrlOfARequestIsBehindTheSource) {
  EXPECT_EQ(message_of("hf://org/repo", "https://hub.example/api/models/org/repo: cannot resolve the host name"),
            "hf://org/repo: https://hub.example/api/models/org/repo: cannot resolve the host name");
  EXPECT_EQ(message_of("ollama:x", "registry.example/library/x: not found"),
            "ollama:x: registry.example/library/x: not found");
}

TEST(SourceError, NameIsNotRepeated) {
  EXPECT_EQ(message_of("HTTP://h/m", "http://h/m: cut"), "http://h/m: cut");
  EXPECT_EQ(message_of("hf://a", "\"hf://a\": names no repository"), "hf://a: names no repository");
  EXPECT_EQ(message_of("ollama:a/b", "\"a/b\": not a name"), "ollama:a/b: not a name");
  EXPECT_EQ(message_of("model.bin", "\"bin\": its shape overflows"), "model.bin: \"bin\": its shape overflows");
  EXPECT_EQ(message_of("hf://org/repo", "hf://org/repo@main: gated"), "hf://org/repo@main: gated");
  EXPECT_EQ(message_of("hf://org/repo/none", "hf://org/repo@0123/none: no such file"),
            "hf://org/repo/none: no such file");
  EXPECT_EQ(message_of("s3://b/k", "access denied to s3://b/k"), "access denied to s3://b/k");
  EXPECT_EQ(message_of("https://h.example/m.gguf?token=secret", "https://h.example/m.gguf: 404 Not Found"),
            "https://h.example/m.gguf: 404 Not Found");
}

}  // namespace
}  // namespace weightfs::source_error_test
