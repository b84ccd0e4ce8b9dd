// weightfs stats, and info --duplicates: output, exit statuses and messages.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <limits>

#include "base/digest.h"
#include "tests/builders/numpy_builder.h"
#include "tests/builders/safetensors_builder.h"
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
    const std::string out = ended.out.substr(0, ended.out.find("\n  \"layers\":"));
    constexpr std::string_view kName = R"("name": ")";
    for (size_t at = 0; (at = out.find(kName, at)) != std::string::npos;) {
      at += kName.size();
      names.push_back(out.substr(at, out.find('"', at) - at));
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
    lines.erase(lines.begin());  // the names of the columns
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
  EXPECT_THAT(
      figures(source),
      testing::AllOf(testing::StartsWith(
                         R"({"tensors":[{"name":"w","dtype":"float32","shape":[8],"count":8,"zeros":0,"nan":0,)"
                         R"("inf":0,"min":2.0,"max":9.0,"mean":5.0,"std":2.0,"skewness":0.65625,"kurtosis":-0.21875,)"
                         R"("l1":40.0,"l2":15.231546211727817,"rms":5.385164807134504,"percentiles":{"0.1":2.014,)"),
                     HasSubstr(R"("exact":true,"near_zero":0,"histogram":[1,0,)"),
                     HasSubstr(R"("log2_histogram":[{"exponent":1,"negative":0,"positive":1},)"
                               R"({"exponent":2,"negative":0,"positive":6},{"exponent":3,"negative":0,"positive":1}])"),
                     HasSubstr(R"({"name":"bad","dtype":"float32","shape":[4],"count":4,"zeros":1,"nan":1,"inf":1,)"
                               R"("min":0.0,"max":3.0,"mean":1.5,"std":1.5,)"),
                     HasSubstr(R"("layers":[],"total":{"name":"total","tensors":2,"count":12,"zeros":1,"nan":1)")));
  const auto lines = lines_of(run({"stats", source}).out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0],
            "tensor\tdtype\telements\tmean\tstd\tmin\tp1\tmedian\tp99\tmax\tzeros\tflags\thistogram\tnan\tinf\t"
            "dead_rows\trms\tl1\tl2\tskewness\tkurtosis");
  EXPECT_THAT(lines[1], testing::StartsWith("w\tfloat32\t8\t5\t2\t2\t2.14\t4.5\t8.86\t9\t0\t\t1,0,"));
  EXPECT_THAT(lines[2], testing::StartsWith("bad\tfloat32\t4\t1.5\t1.5\t0\t"));
  EXPECT_THAT(lines[2], HasSubstr("\tNaN 1, inf 1\t"));
}

TEST_F(StatsTest, TensorsAreSortedAndCut) {
  const std::string source =
      write("m.safetensors", model_of({{"a", {1, 2}}, {"b", {5}}, {"c", {1, 1, 9}}, {"d", {2}}}));
  EXPECT_THAT(names({source, "--sort", "max"}), ElementsAre("c", "b", "a", "d"));
  EXPECT_THAT(names({source, "--sort", "elements", "--top", "2"}), ElementsAre("c", "a"));
  EXPECT_THAT(names({source, "--top", "9"}), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(run({"stats", source, "--sort", "colour"}).err,
              HasSubstr("\"colour\" is not a column; use tensor, dtype"));
  EXPECT_EQ(run({"stats", source, "--top", "few"}).status, 2);
}

TEST_F(StatsTest, LayersHaveTotals) {
  const std::string source =
      write("m.safetensors", model_of({{"h.0.a", {1, 3}}, {"h.1.a", {5}}, {"h.0.b", {8}}, {"x", {7}}}));
  EXPECT_THAT(figures(source), HasSubstr(R"("layers":[{"name":"h.0","tensors":2,"count":3,"zeros":0,"nan":0,"inf":0,)"
                                         R"("min":1.0,"max":8.0,"mean":4.0)"));
}

// numbers.md, Two tensors
TEST_F(StatsTest, FiguresAgainstAReferenceAreThoseOfEachPair) {
  const std::string reference = write(
      "a.safetensors", model_of({{"h.0.w", {3, 4}}, {"h.0.same", {4}}, {"gone", {1}}, {"h.1.w", {2}}, {"x", {1}}}));
  const std::string source = write(
      "b.safetensors", model_of({{"new", {1}}, {"h.1.w", {1}}, {"h.0.same", {4}}, {"h.0.w", {3, 4.5}}, {"x", {1, 2}}}));
  const Ended ended = run({"stats", "--against", reference, source});
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.err, fmt::format("weightfs: {}: 1 tensor is missing, which the reference has: \"gone\"\n", source));
  const auto lines = lines_of(ended.out);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0],
            "tensor\treference\tdtype\telements\tsnr_db\trelative_error\tcosine\tmax\tat\tmean\tdiffering\tnote");
  EXPECT_EQ(lines[1], "new\t\tfloat32\t1\t\t\t\t\t\t\t\tnot in the reference");
  EXPECT_EQ(lines[2], "h.1.w\tfloat32\tfloat32\t1\t6.020599913279624\t0.5\t1\t1\t[0]\t1\t1\t");
  EXPECT_EQ(lines[3], "h.0.same\tfloat32\tfloat32\t1\tinf\t0\t1\t0\t\t0\t0\t");
  EXPECT_THAT(lines[4], testing::StartsWith("h.0.w\tfloat32\tfloat32\t2\t20\t0.1\t0.998"));
  EXPECT_THAT(lines[4], testing::EndsWith("\t0.5\t[1]\t0.25\t1\t"));
  EXPECT_EQ(lines[5], "x\tfloat32\tfloat32\t2\t\t\t\t\t\t\t\tanother shape");
}

TEST_F(StatsTest, LayersAgainstAReferenceIncludeEqualTensors) {
  const std::string reference =
      write("a.safetensors", model_of({{"h.0.w", {3, 4}}, {"h.0.same", {12}}, {"h.1.w", {2}}, {"gone", {1}}}));
  const std::string source =
      write("b.safetensors", model_of({{"h.1.w", {2}}, {"h.0.w", {3, 5.3F}}, {"h.0.same", {12}}}));
  const std::string found = compact(run({"stats", "--json", "--against", reference, source}).out);
  EXPECT_THAT(found, HasSubstr(R"({"tensors":[{"name":"h.1.w","dtype":"float32","shape":[1],"reference_dtype":)"
                               R"("float32","stat":{"count":1,"differing":0,"nan":0,"snr_db":null,)"
                               R"("relative_error":0.0,)"));
  EXPECT_THAT(found, HasSubstr(R"("layers":[{"name":"h.1","tensors":1,"stat":{"count":1,"differing":0,)"));
  // 1.3 of a vector of the length 13.
  EXPECT_THAT(found, testing::ContainsRegex(
                         R"("name":"h.0","tensors":2,"stat":."count":3,"differing":1,"nan":0,"snr_db":[^,]*,)"
                         R"("relative_error":0.(1|09999))"));
  EXPECT_THAT(found, HasSubstr(R"("total":{"name":"total","tensors":3,"stat":{"count":4,"differing":1,)"));
  EXPECT_THAT(found, testing::EndsWith(R"("missing":["gone"]})"));
}

TEST_F(StatsTest, TensorsAgainstAReferenceAreSortedByTheWorst) {
  const std::string reference = write("a.safetensors", model_of({{"a", {2}}, {"b", {2}}, {"c", {2, 2}}, {"d", {8}}}));
  const std::string source =
      write("b.safetensors", model_of({{"new", {1}}, {"a", {1.5}}, {"b", {1}}, {"c", {2, 2}}, {"d", {7}}}));
  const auto sorted = [&](const std::string& column) {
    return names({source, "--against", reference, "--sort", column});
  };
  EXPECT_THAT(sorted("snr_db"), ElementsAre("b", "a", "d", "c", "new"));
  EXPECT_THAT(sorted("relative_error"), ElementsAre("b", "a", "d", "c", "new"));
  EXPECT_THAT(sorted("max"), ElementsAre("b", "d", "a", "c", "new"));
  EXPECT_THAT(sorted("elements"), ElementsAre("c", "new", "a", "b", "d"));
  EXPECT_THAT(sorted("tensor"), ElementsAre("a", "b", "c", "d", "new"));
  EXPECT_THAT(names({source, "--against", reference, "--sort", "max", "--top", "1"}), ElementsAre("b"));
  EXPECT_THAT(names({source, "--against", reference, "[ab]"}), ElementsAre("a", "b"));
  EXPECT_EQ(run({"stats", "--against", reference, source, "nothing"}).status, 3);
}

TEST_F(StatsTest, DamagedModelsAgainstEachOtherHaveTheStatusOfDamage) {
  const std::string whole = model_of({{"a", {1, 2}}, {"b", {3}}});
  const std::string reference = write("a.safetensors", whole);
  const std::string cut = write("cut.safetensors", whole.substr(0, whole.size() - 4));
  for (const bool is_reference : {false, true}) {
    const Ended ended = run({"stats", "--against", is_reference ? cut : reference, is_reference ? reference : cut});
    EXPECT_EQ(ended.status, 5);
    EXPECT_THAT(ended.err, HasSubstr("1 of 2 tensors refused; interrupted download?"));
    EXPECT_THAT(ended.err, HasSubstr("1 of 2 tensors cannot be compared: tensor \"b\": "));
    EXPECT_THAT(ended.out, HasSubstr("\na\tfloat32\tfloat32\t2\tinf\t"));
  }
}

TEST_F(StatsTest, WrongUseOfAReferenceIsNamed) {
  const std::string source = write("m.safetensors", model_of({{"a", {1}}}));
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--sample", "--against", source}, "--against cannot be combined with --sample"},
      {{"--threshold", "1", "--against", source}, "--against cannot be combined with"},
      {{"--sort", "std", "--against", source}, "--sort std is not a column of --against"},
      {{"--sort", "snr_db"}, "--sort snr_db needs --against"},
      {{"--names", "as-stored"}, "--names needs --against MODEL"},
  };
  for (const auto& [words, message] : cases) {
    std::vector<std::string> all = {"stats", source};
    all.insert(all.end(), words.begin(), words.end());
    const Ended ended = run(all);
    EXPECT_EQ(ended.status, 2);
    EXPECT_THAT(ended.err, HasSubstr(message));
  }
  EXPECT_EQ(run({"stats", source, "--against", temporary.path("missing")}).status, 3);
}

TEST_F(StatsTest, ChannelsAreThoseOfEachAxis) {
  SafetensorsBuilder model;
  model.tensor("w", "F32", "2,3", floats({1, 0, 2, 3, 0, -4}));
  const std::string source = write("m.safetensors", model.build());
  EXPECT_THAT(lines_of(run({"stats", source, "--axis", "1"}).out),
              ElementsAre("tensor\taxis\tchannel\trms\tmax\toutlier_share", "w\t1\t2\t3.1622776601683795\t4\t0",
                          "w\t1\t0\t2.23606797749979\t3\t0", "w\t1\t1\t0\t0\t0"));
  EXPECT_EQ(lines_of(run({"stats", source, "--per-channel"}).out).size(), 6u);
}

TEST_F(StatsTest, FiguresThatCannotBeShownAreErrors) {
  const std::string source = write("m.safetensors", model_of({{"a", {1}}, {"b", {2}}}));
  EXPECT_EQ(run({"stats", source, "--axis", "7"}).status, 3);
  EXPECT_EQ(run({"stats", source, "--axis", "0"}).status, 3) << "only vectors";
  EXPECT_EQ(run({"stats", source, "--per-channel"}).status, 3);
}

TEST_F(StatsTest, WrongUseOfOptionsHasTheStatusOfUsage) {
  const std::string source = write("m.safetensors", model_of({{"a", {1}}}));
  const Ended needs_json = run({"stats", source, "--svd"});
  EXPECT_EQ(needs_json.status, 2);
  EXPECT_THAT(needs_json.err, HasSubstr("--svd needs --json"));
  const Ended combined = run({"stats", source, "--sample", "--per-channel"});
  EXPECT_EQ(combined.status, 2);
  EXPECT_THAT(combined.err, HasSubstr("cannot be combined"));
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
  EXPECT_EQ(lines_of(ended.out).size(), 3u);
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
