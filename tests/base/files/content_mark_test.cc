// The mark of a file's content, which is a part of its identity.
#include "base/files/content_mark.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <string>

#include "base/files/file_source.h"
#include "tests/support/temporary.h"

namespace weightfs::content_mark_test {
namespace {

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(ContentMark, DiffersByFileSystemSizeAndEnds) {
  const std::string head = "head";
  const std::string tail = "tail";
  std::set<std::string> marks = {content_mark(1, 100, bytes(head), bytes(tail))};
  EXPECT_EQ(*marks.begin(), content_mark(1, 100, bytes(head), bytes(tail)));
  EXPECT_EQ(marks.begin()->size(), 32U);
  marks.insert(content_mark(2, 100, bytes(head), bytes(tail)));
  marks.insert(content_mark(1, 101, bytes(head), bytes(tail)));
  marks.insert(content_mark(1, 100, bytes("heaD"), bytes(tail)));
  marks.insert(content_mark(1, 100, bytes(head), bytes("taiL")));
  marks.insert(content_mark(1, 100, bytes("hea"), bytes("dtail")));
  EXPECT_EQ(marks.size(), 6U);
}

std::string mark_of(const TemporaryDirectory& directory, const std::string& content) {
  const auto file = open_file(directory.write("file", content));
  const std::string identity = file.value()->identity();
  return identity.substr(identity.rfind(' ') + 1);
}

TEST(ContentMark, IsPartOfAFilesIdentity) {
  const TemporaryDirectory directory;
  const std::string large(3 * kMarkedBytes, 'a');
  std::set<std::string> marks;
  for (const std::string& content : {std::string(), std::string("a"), std::string("b"), large}) {
    marks.insert(mark_of(directory, content));
    EXPECT_EQ(mark_of(directory, content), mark_of(directory, content));
  }
  for (const size_t at : {size_t{0}, kMarkedBytes - 1, 2 * kMarkedBytes, 3 * kMarkedBytes - 1}) {
    std::string changed = large;
    changed[at] = 'b';
    marks.insert(mark_of(directory, changed));
  }
  EXPECT_EQ(marks.size(), 8U);
}

// semantics 10.3: no other process finds what was made of a file that cannot be read.
TEST(ContentMark, AFileThatWasCutHasNoIdentity) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("file", std::string(10'000, 'a'));
  const auto file = open_file(path);
  ASSERT_EQ(::truncate(path.c_str(), 10), 0);
  EXPECT_EQ(file.value()->identity(), "");
}

}  // namespace
}  // namespace weightfs::content_mark_test
