// weightfs ls and cat: the tree without a mount, and names of tensors.
#include <gmock/gmock.h>

#include "tests/builders/bintensors_builder.h"
#include "tests/cli/command_line.h"

namespace weightfs::test::inspect_test {
namespace {

using testing::HasSubstr;

class InspectTest : public CommandTest {
 protected:
  static std::string model() {
    SafetensorsBuilder b;
    b.tensor("bias", "I32", "4", "0123456789abcdef")
        .tensor("bytes", "I8", "5", "bytes")
        .tensor("empty", "I8", "0,2", "");
    return b.tensor("encoder/weight", "F32", "3,20", std::string(240, 'w')).tensor("scalar", "F32", "", "ssss").build();
  }
  std::string source = write("model.safetensors", model());
};

TEST_F(InspectTest, LsListsDirectoriesAndFiles) {
  EXPECT_EQ(run({"ls", source}),
            (Ended{0, "files\nfloat32\nmetadata.json\nmetadata.toml\nnpy\ntensors\ntensors.json\nviews\n", ""}));
  EXPECT_EQ(run({"ls", source, "tensors/encoder"}), (Ended{0, "weight\n", ""}));
  EXPECT_EQ(run({"ls", source, "tensors/bias"}), (Ended{0, "tensors/bias\n", ""}));
  EXPECT_EQ(run({"list", source, "tensors/bias"}), (Ended{0, "tensors/bias\n", ""})) << "another name of ls";
}

TEST_F(InspectTest, LongListingHasModesAndSizes) {
  EXPECT_THAT(run({"ls", "-l", source, "tensors/encoder"}).out,
              testing::MatchesRegex("-r--r--r-- +1 +240 .* weight\n"));
}

TEST_F(InspectTest, RecursiveListingHasHeadingsLikeLs) {
  EXPECT_EQ(run({"ls", "-R", source, "tensors"}).out, ".:\nbias\nbytes\nempty\nencoder\nscalar\n\nencoder:\nweight\n");
}

TEST_F(InspectTest, JsonListingIsOneArray) {
  EXPECT_EQ(compact(run({"ls", "-R", "--json", source, "tensors"}).out),
            R"([{"path":"bias","type":"file","size":16},{"path":"bytes","type":"file","size":5},)"
            R"({"path":"empty","type":"file","size":0},{"path":"encoder","type":"directory","size":0},)"
            R"({"path":"encoder/weight","type":"file","size":240},{"path":"scalar","type":"file","size":4}])");
}

TEST_F(InspectTest, MissingPathIsNotFound) {
  for (const char* command : {"ls", "cat"}) {
    const Ended ended = run({command, source, "tensors/absent"});
    EXPECT_EQ(ended.status, 3);
    EXPECT_EQ(ended.out, "");
    EXPECT_EQ(ended.err, fmt::format("weightfs: {}: tensors/absent: does not exist\n", source));
  }
}

TEST_F(InspectTest, CatWritesTheBytesOfEachPath) {
  EXPECT_EQ(run({"cat", source, "tensors/bias", "tensors/bytes"}), (Ended{0, "0123456789abcdefbytes", ""}));
}

TEST_F(InspectTest, CatRefusesADirectory) {
  const Ended ended = run({"cat", source, "tensors"});
  EXPECT_NE(ended.status, 0);
  EXPECT_EQ(ended.out, "");
}

TEST_F(InspectTest, LayoutCanBeForced) {
  const std::string legacy = write("m.bt", small_bintensors().legacy());
  EXPECT_EQ(run({"ls", "--format", "bintensors-legacy", legacy, "tensors"}), (Ended{0, "empty\ns\nw\n", ""}));
  EXPECT_NE(run({"ls", "--format", "bintensors-release", legacy}).status, 0);
}

// semantics 8.8
TEST_F(InspectTest, NameOfATensorIsAPath) {
  EXPECT_EQ(run({"cat", source, "bias"}), (Ended{0, "0123456789abcdef", ""}));
  EXPECT_EQ(run({"cat", source, "encoder/weight"}).out, std::string(240, 'w'));
  EXPECT_EQ(run({"ls", source, "bias"}).out, "bias\n");
  EXPECT_EQ(run({"ls", source, "encoder"}).out, "weight\n") << "a module";
  const std::string escaped = write("e.safetensors", SafetensorsBuilder().tensor("a%b", "I8", "1", "x").build());
  EXPECT_EQ(run({"cat", escaped, "a%b"}), (Ended{0, "x", ""}));
}

TEST_F(InspectTest, FileOfTheModelComesBeforeATensor) {
  const std::string other =
      write("o.safetensors", SafetensorsBuilder().tensor("metadata.json", "I8", "1", "x").build());
  EXPECT_THAT(run({"cat", other, "metadata.json"}).out, HasSubstr("\"format\": \"safetensors\""));
}

TEST_F(InspectTest, TensorOfOneNestedModelIsFound) {
  const std::string zip =
      write("m.zip", zip_of({{"inner.safetensors", SafetensorsBuilder().tensor("w", "I8", "1", "x").build()}}));
  EXPECT_EQ(run({"cat", zip, "w"}), (Ended{0, "x", ""}));
}

TEST_F(InspectTest, TensorOfSeveralModelsIsRefusedWithTheCommands) {
  write("models/a.safetensors", model());
  write("models/b c.safetensors", model());
  const std::string models = temporary.path("models");
  const Ended ended = run({"cat", models, "bias"});
  EXPECT_EQ(ended,
            (Ended{3, "",
                   fmt::format("weightfs: {0}: bias: a tensor of 2 models; use weightfs cat {0} "
                               "a.safetensors/tensors/bias, or weightfs cat {0} 'b c.safetensors/tensors/bias'\n",
                               models)}));
  EXPECT_EQ(run({"cat", models, "b c.safetensors/tensors/bias"}).out, "0123456789abcdef");
}

// semantics 8.9
TEST_F(InspectTest, WrongWordsAreRefusedWithTheRightOnes) {
  EXPECT_EQ(
      run({"convert", "a", "b"}),
      (Ended{2, "", "weightfs: unknown command \"convert\"; use weightfs export SOURCE OUT (see weightfs --help)\n"}));
  EXPECT_EQ(
      run({"-v", "info", "m"}).err,
      "weightfs: -v: an option of commands; give it after the command; -V prints the version (see weightfs --help)\n");
  EXPECT_EQ(run({"--offline", "info", "m"}).err,
            "weightfs: --offline: an option of commands; give it after the command (see weightfs --help)\n");
  EXPECT_EQ(run({"unmount"}), run({"umount"})) << "another name";
}

}  // namespace
}  // namespace weightfs::test::inspect_test
