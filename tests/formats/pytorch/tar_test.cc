// Files of torch before 0.1.10.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "tests/builders/python_builder.h"
#include "tests/builders/tar_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/reading.h"

namespace weightfs::pytorch_tar_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;

Result<Model> read(const TorchTar& tar) {
  tars::TarBuilder b;
  b.file("sys_info", tar.sys_info)
      .file("pickle", tar.pickle)
      .file("storages", tar.storages)
      .file("tensors", tar.tensors);
  return read_model({"m.pt", in_memory(b.build())});
}

TEST(PytorchTar, TensorsAreFoundByTheirKeys) {
  const Model model = well(read(torch_tar()));
  EXPECT_EQ(model.format, "pytorch-tar");
  EXPECT_THAT(listing(model), ElementsAre("w float32 float32 [2x2] 0123456789abcdef"));
  EXPECT_EQ(model.parts.size(), 4U);
}

TEST(PytorchTar, StridesAreFollowed) {
  EXPECT_THAT(listing(well(read(torch_tar("0123456789abcdef", {1, 2})))),
              ElementsAre("w float32 float32 [2x2] 012389ab4567cdef"));
}

TEST(PytorchTar, TensorOutsideOfItsStorageIsRefused) {
  const Model model = well(read(torch_tar("01234567")));
  EXPECT_TRUE(model.tensors[0].source.refused());
  TorchTar tar = torch_tar();
  tar.pickle = dict(PickleBuilder().text("w").text("8").raw("Q")).pickle();
  EXPECT_THAT(well(read(tar)).warnings, ElementsAre(HasSubstr("neither in the member tensors nor in storages")));
}

TEST(PytorchTar, IdentifiersNameTensorsAndStorages) {
  TorchTar tar = torch_tar();
  tar.pickle = dict(PickleBuilder()
                        .text("number")
                        .integer(7)
                        .raw("Q")
                        .text("storage")
                        .text("5")
                        .raw("Q")
                        .text("module")
                        .mark()
                        .global("my", "Net")
                        .text("net.py")
                        .text("class Net: pass")
                        .tuple()
                        .raw("Q"))
                   .pickle();
  EXPECT_THAT(listing(well(read(tar))), ElementsAre("number float32 float32 [2x2] 0123456789abcdef",
                                                    "storage float32 float32 [4] 0123456789abcdef"));
}

TEST(PytorchTar, FunctionsInAnyOfItsPicklesAreWarnedOf) {
  const std::string call = PickleBuilder().call("os", "system", PickleBuilder().text("touch ran")).raw("0").opcodes();
  for (std::string TorchTar::*member : {&TorchTar::storages, &TorchTar::tensors, &TorchTar::pickle}) {
    TorchTar tar = torch_tar();
    (tar.*member).insert(2, call);
    EXPECT_THAT(well(read(tar)).warnings, ElementsAre(HasSubstr("names os.system")));
  }
}

TEST(PytorchTar, CutMembersAreRefused) {
  for (std::string TorchTar::*member : {&TorchTar::storages, &TorchTar::tensors, &TorchTar::pickle}) {
    TorchTar tar = torch_tar();
    (tar.*member).resize((tar.*member).size() / 2);
    EXPECT_FALSE(read(tar));
  }
}

}  // namespace
}  // namespace weightfs::pytorch_tar_test
