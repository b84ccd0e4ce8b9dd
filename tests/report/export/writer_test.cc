// Bytes of sources that are written to files and pipes.
#include "report/export/writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/files/file_source.h"
#include "base/os/descriptor.h"
#include "tests/support/counted_source.h"
#include "tests/support/temporary.h"

namespace weightfs::exporting::writer_test {
namespace {

class ExportWriter : public testing::Test {
 protected:
  std::string written() const {
    std::string bytes(std::filesystem::file_size(path), '\0');
    std::ifstream(path, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  }

  static std::string pattern(size_t size) {
    std::string out(size, '\0');
    for (size_t i = 0; i < size; ++i) out[i] = static_cast<char>(i * 7 + i / 251);
    return out;
  }

  SourcePtr file(const std::string& bytes) const { return open_file(directory.write("in", bytes)).value(); }

  Writer writer_of(const Descriptor& to) {
    return Writer(to.number(), "out", [this](uint64_t bytes) { reported += bytes; });
  }

  const TemporaryDirectory directory;
  const std::string path = directory.path("out");
  const Descriptor out{::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  uint64_t reported = 0;
};

TEST_F(ExportWriter, PartsOfFilesAreCopiedInOrder) {
  const std::string bytes = pattern(3'000'000);
  for (const size_t head : {0U, 10U, 4096U, 70'000U}) {
    for (const size_t begin : {0U, 10U, 4096U}) {
      SCOPED_TRACE(std::to_string(head) + " " + std::to_string(begin));
      ASSERT_EQ(::ftruncate(out.number(), 0), 0);
      ASSERT_EQ(::lseek(out.number(), 0, SEEK_SET), 0);
      reported = 0;
      Writer writer = writer_of(out);
      const auto part = std::make_shared<Slice>(slice(file(bytes), begin, 2'500'000).value());
      ASSERT_TRUE(writer.write(std::string(head, 'h')).has_value());
      ASSERT_TRUE(writer.copy(*part).has_value());
      ASSERT_TRUE(writer.copy(*concat({in_memory("middle"), part})).has_value());
      const std::string copied = bytes.substr(begin, 2'500'000);
      EXPECT_EQ(written(), std::string(head, 'h') + copied + "middle" + copied);
      EXPECT_EQ(reported, written().size());
    }
  }
}

TEST_F(ExportWriter, SourcesWithoutFileAreCopied) {
  const std::string bytes = pattern(2'500'000);
  Writer writer = writer_of(out);
  ASSERT_TRUE(writer.copy(test::CountedSource(bytes)).has_value());
  EXPECT_EQ(written(), bytes);
}

TEST_F(ExportWriter, PipeGetsTheBytes) {
  const std::string bytes = pattern(700'000);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  std::string got;
  std::thread reader([&] {
    std::array<char, 65536> buffer;
    for (ssize_t size = 0; (size = ::read(from.number(), buffer.data(), buffer.size())) > 0;)
      got.append(buffer.data(), static_cast<size_t>(size));
  });
  const auto copied = writer_of(to).copy(*file(bytes));
  to = Descriptor();
  reader.join();
  EXPECT_TRUE(copied.has_value());
  EXPECT_EQ(got, bytes);
}

TEST_F(ExportWriter, FileThatChangesIsAnError) {
  const SourcePtr source = file(pattern(500'000));
  directory.write("in", "another file");
  EXPECT_EQ(writer_of(out).copy(*source).error().code, Code::io);
}

TEST_F(ExportWriter, FullDiskNamesTheOutput) {
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(writer_of(full).copy(*in_memory("bytes")).error().message, "out: No space left on device");
}

TEST_F(ExportWriter, UnreadableSourceIsAnError) {
  const SourcePtr bad =
      lazy(10, Later<SourcePtr>([]() -> Result<SourcePtr> { return failure(Code::network, "gone"); }));
  EXPECT_EQ(writer_of(out).copy(*bad).error().message, "gone");
}

}  // namespace
}  // namespace weightfs::exporting::writer_test
