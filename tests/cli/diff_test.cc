// weightfs diff: output, exit statuses and messages.
#include <gmock/gmock.h>

#include "tests/builders/numpy_builder.h"
#include "tests/builders/tar_builder.h"
#include "tests/cli/command_line.h"

namespace weightfs::test::diff_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class DiffTest : public CommandTest {
 protected:
  // The lines except those about the length of a header.
  static std::vector<std::string> differences(std::vector<std::string> words, int status = 1,
                                              std::string_view err = {}) {
    words.insert(words.begin(), "diff");
    const Ended ended = run(words);
    EXPECT_EQ(ended.status, status);
    EXPECT_EQ(ended.err, err);
    std::vector<std::string> lines = lines_of(ended.out);
    if (!lines.empty()) EXPECT_THAT(lines.front(), testing::StartsWith("change\tname\tA\tB"));
    std::erase_if(lines, [](const std::string& line) {
      return line.find("header_length") != line.npos || line == "change\tname\tA\tB";
    });
    return lines;
  }
  static std::vector<std::string> without_metadata(std::vector<std::string> lines) {
    std::erase_if(lines, [](const std::string& line) { return line.starts_with("metadata\t"); });
    return lines;
  }
  static std::string json(const std::string& a, const std::string& b) {
    return compact(run({"diff", "--json", a, b}).out);
  }

  // Models, two of them in a directory, and other files.
  static Files members(int number) {
    return {{"unet/a.safetensors", model_of({{"w", {1, static_cast<float>(number)}}, {"same", {1}}})},
            {"unet/b.safetensors", model_of({{"w", {1}}})},
            {"same.safetensors", model_of({{"w", {1}}})},
            {"config.json", fmt::format("{{\"n\": {}}}", number)},
            {"same.json", "{}"}};
  }
  std::string directory_of(const std::string& name, int number) const {
    for (const auto& [path, bytes] : members(number)) write(name + "/" + path, bytes);
    return temporary.path(name);
  }
  // A shard for each of two tensors, with other files.
  std::string shards(const std::string& name, std::initializer_list<Floats> tensors, const Files& others) const {
    std::string weights;
    for (const Floats& tensor : tensors) {
      const std::string shard = fmt::format("model-{}.safetensors", weights.size());
      weights += fmt::format("{}\"{}\":\"{}\"", weights.empty() ? "" : ",", tensor.name, shard);
      write(name + "/" + shard, model_of({tensor}));
    }
    write(name + "/model.safetensors.index.json", fmt::format(R"({{"metadata":{{}},"weight_map":{{{}}}}})", weights));
    for (const auto& [path, bytes] : others) write(name + "/" + path, bytes);
    return temporary.path(name);
  }
};

constexpr const char* kEarly =
    "weightfs: {}: the file ends 4 bytes early: 1 of 2 tensors refused; interrupted download?\n";

// semantics 26.7
TEST_F(DiffTest, EqualModelsPrintNothing) {
  const std::string a = write("a.safetensors", small_safetensors());
  EXPECT_THAT(differences({a, write("b.safetensors", small_safetensors())}, 0), IsEmpty());
  EXPECT_THAT(differences({a, a, "--stat"}, 0), IsEmpty());
  EXPECT_THAT(json(a, a), HasSubstr(R"({"equal":true,)"));
}

TEST_F(DiffTest, EachKindOfDifferenceIsALine) {
  SafetensorsBuilder a, b;
  a.metadata(R"({"k":"v","same":"x"})").tensor("same", "F32", "1", floats({1})).tensor("gone", "F32", "1", floats({2}));
  a.tensor("old", "F32", "2", floats({3, 4})).tensor("bytes", "F32", "1", floats({5}));
  a.tensor("shape", "F32", "1", floats({6})).tensor("type", "I32", "1", floats({7}));
  b.metadata(R"({"k":"w","same":"x"})")
      .tensor("same", "F32", "1", floats({1}))
      .tensor("extra", "F32", "3", floats({2, 2, 2}));
  b.tensor("new", "F32", "2", floats({3, 4})).tensor("bytes", "F32", "1", floats({5.5}));
  b.tensor("shape", "F32", "2", floats({6, 6})).tensor("type", "F32", "1", floats({7}));
  EXPECT_THAT(
      differences({write("a.safetensors", a.build()), write("b.safetensors", b.build())}),
      ElementsAre("missing\tgone\tfloat32 [1]\t", "added\textra\t\tfloat32 [3]", "renamed\told\tfloat32 [2]\tnew",
                  "type\tshape\tfloat32 [1]\tfloat32 [2]", "type\ttype\tint32 [1]\tfloat32 [1]",
                  "bytes\tbytes\tfloat32 [1]\tfloat32 [1]", "metadata\tmetadata.k\tv\tw"));
}

TEST_F(DiffTest, FormatsAreComparedByTheirTensors) {
  const std::string a = write("a.safetensors", model_of({{"w", {1, 2}}, {"x", {3}}}));
  const std::string b = write("b.gguf", gguf_of({{"w", {1, 2}}, {"x", {3}}}));
  const std::vector<std::string> lines = differences({a, b});
  EXPECT_THAT(lines, testing::Contains("metadata\tformat\tsafetensors\tgguf"));
  EXPECT_THAT(without_metadata(lines), IsEmpty());
  EXPECT_THAT(json(a, b), HasSubstr(R"("equal_tensors":2)"));
}

constexpr const char* kStatHeader = "change\tname\tA\tB\tsnr_db\trelative_error\tcosine\tmax\tat\tmean\tdiffering";

// SNR, relative error, cosine, maximum with its place, mean, and how many numbers differ; the worst first.
TEST_F(DiffTest, StatMeasuresTheDeviation) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  SafetensorsBuilder a;
  a.tensor("w", "F32", "4", floats({1, 2, 3, 4})).tensor("n", "F32", "2", floats({kNan, 1}));
  a.tensor("d", "F64", "1", std::string("\0\0\0\0\0\0\xF0\x3F", 8));
  const std::string b = model_of({{"w", {1, 2.5, 3, 3}}, {"n", {kNan, 2}}, {"d", {1}}});
  EXPECT_THAT(without_metadata(differences({"--stat", write("a.safetensors", a.build()), write("b.safetensors", b)})),
              ElementsAre(kStatHeader, "bytes\tn\tfloat32 [2]\tfloat32 [2]\t0\t1\t1\t1\t[1]\t1\t1",
                          testing::MatchesRegex("bytes\tw\tfloat32 .4.\tfloat32 .4.\t13.8021[0-9]*\t0.20412[0-9]*\t"
                                                "0.98100[0-9]*\t1\t.3.\t0.375\t2"),
                          "type\td\tfloat64 [1]\tfloat32 [1]\tinf\t0\t1\t0\t\t0\t0"));
}

TEST_F(DiffTest, StatComparesNumbersOfOtherTypes) {
  const std::string a = write("a.safetensors", model_of({{"w", {1, -2, 0.5}}}));
  SafetensorsBuilder half;
  half.tensor("w", "F16", "3", std::string("\x00\x3C\x00\xC0\x00\x3C", 6));  // 1, -2, 1
  EXPECT_THAT(
      without_metadata(differences({"--stat", a, write("b.safetensors", half.build())})),
      ElementsAre(kStatHeader, testing::MatchesRegex("type\tw\tfloat32 .3.\tfloat16 .3.\t13.[0-9]*\t0.21821[0-9]*\t"
                                                     "0.[0-9]*\t0.5\t.2.\t0.1666[0-9]*\t1")));
}

TEST_F(DiffTest, StatComparesQuantisedTensorsWithFloat32) {
  std::string block("\x00\x38", 2);  // of q8_0: the scale 0.5, and 32 quants
  std::string numbers;
  for (int i = -16; i < 16; ++i) block += static_cast<char>(i), numbers += floats({static_cast<float>(i) / 2});
  const std::string b = write("b.gguf", GgufBuilder().tensor("w", {32}, 8, block).build());
  const auto line = [&](const std::string& bytes) {
    const std::string a = write("a.safetensors", SafetensorsBuilder().tensor("w", "F32", "32", bytes).build());
    return without_metadata(differences({"--stat", a, b})).at(1);
  };
  EXPECT_EQ(line(numbers), "type\tw\tfloat32 [32]\tq8_0 [32]\tinf\t0\t1\t0\t\t0\t0");
  numbers.replace(0, 4, floats({-7.75}));
  EXPECT_THAT(line(numbers),
              testing::MatchesRegex("type\tw\tfloat32 .32.\tq8_0 .32.\t40[.0-9]*\t0.009[0-9]*\t0.99[0-9]*\t0.25\t.0.\t"
                                    "0.0078125\t1"));
}

TEST_F(DiffTest, JsonHasEveryDifference) {
  const std::string a = write("a.safetensors", model_of({{"w", {1, 2}}, {"x", {3}}, {"z", {0}}}, R"({"k":"v"})"));
  const std::string b = write("b.safetensors", model_of({{"w", {1, 4}}, {"y", {3}}, {"z", {1}}}, R"({"l":"v"})"));
  const Ended ended = run({"diff", "--json", "--stat", a, b});
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.err, "");
  const auto type_of = [](int size) {
    return fmt::format(R"("dtype":"float32","stored_dtype":"F32","shape":[{}])", size);
  };
  const auto change = [&](const char* name, int size, const char* stat) {
    return fmt::format(R"({{"name":"{}","change":"bytes","a":{{{}}},"b":{{{}}},"stat":{{{}}}}})", name, type_of(size),
                       type_of(size), stat);
  };
  // The figures of one tensor, and those of all.
  constexpr const char* kOfW =
      R"("count":2,"differing":1,"nan":0,"snr_db":0.9691001300805644,"relative_error":0.8944271909999159,)"
      R"("rmse":1.4142135623730951,"cosine":0.9761870601839528,"max":2.0,"max_at":[1],"mean":1.0,)"
      R"("share_within_ulps":{"1":0.5,"2":0.5,"4":0.5,"8":0.5,"16":0.5},"differences":[{"exponent":1,"count":1}])";
  constexpr const char* kOfZ =
      R"("count":1,"differing":1,"nan":0,"snr_db":null,"relative_error":null,"rmse":1.0,"cosine":null,"max":1.0,)"
      R"("max_at":[0],"mean":1.0,"share_within_ulps":{"1":0.0,"2":0.0,"4":0.0,"8":0.0,"16":0.0},)"
      R"("differences":[{"exponent":0,"count":1}])";
  constexpr const char* kOfAll =
      R"("count":3,"differing":2,"nan":0,"snr_db":0.0,"relative_error":1.0,"rmse":1.2909944487358056,)"
      R"("cosine":0.9486832980505138,"max":2.0,"mean":1.0)";
  EXPECT_EQ(
      compact(ended.out),
      fmt::format(R"({{"equal":false,"metadata":[{{"field":"metadata.k","a":"v"}},{{"field":"metadata.l","b":"v"}}],)"
                  R"("missing":[],"added":[],"renamed":[{{"name":"x",{},"new_name":"y"}}],"changed":[{},{}],)"
                  R"("layers":[],"stat":{{{}}},"files":[],"unreadable":[],"equal_tensors":0,"equal_files":0}})",
                  type_of(1), change("w", 2, kOfW), change("z", 1, kOfZ), kOfAll));
}

// With limits, only numbers count: other metadata and types do not.
TEST_F(DiffTest, LimitsOfTheDeviationDecideTheStatus) {
  SafetensorsBuilder half;
  half.tensor("w", "F16", "3", std::string("\x00\x3C\x00\xC0\x00\x3C", 6));  // 1, -2, 1: a relative error of 0.218
  const std::string a = write("a.safetensors", model_of({{"w", {1, -2, 0.5}}}, R"({"k":"v"})"));
  const std::string b = write("b.safetensors", half.build());
  const auto status = [&](const char* option, const char* value, const std::string& of_a, const std::string& of_b) {
    return run({"diff", option, value, of_a, of_b}).status;
  };
  EXPECT_EQ(status("--fail-above", "0.2", a, b), 1);
  EXPECT_EQ(status("--fail-above", "0.25", a, b), 0);
  EXPECT_EQ(status("--min-snr", "14", a, b), 1);
  EXPECT_EQ(status("--min-snr", "13", a, b), 0);
  const std::string more = write("c.safetensors", model_of({{"w", {1, -2, 0.5}}, {"x", {1}}}));
  EXPECT_EQ(status("--fail-above", "1", a, more), 1) << "a tensor without a counterpart";
  const std::string nan = write("d.safetensors", model_of({{"w", {1, -2, NAN}}}));
  EXPECT_EQ(status("--fail-above", "1", a, nan), 1);
  EXPECT_EQ(status("--fail-above", "0", a, a), 0);
  const std::string both =
      write("both.zip", zip_of({{"x.safetensors", model_of({{"w", {1}}})}, {"y.gguf", gguf_of({{"w", {1}}})}}));
  const std::string one = write("one.zip", zip_of({{"x.safetensors", model_of({{"w", {1}}})}}));
  EXPECT_EQ(status("--fail-above", "1", both, one), 1) << "a model without a counterpart";
  EXPECT_EQ(status("--fail-above", "much", a, a), 2);
  EXPECT_EQ(status("--min-snr", "-1", a, a), 2);
}

TEST_F(DiffTest, RefusedTensorIsReportedOnce) {
  const std::string a = write("a.gguf", gguf_of({{"a", {1}}, {"b", {2}}})), b = write("b.gguf", cut_gguf());
  const std::string message = fmt::format(fmt::runtime(kEarly), b);
  EXPECT_THAT(without_metadata(differences({a, b}, 2, message)), IsEmpty());
  EXPECT_THAT(without_metadata(differences({"--stat", b, a}, 2, message)), IsEmpty());
  EXPECT_THAT(json(a, b), HasSubstr(R"("unreadable":[{"source":"b","name":"b","error":"refused: see warnings.txt"}])"));
  EXPECT_THAT(json(a, b), HasSubstr(R"("equal":false)"));
}

TEST_F(DiffTest, TensorThatCannotBeReadIsReportedOnce) {
  const std::string array = npy("<f4", "(1000,)", std::string(4000, 'w'));
  ZipBuilder right, wrong;
  right.deflated("w.npy", array);
  wrong.deflated("w.npy", array).crc = 1;
  const std::string b = write("b.npz", wrong.build());
  const Ended ended = run({"diff", write("a.npz", right.build()), b});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(lines_of(ended.err), ElementsAre(HasSubstr(b + ": tensor \"w\": ")));
}

TEST_F(DiffTest, EveryErrorIsStatus2) {
  const std::string source = write("m.safetensors", small_safetensors());
  write("models/a.safetensors", small_safetensors());
  write("models/b.safetensors", small_safetensors());
  for (const std::string& other : {temporary.path("absent"), write("text", "no model"), temporary.path("models")}) {
    const Ended ended = run({"diff", source, other});
    EXPECT_EQ(ended.status, 2) << other;
    EXPECT_EQ(lines_of(ended.err).size(), 1u) << ended.err;
  }
  EXPECT_EQ(run({"diff", source}).status, 2);
}

TEST_F(DiffTest, HostileNamesAreEscaped) {
  const std::string a =
      write("a.safetensors", model_of({{"evil\\u001b[31m\\n", {1}}}, R"({"k\u0007":"\u001b]0;title\u0007"})"));
  const Ended ended = run({"diff", a, write("b.safetensors", model_of({{"w", {1, 2}}}))});
  EXPECT_THAT(ended.out, HasSubstr("evil"));
  EXPECT_TRUE(std::ranges::none_of(ended.out, [](char c) { return c == '\x1b' || c == '\x07'; }));
}

TEST_F(DiffTest, ShardedModelIsComparedWithOneFile) {
  const std::string sharded = shards("sharded", {{"x", {1}}, {"y", {2, 3}}}, {});
  EXPECT_THAT(json(write("whole.safetensors", model_of({{"x", {1}}, {"y", {2, 3}}})), sharded),
              testing::AllOf(HasSubstr(R"("equal_tensors":2)"), HasSubstr(R"("changed":[],)"),
                             HasSubstr(R"("missing":[],"added":[],)")));
}

// ---- files and models of archives and directories: semantics 26.10

TEST_F(DiffTest, NestedModelsAndMembersOfZipsAreCompared) {
  const std::string a = write("a.zip", zip_of(members(1))), b = write("b.zip", zip_of(members(2)));
  EXPECT_THAT(differences({a, b}), ElementsAre("bytes\tunet/a.safetensors/w\tfloat32 [2]\tfloat32 [2]",
                                               "file\tconfig.json\tfile, 8 bytes\tfile, 8 bytes"));
  ZipBuilder deflated;
  for (const auto& [name, bytes] : members(1)) deflated.deflated(name, bytes);
  EXPECT_THAT(differences({a, write("c.zip", deflated.build())}, 0), IsEmpty());
  const std::string found = json(a, b);
  EXPECT_THAT(found, HasSubstr(R"("changed":[{"name":"unet/a.safetensors/w",)"));
  EXPECT_THAT(
      found,
      HasSubstr(R"("files":[{"name":"config.json","a":{"type":"file","size":8},"b":{"type":"file","size":8}}])"));
  EXPECT_THAT(found, HasSubstr(R"("equal_tensors":3,"equal_files":1})"));
}

TEST_F(DiffTest, ModelsAndFilesOfDirectoriesAreCompared) {
  const std::string a = directory_of("a", 1), b = directory_of("b", 2);
  const auto expected = ElementsAre("bytes\tunet/a.safetensors/w\tfloat32 [2]\tfloat32 [2]",
                                    "file\tconfig.json\tfile, 8 bytes\tfile, 8 bytes");
  EXPECT_THAT(differences({a, b}), expected);
  EXPECT_THAT(differences({a, a}, 0), IsEmpty());
  EXPECT_THAT(differences({a, write("a.zip", zip_of(members(1)))}, 0), IsEmpty());
  EXPECT_THAT(differences({a, write("b.zip", zip_of(members(2)))}), expected);
}

TEST_F(DiffTest, FilesBesideShardsAreCompared) {
  const std::string a = shards("a", {{"x", {1}}, {"y", {2, 3}}}, {{"config.json", "1"}, {"only.a", "12"}});
  const std::string b = shards("b", {{"x", {1}}, {"y", {2, 3}}}, {{"config.json", "2"}, {"only.b", ""}});
  EXPECT_THAT(differences({a, b}), ElementsAre("file\tconfig.json\tfile, 1 bytes\tfile, 1 bytes",
                                               "missing\tonly.a\tfile, 2 bytes\t", "added\tonly.b\t\tfile, 0 bytes"));
}

TEST_F(DiffTest, ShardsOfOtherSizesAreNoDifferentFiles) {
  const std::string a = shards("a", {{"x", {1}}, {"y", {2, 3}}}, {{"config.json", "1"}});
  EXPECT_THAT(differences({a, shards("b", {{"y", {2, 3}}, {"x", {1}}}, {{"config.json", "1"}})}, 0), IsEmpty());
  const std::string whole = write("whole.gguf", gguf_of({{"x", {1}}, {"y", {2, 3}}}));
  EXPECT_THAT(without_metadata(differences({a, whole})), IsEmpty());
  EXPECT_THAT(json(a, whole), testing::AllOf(HasSubstr(R"("equal_tensors":2)"), HasSubstr(R"("files":[])")));
}

TEST_F(DiffTest, ModelThatOnlyOneHasIsALine) {
  const std::string model = model_of({{"w", {1}}});
  EXPECT_THAT(differences({write("a.zip", zip_of({{"a.safetensors", model}})),
                           write("b.zip", zip_of({{"b.safetensors", model}}))}),
              ElementsAre(fmt::format("missing\ta.safetensors\tmodel, {} bytes\t", model.size()),
                          fmt::format("added\tb.safetensors\t\tmodel, {} bytes", model.size())));
}

TEST_F(DiffTest, WeightsOfOneFormatAreComparedByTensorsOnly) {
  ZipBuilder deflated;
  deflated.deflated("w.npy", npy("<f4", "(2,)", std::string(8, 'w')));
  EXPECT_THAT(
      differences({write("a.npz", zip_of({{"w.npy", npy("<f4", "(1,)", "wwww")}})), write("b.npz", deflated.build())}),
      ElementsAre("type\tw\tfloat32 [1]\tfloat32 [2]"));
}

TEST_F(DiffTest, IncompleteNestedModelIsStatus2) {
  const std::string a = write("a.zip", zip_of({{"m.gguf", gguf_of({{"a", {1}}, {"b", {2}}})}}));
  const std::string b = write("b.zip", zip_of({{"m.gguf", cut_gguf()}}));
  std::vector<std::string> lines = differences({a, b}, 2, fmt::format(fmt::runtime(kEarly), b + "/m.gguf"));
  std::erase_if(lines, [](const std::string& line) { return line.find("metadata") != line.npos; });
  EXPECT_THAT(lines, IsEmpty());
  EXPECT_THAT(json(a, b), HasSubstr(R"("equal":false)"));
}

TEST_F(DiffTest, MemberThatCannotBeReadIsStatus2) {
  ZipBuilder right, wrong;
  right.deflated("data.bin", std::string(1000, 'x'));
  wrong.deflated("data.bin", std::string(1000, 'x')).crc = 1;
  const std::string b = write("b.zip", wrong.build());
  const Ended ended = run({"diff", write("a.zip", right.build()), b});
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(ended.out, "");
  EXPECT_THAT(lines_of(ended.err), ElementsAre(HasSubstr(b + ": \"data.bin\": ")));
}

TEST_F(DiffTest, UnreadableModelWithEqualBytesIsEqual) {
  const std::string damaged =
      "GGUF" + length_prefix(3).substr(0, 4) + length_prefix(uint64_t{1} << 60) + length_prefix(1);
  const std::string a = write("a.zip", zip_of({{"m.gguf", damaged}}));
  EXPECT_THAT(differences({a, write("b.zip", zip_of({{"m.gguf", damaged}}))}, 0), IsEmpty());
  EXPECT_THAT(differences({a, write("c.zip", zip_of({{"m.gguf", damaged + "x"}}))}),
              ElementsAre("file\tm.gguf\tmodel, 24 bytes\tmodel, 25 bytes"));
}

TEST_F(DiffTest, LinksAreComparedByTheirTargets) {
  const auto tar = [](const char* target) {
    return tars::TarBuilder().file("x", "1").file("y", "1").link("link", target).build();
  };
  EXPECT_THAT(differences({write("a.tar", tar("x")), write("b.tar", tar("y"))}),
              ElementsAre("file\tlink\tlink to x\tlink to y"));
}

}  // namespace
}  // namespace weightfs::test::diff_test
