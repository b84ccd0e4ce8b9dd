// NeMo archives: the tensors of the checkpoint in a tar.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "formats/format.h"
#include "formats/verify.h"
#include "tests/support/model_text.h"
#include "tests/support/reading.h"
#include "tests/support/small_disk.h"
#include "tests/support/small_models.h"

namespace weightfs::nemo_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Model read_well(std::string bytes) {
  return well(read_model({"m.nemo", in_memory(std::move(bytes)), nullptr, std::make_shared<SmallDisk>()}));
}

std::string nemo_of(std::string_view checkpoint, std::string_view path = "model_weights.ckpt") {
  return tars::TarBuilder()
      .file("model_config.yaml", "!!python/object/apply:os.system [id]\n")
      .file(path, checkpoint)
      .build();
}

TEST(Nemo, HasTensorsOfItsCheckpoint) {
  for (const std::string& bytes : {small_nemo(), tars::gzip_stored(small_nemo())}) {
    const Model model = read_well(bytes);
    EXPECT_EQ(model.format, "nemo");
    EXPECT_THAT(listing(model), ElementsAre("w uint8 uint8 [4] wwww"));
    EXPECT_EQ(to_json_line(*model.metadata.find("nemo")),
              R"({"checkpoint":"model_weights.ckpt","checkpoint_format":"pytorch"})");
    EXPECT_THAT(model.warnings, IsEmpty());
    EXPECT_EQ(model.parts.size(), 2U);
  }
}

TEST(Nemo, WrongBytesOfItsCheckpointAreFound) {
  std::string bytes = small_nemo();
  const Model right = read_well(bytes);
  EXPECT_TRUE(compare_files_of_tensors(right, std::array<size_t, 1>{0}));
  bytes.replace(bytes.find("wwww"), 4, "wwwx");
  const Model wrong = read_well(bytes);
  const auto compared = compare_files_of_tensors(wrong, std::array<size_t, 1>{0});
  ASSERT_FALSE(compared);
  EXPECT_EQ(compared.error().code, Code::mismatch);
  EXPECT_THAT(compared.error().message, HasSubstr("\"model_weights.ckpt/archive/data/0\": CRC-32"));
}

TEST(Nemo, ReadsLegacyCheckpointInDirectory) {
  const Model model = read_well(nemo_of(small_checkpoint().legacy({4, 1, 2}), "m/model_weights.ckpt"));
  EXPECT_EQ(model.tensors.size(), 4U);
}

TEST(Nemo, BrokenCheckpointIsWarnedOf) {
  const Model model = read_well(nemo_of("no checkpoint"));
  EXPECT_THAT(model.tensors, IsEmpty());
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("model_weights.ckpt: text: \"no checkpoint\"")));
}

TEST(Nemo, DangerousNamesOfTheCheckpointAreShown) {
  PytorchBuilder checkpoint;
  checkpoint.value("x", PickleBuilder().call("posix", "system", PickleBuilder().text("id")));
  const Model model = read_well(nemo_of(checkpoint.zip()));
  ASSERT_NE(model.common.find("dangerous_globals"), nullptr);
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("model_weights.ckpt: data.pkl: names posix.system")));
}

TEST(Nemo, TarWithoutCheckpointIsPlainTar) {
  EXPECT_EQ(read_well(tars::TarBuilder().file("model_config.yaml", "a: 1\n").build()).format, "tar");
}

}  // namespace
}  // namespace weightfs::nemo_test
