#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/files/file_source.h"
#include "base/files/leaf.h"
#include "base/values/json.h"
#include "formats/format.h"
#include "tests/builders/numpy_builder.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/reading.h"
#include "tests/support/temporary.h"

namespace weightfs::npz_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Counts the bytes that are read.
class Counted final : public Source {
 public:
  explicit Counted(std::string bytes) : bytes_(in_memory(std::move(bytes))) {}
  uint64_t size() const override { return bytes_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const size_t got = TRY(bytes_->read(offset, out));
    read_ += got;
    return got;
  }
  uint64_t bytes_read() const { return read_; }

 private:
  SourcePtr bytes_;
  mutable std::atomic<uint64_t> read_ = 0;
};

Model read_well(const std::string& zip) { return well(read_model(Container{"m.npz", in_memory(zip)})); }

std::string array(std::string_view data) { return npy("|u1", fmt::format("({},)", data.size()), data); }

TEST(Npz, MembersAreTensors) {
  const Model model = read_well(small_npz());
  EXPECT_EQ(model.format, "npz");
  EXPECT_THAT(listing(model), ElementsAre("w float32 <f4 [2x2] wwwwwwwwwwwwwwww", "layer/s unknown |S3 [2] abcdef",
                                          std::string("f int16 >i2 [2x2] \1\0\3\0\2\0\4\0", 26)));
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(model.stored_bytes, small_npz().size());
}

// The storage of a tensor is a range of its member, which is a range of the zip.
TEST(Npz, StoredMembersAreReadInPlace) {
  TemporaryDirectory directory;
  ZipBuilder b;
  b.stored("a.npy", array("first")).zip64 = true;
  b.stored("b.npy", array("second")).local_extra = std::string("\x7F\x7F\4\0pad!", 8);
  const std::string zip = b.build();
  const auto model = read_model(Container{"m.npz", open_file(directory.write("m.npz", zip)).value()});
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_EQ(model->tensors.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    const Slice source = model->tensors[i].source;
    EXPECT_EQ(source.whole(), *model->parts[i].source.get());
    EXPECT_EQ(source.offset(), array("").size());
    ASSERT_TRUE(extent_of(source));
    EXPECT_EQ(extent_of(source)->offset, zip.find(i == 0 ? "first" : "second"));
  }
}

TEST(Npz, OpeningReadsNoData) {
  ZipBuilder b;
  b.stored("a.npy", array(std::string(4 << 20, 'x')));
  b.deflated("b.npy", array(std::string(4 << 20, 'y')));
  const auto zip = std::make_shared<Counted>(b.build());
  const auto model = read_model(Container{"m.npz", zip});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->tensors.size(), 2U);
  EXPECT_LT(zip->bytes_read(), 200'000U);
  EXPECT_EQ(text_of(model->tensors.at(1).source), std::string(4 << 20, 'y'));
}

TEST(Npz, MembersWithoutSuffixAreReadByMagicNumber) {
  ZipBuilder b;
  b.stored("plain", array("x"));
  b.stored("file.npy.npy", array("y"));
  b.stored("note.txt", "text");
  const Model model = read_well(b.build());
  EXPECT_THAT(listing(model), ElementsAre("plain uint8 |u1 [1] x", "file.npy uint8 |u1 [1] y"));
  EXPECT_EQ(model.parts.size(), 3U);
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(Npz, InvalidMembersAreRefusedAlone) {
  ZipBuilder b;
  b.stored("good.npy", array("x"));
  b.stored("code.npy", npy_of("dict(descr='|u1')", "x"));
  b.stored("negative.npy", npy("|u1", "(-1,)", "x"));
  b.stored("short.npy", npy("|u1", "(2,)", "x"));
  b.stored("object.npy", npy("|O", "(1,)", "x"));
  b.stored("other.npy", "text");
  b.packed("encrypted.npy", 0, array("x"), array("x")).flags = kEncryptedFlag;
  const Model model = read_well(b.build());
  EXPECT_THAT(listing(model), ElementsAre("good uint8 |u1 [1] x", "code unknown  [] refused",
                                          "negative unknown  [] refused", "short uint8 |u1 [2] refused",
                                          "object unknown  [] refused", "encrypted unknown  [] refused"));
  EXPECT_THAT(
      model.warnings,
      ElementsAre(
          "member \"encrypted.npy\": encrypted; cannot be read",
          HasSubstr("tensor \"code\": header: byte 0: \"dict(descr='|u1')\", a literal expected: refused"),
          "tensor \"negative\": header: a dimension of size -1: refused",
          "tensor \"short\": 2 bytes of data needed, 1 in the file: refused", HasSubstr("tensor \"object\": pickle: "),
          "\"other.npy\": no magic number of a .npy file; shown in files/ only", HasSubstr("tensor \"encrypted\": ")));
}

// As numpy.load.
TEST(Npz, LastOfDuplicateNamesIsShown) {
  ZipBuilder b;
  b.stored("a.npy", array("1"));
  b.stored("a.npy", array("2"));
  const Model model = read_well(b.build());
  EXPECT_THAT(listing(model), ElementsAre("a uint8 |u1 [1] 2"));
  EXPECT_THAT(model.warnings, ElementsAre("member \"a.npy\": duplicate path; the last is shown"));
}

TEST(Npz, ArraysAreNotNestedModels) {
  EXPECT_EQ(read_well(small_npz()).nested, nullptr);
  ZipBuilder b;
  b.stored("a.npy", array("1"));
  b.stored("b.safetensors", SafetensorsBuilder().tensor("t", "U8", "1", "x").build());
  const auto model = std::make_shared<Model>(read_well(b.build()));
  const auto nested = model->nested(model);
  ASSERT_TRUE(nested) << nested.error().message;
  ASSERT_EQ(nested->size(), 1U);
  EXPECT_EQ(model->parts[nested->front().part].path, "b.safetensors");
}

TEST(Npz, HeaderLongerThanUsualIsDecoded) {
  ZipBuilder b;
  const std::string dict = npy_dict("'|u1'", "(3,)") + std::string(50'000, ' ');
  b.deflated("a.npy", npy_of(dict, "xyz"));
  const Model model = read_well(b.build());
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_THAT(listing(model), ElementsAre("a uint8 |u1 [3] xyz"));
}

// Deflated data that would be 4 GB of header.
TEST(Npz, HeaderClaimsAreBounded) {
  ZipBuilder b;
  std::string claims = npy_of("{}", "", 2);
  claims.replace(8, 4, "\xFF\xFF\xFF\xFF");
  b.deflated("a.npy", claims);
  b.stored("b.npy", array("x"));
  EXPECT_THAT(read_well(b.build()).warnings,
              ElementsAre("tensor \"a\": a header of 4294967295 bytes, at most 1048576 are read: refused"));
}

TEST(Npz, ExhaustedBudgetEndsListing) {
  ZipBuilder b;
  for (int i = 0; i < 400; ++i) b.stored(fmt::format("{}.npy", i), array("x"));
  Container container{"m.npz", in_memory(b.build())};
  container.budget = std::make_shared<Budget>(0);
  const auto members = container.budget->charge(Cost::kept, container.budget->memory_limit() - 400'000);
  ASSERT_TRUE(members);
  const auto model = read_model(container);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_LT(model->tensors.size(), 400U);
  EXPECT_THAT(model->warnings.back(), HasSubstr("it and the members after it are not shown as tensors"));
}

TEST(Npz, ZipsWithoutArraysAreZips) {
  ZipBuilder b;
  b.stored("a.npy", "text");
  b.stored("b", "text");
  EXPECT_EQ(read_well(b.build()).format, "zip");
}

}  // namespace
}  // namespace weightfs::npz_test
