#include "serve/mirror/open_files.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/serve/mirror/failing_bytes.h"

namespace weightfs::mirrored_files_test {
namespace {

using failing_bytes::MismatchedBytes;
using mirror::OpenFiles;

TEST(MirroredFiles, AreTheSameObjectForAllClients) {
  OpenFiles files;
  EXPECT_EQ(files.find("a"), nullptr);
  const SourcePtr first = files.keep("a", in_memory("one"));
  EXPECT_EQ(files.find("a"), first);
  EXPECT_EQ(files.keep("a", in_memory("two")), first);
  EXPECT_NE(files.keep("b", in_memory("one")), first);
}

TEST(MirroredFiles, BytesThatDoNotMatchAreClosed) {
  OpenFiles files;
  std::weak_ptr<const Source> mismatched = files.keep("a", std::make_shared<MismatchedBytes>(3));
  EXPECT_FALSE(mismatched.expired());
  EXPECT_EQ(files.find("a"), nullptr);
  EXPECT_TRUE(mismatched.expired());
  files.keep("a", std::make_shared<MismatchedBytes>(3));
  const SourcePtr other = in_memory("one");
  EXPECT_EQ(files.keep("a", other), other);
}

TEST(MirroredFiles, TheOneThatWasUsedFirstIsClosed) {
  OpenFiles files;
  for (size_t i = 0; i < OpenFiles::kMost; ++i) files.keep(fmt::format("{}", i), in_memory("one"));
  EXPECT_NE(files.find("0"), nullptr);
  files.keep("new", in_memory("one"));
  EXPECT_NE(files.find("0"), nullptr);
  EXPECT_EQ(files.find("1"), nullptr);
  EXPECT_NE(files.find("2"), nullptr);
}

}  // namespace
}  // namespace weightfs::mirrored_files_test
