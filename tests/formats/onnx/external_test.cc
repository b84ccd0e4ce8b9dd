// External data: which files are opened, and which ranges of them are served.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <span>

#include "base/files/file_source.h"
#include "formats/verify.h"
#include "tests/support/onnx_reading.h"
#include "tests/support/temporary.h"

namespace weightfs::onnx_external_test {
namespace {

using namespace test::onnx;
using test::error_in;
using test::Files;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

const Files kFiles = {{"m.data", "0123456789"}, {"sub/deep.data", "deep"}};

Model read_placed(const Entries& entries, uint64_t type = kUint8) {
  return read_well(model(graph({external("w", type, {4}, entries)})).build(), kFiles);
}

// Its bytes, or the warning.
std::string outcome(const Entries& entries) {
  const Model read = read_placed(entries);
  return read.warnings.empty() ? test::text_of(read.tensors[0].source) : read.warnings[0];
}

TEST(OnnxExternal, RangeOfTheFileIsServed) {
  EXPECT_EQ(outcome({{"location", "m.data"}, {"offset", "3"}, {"length", "4"}}), "3456");
  EXPECT_EQ(outcome({{"length", "4"}, {"offset", "6"}, {"location", "m.data"}}), "6789");
  EXPECT_EQ(outcome({{"location", "m.data"}, {"offset", "3"}}), "3456");
  EXPECT_EQ(outcome({{"location", "m.data"}}), "0123");
  EXPECT_EQ(outcome({{"location", "m.data"}, {"checksum", "x"}, {"basepath", "/etc"}, {"__class__", "x"}}), "0123");
  EXPECT_EQ(outcome({{"location", "x"}, {"location", "m.data"}}), "0123");
}

// What `verify` says of a model with these two tensors in one file.
std::vector<std::string> wrong_of(const std::string& first, const std::string& second) {
  const auto placed = [](const std::string& name, const std::string& checksum) {
    return external(name, kUint8, {4}, {{"location", "m.data"}, {"checksum", checksum}});
  };
  const Model read = read_well(model(graph({placed("a", first), placed("b", second)})).build(), kFiles);
  const Verification verified = verify(read, nullptr);
  EXPECT_EQ(verified.checked, verified.wrong.empty() && read.warnings.empty() ? 1U : 0U);
  std::vector<std::string> wrong = read.warnings;
  wrong.insert(wrong.end(), verified.wrong.begin(), verified.wrong.end());
  return wrong;
}

// `checksum` is the SHA-1 of the file (docs/ExternalData.md of ONNX).
TEST(OnnxExternal, ChecksumOfTheFileIsCompared) {
  const std::string right = "87acec17cd9dcd20a716cc2cf67417b71c8a7016", other = std::string(40, 'a');
  EXPECT_THAT(wrong_of(right, right), IsEmpty());
  EXPECT_THAT(wrong_of(other, other), ElementsAre("\"m.data\": SHA-1 is " + right + ", should be " + other));
  EXPECT_THAT(wrong_of(right, other),
              ElementsAre("external data \"m.data\": its tensors have different checksums of it: not compared"));
}

// Files on the disk, where it is known which bytes are those of a file.
class DiskFolder final : public Folder {
 public:
  explicit DiskFolder(std::string path) : path_(std::move(path)) {}
  Result<std::vector<std::string>> names() const override { return std::vector<std::string>(); }
  Result<SourcePtr> open(std::string_view name) const override { return open_file(path_ + "/" + std::string(name)); }
  Result<std::vector<Part>> parts() const override { return std::vector<Part>(); }

 private:
  std::string path_;
};

// A value in the model is not in the external file; a tensor there is, also if others are read with it.
TEST(OnnxExternal, ChecksumIsOfReadersOfTheFile) {
  const TemporaryDirectory directory;
  directory.write("m.data", "0123456789");
  const Entries entries = {{"location", "m.data"}, {"checksum", std::string(40, 'a')}};
  const std::string bytes =
      model(graph({external("e", kUint8, {4}, entries), tensor("i", kInt32, {2}).number(5, 1).number(5, 2)})).build();
  const Model read = test::well(read_as("onnx", {"m.onnx", open_file(directory.write("m.onnx", bytes)).value(),
                                                 std::make_shared<DiskFolder>(directory.path("."))}));
  const std::array<size_t, 2> both = {0, 1};
  const std::span<const size_t> all(both);
  EXPECT_TRUE(compare_files_of_tensors(read, all.subspan(1)));
  EXPECT_EQ(error_in(compare_files_of_tensors(read, all.first(1))).substr(0, 17), "\"m.data\": SHA-1 i");
  EXPECT_EQ(error_in(compare_files_of_tensors(read, all)).substr(0, 17), "\"m.data\": SHA-1 i");
}

TEST(OnnxExternal, LocationMayBeInASubdirectory) {
  EXPECT_EQ(outcome({{"location", "sub/deep.data"}}), "deep");
  EXPECT_EQ(outcome({{"location", "./x/..//sub/deep.data"}}), "deep");
}

TEST(OnnxExternal, LocationOutsideIsRefused) {
  const auto refused = [](const std::string& location) { return outcome({{"location", location}}); };
  EXPECT_EQ(refused("../m.data"), "tensor \"w\": path \"../m.data\" leads out of the model's directory: refused");
  EXPECT_EQ(refused("x/../../m.data"),
            "tensor \"w\": path \"x/../../m.data\" leads out of the model's directory: refused");
  EXPECT_EQ(refused("/etc/passwd"), "tensor \"w\": path \"/etc/passwd\" is absolute: refused");
  EXPECT_EQ(refused(""), "tensor \"w\": path \"\" names no file: refused");
  EXPECT_EQ(refused("."), "tensor \"w\": path \".\" names no file: refused");
  EXPECT_EQ(refused(std::string("m.data\0", 7)), "tensor \"w\": path \"m.data\\x00\" is not a valid path: refused");
  EXPECT_THAT(refused(std::string(10'000, 'x')), testing::HasSubstr("is not a valid path"));
  EXPECT_EQ(outcome({{"offset", "0"}}), "tensor \"w\": path \"\" names no file: refused");
}

TEST(OnnxExternal, WrongNumbersAreRefused) {
  const auto refused = [](const std::string& offset, const std::string& length) {
    const std::string line = outcome({{"location", "m.data"}, {"offset", offset}, {"length", length}});
    return line.substr(line.find(": ") + 2);
  };
  EXPECT_EQ(refused("7", "4"), "4 bytes at offset 7 are not inside the 10 of \"m.data\": refused");
  EXPECT_EQ(refused("18446744073709551614", "4"),
            "4 bytes at offset 18446744073709551614 are not inside the 10 of \"m.data\": refused");
  EXPECT_EQ(refused("18446744073709551616", "4"),
            "offset \"18446744073709551616\" of its external data is not a number of bytes: refused");
  for (const char* text : {"", "-1", "+1", " 1", "1 ", "0x1", "1.0"})
    EXPECT_EQ(refused(text, "4"),
              fmt::format("offset \"{}\" of its external data is not a number of bytes: refused", text));
  EXPECT_EQ(refused("0", "-4"), "length \"-4\" of its external data is not a number of bytes: refused");
  EXPECT_EQ(refused("0", "5"), "5 bytes of external data, 4 needed: refused");
}

TEST(OnnxExternal, MissingFileRefusesItsTensorsWithOneWarning) {
  std::vector<Message> tensors(3, external("w", kUint8, {1}, {{"location", "none"}}));
  tensors.push_back(external("good", kUint8, {1}, {{"location", "m.data"}}));
  const Model read = read_well(model(graph(tensors)).build(), kFiles);
  EXPECT_THAT(read.warnings, ElementsAre("external data \"none\": no such file; 3 tensors are refused"));
  EXPECT_EQ(read.lacks->files, 1u);
  EXPECT_EQ(lines_of(read)[3], ":good uint8 [1] 30");
}

TEST(OnnxExternal, FilesArePartsOfTheModelOnce) {
  const Message deep = external("w", kUint8, {4}, {{"location", "sub/deep.data"}});
  const Message itself = external("w", kUint8, {1}, {{"location", "m.onnx"}});
  const Model read =
      read_well(model(graph({deep, deep, itself})).build(), {{"sub/deep.data", "deep"}, {"m.onnx", "itself"}});
  ASSERT_THAT(read.parts, SizeIs(2));
  EXPECT_EQ(read.parts[0].path, "m.onnx");
  EXPECT_EQ(read.parts[1].path, "sub/deep.data");
  EXPECT_THAT(read.warnings, IsEmpty());
}

TEST(OnnxExternal, InlineDataIsIgnored) {
  const Model read =
      read_well(model(graph({external("w", kUint8, {1}, {{"location", "m.data"}}).bytes(9, "x")})).build(), kFiles);
  EXPECT_EQ(test::text_of(read.tensors[0].source), "0");
}

TEST(OnnxExternal, UnknownTypeNeedsALength) {
  EXPECT_EQ(test::text_of(read_placed({{"location", "m.data"}, {"length", "5"}}, 99).tensors[0].source), "01234");
  EXPECT_THAT(read_placed({{"location", "m.data"}}, 99).warnings,
              ElementsAre("tensor \"w\": external data without a length: refused"));
  EXPECT_THAT(read_placed({{"location", "m.data"}}, kString).warnings,
              ElementsAre("tensor \"w\": external data of no known size: refused"));
}

TEST(OnnxExternal, ModelWithoutDirectoryRefusesExternalTensors) {
  const auto read = read_as(
      "onnx",
      {"m.onnx", in_memory(model(graph({external("w", kUint8, {1}, {{"location", "m.data"}})})).build()), nullptr});
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->tensors[0].source.refused());
}

}  // namespace
}  // namespace weightfs::onnx_external_test
