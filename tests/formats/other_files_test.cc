// Files that are no models, under the names of models.
#include "formats/other_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/memory_folder.h"

namespace weightfs::other_files_test {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::string& bytes, const std::string& name = "model.bin") {
  const auto model = read_model({name, in_memory(bytes), nullptr});
  return model ? "a model" : model.error().message;
}

TEST(OtherFiles, LfsPointerSaysWhatToDo) {
  EXPECT_EQ(error_of("version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') +
                     "\nsize 4976698672\n"),
            "model.bin: a Git LFS pointer to a file of 4.6 GiB (4976698672 bytes); run git lfs pull");
}

TEST(OtherFiles, PagesAndErrorsOfServersAreNamed) {
  EXPECT_EQ(error_of("\n<!DOCTYPE html><html><head><title>Log in</title>"),
            "model.bin: an HTML page (\"Log in\"), not a model; the server probably sent a login or error page");
  EXPECT_EQ(error_of(R"({"error": "Invalid username or password."})"),
            "model.bin: a JSON document with the error \"Invalid username or password.\"");
  EXPECT_EQ(error_of("<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code></Error>"),
            "model.bin: an XML document with the error NoSuchKey");
}

TEST(OtherFiles, EmptyAndUnfinishedFiles) {
  EXPECT_EQ(error_of(""), "model.bin: an empty file (0 B)");
  EXPECT_THAT(error_of(std::string(100'000, '\0')), HasSubstr("only zero bytes"));
  EXPECT_EQ(error_of("\x01\x02\x03\x04 and more", "model.bin.part"), "model.bin.part: an unfinished download");
}

TEST(OtherFiles, CompressedFilesNameTheirCompression) {
  EXPECT_EQ(error_of(std::string("\x28\xB5\x2F\xFD", 4) + "..."), "model.bin: compressed by zstd; unpack it first");
  EXPECT_EQ(error_of(std::string("\xFD"
                                 "7zXZ\0",
                                 6) +
                     "..."),
            "model.bin: compressed by xz; unpack it first");
}

TEST(OtherFiles, KnownFormatsThatAreNotSupported) {
  EXPECT_EQ(error_of("7767517\n10 12\n", "m.param"), "m.param: the structure of an ncnn model (.param): not supported");
}

TEST(OtherFiles, TextIsShown) {
  EXPECT_EQ(error_of("Entry not found"), "model.bin: text: \"Entry not found\"");
  EXPECT_EQ(error_of("{\"a\": 1}", "config"), "config: a JSON document, not a model");
}

// The error of the format that the name says comes before "text".
TEST(OtherFiles, BrokenModelIsNotCalledText) {
  EXPECT_THAT(error_of(R"({"weight_map": 7})", "model.safetensors.index.json"), HasSubstr("safetensors index: "));
}

}  // namespace
}  // namespace weightfs::other_files_test
