#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/file_source.h"
#include "base/files/leaf.h"
#include "formats/format.h"
#include "tests/builders/dduf_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"
#include "tests/support/temporary.h"

namespace weightfs::llamafile_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Result<Model> read(std::string bytes) { return read_model(Container{"m.llamafile", in_memory(std::move(bytes))}); }

Model read_well(std::string bytes) { return well(read(std::move(bytes))); }

TEST(Llamafile, TensorsAreThoseOfItsGguf) {
  const std::string gguf = GgufBuilder().string("general.name", "Tiny").tensor("t", {1}, 24, "x").build();
  const Model model = read_well(llamafile({{".args", "-m\nmodel.gguf\n"}, {"model.gguf", gguf}}));
  EXPECT_EQ(model.format, "llamafile");
  EXPECT_EQ(model.version, "3");
  EXPECT_THAT(listing(model), ElementsAre("t int8 I8 [1] x"));
  EXPECT_NE(model.common.find("name"), nullptr);
  ASSERT_EQ(model.parts.size(), 2U);
  EXPECT_EQ(model.parts[0].path, ".args");
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(Llamafile, TensorsAreRangesOfFile) {
  TemporaryDirectory directory;
  const std::string bytes = llamafile({{"model.gguf", tiny_gguf()}});
  const auto model = read_model(Container{"m", open_file(directory.write("m", bytes)).value()});
  ASSERT_TRUE(model) << model.error().message;
  const Slice source = model->tensors.at(0).source;
  EXPECT_EQ(source.whole(), *model->parts.at(0).source.get());
  ASSERT_TRUE(extent_of(source));
  EXPECT_EQ(bytes[static_cast<size_t>(extent_of(source)->offset)], 'x');
}

TEST(Llamafile, SeveralGgufsAreNested) {
  const auto model = std::make_shared<Model>(
      read_well(llamafile({{"a.gguf", tiny_gguf()}, {"b.gguf", tiny_gguf()}, {"c.txt", "text"}})));
  EXPECT_THAT(model->tensors, IsEmpty());
  const auto nested = model->nested(model);
  ASSERT_TRUE(nested) << nested.error().message;
  EXPECT_EQ(nested->size(), 2U);
}

TEST(Llamafile, OffsetsMayCountFromTheZip) {
  ZipBuilder b;
  b.junk(kExecutable);
  b.stored("model.gguf", tiny_gguf());
  EXPECT_THAT(listing(read_well(b.build())), ElementsAre("t int8 I8 [1] x"));
}

TEST(Llamafile, CompressedGgufIsDecoded) {
  ZipBuilder b;
  b.executable(kExecutable);
  b.deflated("model.gguf", tiny_gguf());
  EXPECT_THAT(listing(read_well(b.build())), ElementsAre("t int8 I8 [1] x"));
}

TEST(Llamafile, InvalidGgufIsWarning) {
  const Model model = read_well(llamafile({{"model.gguf", "GGUF?"}}));
  EXPECT_THAT(model.tensors, IsEmpty());
  ASSERT_FALSE(model.warnings.empty());
  EXPECT_THAT(model.warnings.front(), HasSubstr("its tensors are missing"));
}

TEST(Llamafile, IsDetectedByExecutableWithZip) {
  for (const char* begin : {"MZqFpD='", "jartsr='",
                            "\x7F"
                            "ELF\2\1",
                            "MZ\x90"})
    EXPECT_EQ(read_well(llamafile({{"m.gguf", tiny_gguf()}}, begin)).format, "llamafile") << begin;
  EXPECT_EQ(matches_llamafile(probe_of("\x7F"
                                       "ELF, but no zip")),
            Match::no);
  EXPECT_EQ(matches_llamafile(probe_of("#!/bin/sh")), Match::no);
}

TEST(Llamafile, ExecutableWithoutGgufIsZip) { EXPECT_EQ(read_well(llamafile({{"a.txt", "text"}})).format, "zip"); }

TEST(Llamafile, ExecutableWithoutZipIsRefused) {
  const auto model = read(std::string(kExecutable));
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("llamafile: zip: no valid end of central directory record"));
}

}  // namespace
}  // namespace weightfs::llamafile_test
