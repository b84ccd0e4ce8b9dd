// weightfs stats, and info --duplicates: output, exit statuses and messages.
#include <gmock/gmock.h>

#include <limits>

#include "base/digest.h"
#include "tests/builders/numpy_builder.h"
#include "tests/cli/command_line.h"

namespace weightfs::test::stats_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class StatsTest : public CommandTest {
 protected:
  // The names of the tensors of `stats --json`.
  static std::vector<std::string> names(std::vector<std::string> words) {
    words.insert(words.begin(), {"stats", "--json"});
    const Ended ended = run(words);
    EXPECT_EQ(ended.status, 0) << ended.err;
    std::vector<std::string> names;
    constexpr std::string_view kName = R"("name": ")";
    for (size_t at = 0; (at = ended.out.find(kName, at)) != std::string::npos;) {
      at += kName.size();
      names.push_back(ended.out.substr(at, ended.out.find('"', at) - at));
    }
    return names;
  }
  static std::string figures(const std::string& source) { return compact(run({"stats", "--json", source}).out); }
  // Those of `info --duplicates` behind the group: bytes, cost, source, name, type, shape.
  static std::vector<std::string> duplicates(std::vector<std::string> words) {
    words.insert(words.begin(), {"info", "--duplicates"});
    const Ended ended = run(words);
    EXPECT_EQ(ended.status, 0) << ended.err;
    std::vector<std::string> lines = lines_of(ended.out);
    for (std::string& line : lines) line.erase(0, line.find('\t') + 1);
    return lines;
  }
};

constexpr const char* kEarly =
    "weightfs: {}: the file ends 4 bytes early: 1 of 2 tensors refused; interrupted download?\n";

// semantics 26.8
TEST_F(StatsTest, FiguresAreThoseOfTheNumbers) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  const std::string source =
      write("m.safetensors", model_of({{"w", {2, 4, 4, 4, 5, 5, 7, 9}}, {"bad", {kNan, kInfinity, 0, 3}}}));
  EXPECT_EQ(figures(source),
            R"([{"name":"w","dtype":"float32","shape":[8],"count":8,"zeros":0,"nan":0,"inf":0,"min":2.0,"max":9.0,)"
            R"("mean":5.0,"std":2.0,"histogram":[1,0,0,0,3,0,2,0,0,0,0,1,0,0,0,1]},)"
            R"({"name":"bad","dtype":"float32","shape":[4],"count":4,"zeros":1,"nan":1,"inf":1,"min":0.0,"max":3.0,)"
            R"("mean":1.5,"std":1.5,"histogram":[1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1]}])");
  EXPECT_THAT(lines_of(run({"stats", source}).out), ElementsAre(testing::EndsWith("\t1,0,0,0,3,0,2,0,0,0,0,1,0,0,0,1"),
                                                                testing::StartsWith("bad\tfloat32\t")));
}

TEST_F(StatsTest, PatternsSelectTensors) {
  const std::string source =
      write("m.safetensors", model_of({{"a/w", {1}}, {"a/b", {1}}, {"c/w", {1}}, {"c[0]", {1}}}));
  EXPECT_THAT(names({source, "*w"}), ElementsAre("a/w", "c/w"));
  EXPECT_THAT(names({source, "a/b", "c[0]"}), ElementsAre("a/b", "c[0]"));
  EXPECT_EQ(run({"stats", source, "absent*", "a/b"}), (Ended{3, "", "weightfs: no tensor matches \"absent*\"\n"}));
}

TEST_F(StatsTest, TensorWithoutNumbersHasAReason) {
  const Ended ended = run({"stats", "--json", write("m.npy", npy("<c8", "(1,)", "12345678"))});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("\"error\": \"type complex64 has no numbers\""));
}

TEST_F(StatsTest, RefusedTensorIsStatus5) {
  const std::string source = write("a.gguf", cut_gguf());
  const Ended ended = run({"stats", "--json", source});
  EXPECT_EQ(ended.status, 5);
  EXPECT_EQ(ended.err, fmt::format(fmt::runtime(kEarly), source));
  EXPECT_THAT(compact(ended.out), HasSubstr(R"("error":"refused: see warnings.txt")"));
}

TEST_F(StatsTest, NestedModelsHaveThePathOfTheirContainer) {
  const std::string zip =
      zip_of({{"unet/a.safetensors", model_of({{"w", {1, 2}}})}, {"b.gguf", gguf_of({{"w", {3}}})}});
  const std::string source = write("m.zip", zip);
  EXPECT_THAT(names({source}), ElementsAre("b.gguf/w", "unet/a.safetensors/w"));
  EXPECT_THAT(
      figures(source),
      HasSubstr(R"("name":"b.gguf/w","dtype":"float32","shape":[1],"count":1,"zeros":0,"nan":0,"inf":0,"min":3.0)"));
  EXPECT_THAT(names({source, "unet/*"}), ElementsAre("unet/a.safetensors/w"));
  write("models/m.zip", zip);
  write("models/c.safetensors", model_of({{"x", {5}}}));
  EXPECT_THAT(names({temporary.path("models")}),
              ElementsAre("c.safetensors/x", "m.zip/b.gguf/w", "m.zip/unet/a.safetensors/w"));
}

TEST_F(StatsTest, NestedModelThatIsIncompleteIsStatus5) {
  const std::string source = write("m.zip", zip_of({{"a.gguf", cut_gguf()}}));
  const Ended ended = run({"stats", source});
  EXPECT_EQ(ended.status, 5);
  EXPECT_EQ(ended.err, fmt::format(fmt::runtime(kEarly), source + "/a.gguf"));
  EXPECT_EQ(lines_of(ended.out).size(), 2u);
}

TEST_F(StatsTest, SourceWithoutTensorsIsAnError) {
  const std::string source = write("m.zip", zip_of({{"README", "text"}}));
  const Ended ended = run({"stats", "--json", source});
  EXPECT_EQ(ended.status, 3);
  EXPECT_EQ(ended.err, fmt::format("weightfs: {}: has no tensors\n", source));
}

TEST_F(StatsTest, DuplicatesOfTwoModelsAreListedByCost) {
  const std::string a = write("a.safetensors", model_of({{"embed", {1, 2}}, {"head", {1, 2}}, {"w", {3}}}));
  const std::string b = write("b.safetensors", model_of({{"other", {1, 3}}, {"w", {3}}}));
  EXPECT_THAT(duplicates({a, b}),
              ElementsAre("8\t8\t" + a + "\tembed\tfloat32\t[2]", "8\t8\t" + a + "\thead\tfloat32\t[2]",
                          "4\t4\t" + a + "\tw\tfloat32\t[1]", "4\t4\t" + b + "\tw\tfloat32\t[1]"));
}

TEST_F(StatsTest, DuplicatesHaveTheirDigestInJson) {
  const std::string a = write("a.safetensors", model_of({{"x", {1, 2}}, {"y", {1, 2}}}));
  const auto tensor = [&](char name) {
    return fmt::format(R"({{"source":"{}","name":"{}","dtype":"float32","shape":[2]}})", a, name);
  };
  EXPECT_EQ(compact(run({"info", "--duplicates", "--json", a}).out),
            fmt::format(R"([{{"digest":"sha256:{}","nbytes":8,"cost":8,"tensors":[{},{}]}}])",
                        sha256(floats({1, 2})).hex(), tensor('x'), tensor('y')));
}

TEST_F(StatsTest, DuplicatesAreFoundInDirectoriesAndNestedModels) {
  const std::string a = write("models/a.safetensors", model_of({{"x", {1}}})),
                    b = write("models/b.gguf", gguf_of({{"y", {1}}}));
  EXPECT_THAT(duplicates({temporary.path("models")}),
              ElementsAre("4\t4\t" + a + "\tx\tfloat32\t[1]", "4\t4\t" + b + "\ty\tfloat32\t[1]"));
  const std::string zip =
      write("m.zip", zip_of({{"a.safetensors", model_of({{"x", {1}}})}, {"b.safetensors", model_of({{"y", {1}}})}}));
  EXPECT_THAT(duplicates({zip}), ElementsAre("4\t4\t" + zip + "/a.safetensors\tx\tfloat32\t[1]",
                                             "4\t4\t" + zip + "/b.safetensors\ty\tfloat32\t[1]"));
}

TEST_F(StatsTest, DuplicatesOfAModelWithARefusedTensorAreStatus5) {
  const std::string source = write("a.gguf", cut_gguf());
  EXPECT_EQ(run({"info", "--duplicates", source}), (Ended{5, "", fmt::format(fmt::runtime(kEarly), source)}));
}

}  // namespace
}  // namespace weightfs::test::stats_test
