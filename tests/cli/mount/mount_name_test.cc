#include "cli/mount/mount_name.h"

#include <gtest/gtest.h>

namespace weightfs::mount_name_test {
namespace {

std::string name_of(const std::string& source) { return mount_name(source).value_or("error"); }

TEST(MountName, IsThatOfAFileWithoutItsSuffix) {
  EXPECT_EQ(name_of("model.gguf"), "model");
  EXPECT_EQ(name_of("/srv/Llama 3.1.safetensors"), "Llama 3.1");
  EXPECT_EQ(name_of("resnet.tar.gz"), "resnet");
  EXPECT_EQ(name_of("notes"), "notes");
  EXPECT_EQ(name_of(".gguf"), ".gguf");
}

TEST(MountName, IsThatOfADirectory) {
  EXPECT_EQ(name_of("/srv/llama/"), "llama");
  EXPECT_EQ(name_of("/srv/llama-3.1"), "llama-3.1");
  EXPECT_EQ(name_of("/"), "model");
}

TEST(MountName, HasNoNumberOfAShard) {
  EXPECT_EQ(name_of("big-00001-of-00003.gguf"), "big");
  EXPECT_EQ(name_of("big-0001-of-00003.gguf"), "big-0001-of-00003");
  EXPECT_EQ(name_of("model.safetensors.index.json"), "model");
}

TEST(MountName, IsThatOfARepositoryWithoutItsRevision) {
  EXPECT_EQ(name_of("hf://org/repo"), "repo");
  EXPECT_EQ(name_of("hf://org/repo@main"), "repo");
  EXPECT_EQ(name_of("hf://org/repo@refs/pr/7"), "repo");
  EXPECT_EQ(name_of("hf://org/repo@main/q4/model.gguf"), "model");
  EXPECT_EQ(name_of("oci://registry.example/team/tiny:v1@sha256:00"), "tiny-v1");
  EXPECT_EQ(name_of("s3://bucket/models/llama/"), "llama");
}

TEST(MountName, IsThatOfAnOllamaModelWithItsTag) {
  EXPECT_EQ(name_of("ollama:llama3.2"), "llama3.2");
  EXPECT_EQ(name_of("ollama:llama3.2:1b"), "llama3.2-1b");
  EXPECT_EQ(name_of("ollama://registry.ollama.ai/library/llama3.2:latest"), "llama3.2-latest");
}

TEST(MountName, HasNoQueryOfAUrl) {
  EXPECT_EQ(name_of("https://example.org/a/model.gguf?token=secret/x"), "model");
  EXPECT_EQ(name_of("https://example.org/a/"), "a");
}

TEST(MountName, IsOnePathComponent) {
  EXPECT_EQ(name_of("hf://org/.."), "%2E%2E");
  EXPECT_EQ(name_of("a\nb.gguf"), "a%0Ab");
}

}  // namespace
}  // namespace weightfs::mount_name_test
