// TVM's Model Library Format and tvmc's package, as archives and as directories.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/archive/archive_formats.h"
#include "tests/builders/mlf_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::mlf_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

archive::Archive archive_of(const Files& files) {
  archive::Builder builder(archive::DuplicatePolicy::last_wins);
  for (const auto& [path, bytes] : files) builder.add_file(path, in_memory(bytes));
  return std::move(builder).finish();
}

Container container() { return Container{"m.tar", in_memory(""), nullptr}; }

Model read_well(const Files& files) {
  EXPECT_TRUE(matches_mlf(archive_of(files)).value());
  return well(read_mlf(archive_of(files), container()));
}

// One line per tensor: scope and listing().
std::vector<std::string> scoped_listing(const Model& model) {
  std::vector<std::string> lines = listing(model);
  for (size_t i = 0; i < lines.size(); ++i) lines[i] = fmt::format("{}:{}", model.tensors[i].scope, lines[i]);
  return lines;
}

class MlfVersion : public testing::TestWithParam<int> {};

TEST_P(MlfVersion, AllVersionsGiveTheSameModel) {
  const int version = GetParam();
  const Model model = read_well(mlf_files(version));
  EXPECT_EQ(model.format, "tvm-mlf");
  EXPECT_EQ(model.version, std::to_string(version));
  EXPECT_THAT(scoped_listing(model), ElementsAre(":p0 float32 float32 [2] 00001111"));
  EXPECT_EQ(to_json_line(model.common), R"({"name":"mlp"})");
  EXPECT_EQ(
      metadata_of(model, "tvm-mlf"),
      fmt::format("{}{}{}{}{}{}{}", R"({"version":)", version, R"(,"modules":{"mlp":{)",
                  version < 4 ? "" : R"("style":"full-model",)",
                  R"("executors":["graph"],"targets":["c -keys=cpu "],"exported":"2026-11-20 02:13:56Z")",
                  version == 1 ? ""
                               : R"(,"memory":[{"device":1,"workspace_size_bytes":176,"constants_size_bytes":160,)"
                                 R"("io_size_bytes":48}])",
                  R"(}},"parameters":{"parameters/mlp.params":1}})"));
  EXPECT_EQ(model.parts.size(), 4U);
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST_P(MlfVersion, KeepsAllMetadata) {
  const std::string metadata = mlf_metadata(GetParam());
  const Model model = read_well({{"metadata.json", metadata}});
  const Value stored = parse_json(*in_memory(metadata), 0, metadata.size()).value();
  for (const auto& [key, value] : std::get<Map>(stored)) EXPECT_EQ(metadata_of(model, key), to_json_line(value)) << key;
}

// Exporters of every version wrote sizes of other nodes.
TEST_P(MlfVersion, WarnsAboutWrongSizesInMetadata) {
  const Model model = read_well(mlf_files(GetParam(), 128));
  EXPECT_EQ(model.tensors.at(0).nbytes(), 8U);
  EXPECT_THAT(model.warnings, ElementsAre("metadata.json: size_bytes is wrong for 1 of 1 parameters "
                                          "(\"p0\": 128, it has 8); sizes from the .params file are used"));
}

INSTANTIATE_TEST_SUITE_P(All, MlfVersion, testing::Range(1, 8));

TEST(Mlf, ReadsOperators) {
  for (const int version : {4, 5, 6, 7}) {
    const Model model = read_well({{"metadata.json", mlf_operator_metadata(version)}, {"src/tir-1.txt", "#[main]"}});
    EXPECT_EQ(model.version, std::to_string(version));
    EXPECT_THAT(model.tensors, IsEmpty());
    EXPECT_EQ(
        metadata_of(model, "tvm-mlf"),
        fmt::format("{}{}{}{}", R"({"version":)", version, R"(,"modules":{"add":{"style":"operator","executors":[],)",
                    R"("targets":["c -keys=cpu "],"exported":"2026-11-20 02:13:56Z"}},"parameters":{}})"));
    EXPECT_THAT(model.warnings, IsEmpty());
  }
}

TEST(Mlf, TensorsOfSeveralModulesHaveScopes) {
  const std::string two =
      ParamsBuilder().array("p0", kTvmInt8, {}, "2").array("f", tvm_type(3, 64), {}, "12345678").build();
  const Model model = read_well({{"metadata.json", R"({"modules": {"a": {}, "b": {}}, "version": 7})"},
                                 {"parameters/a.params", mlf_parameters()},
                                 {"parameters/b.params", two}});
  EXPECT_THAT(scoped_listing(model), ElementsAre("a:p0 float32 float32 [2] 00001111", "b:p0 int8 int8 [] 2",
                                                 "b:f unknown handle64 [] 12345678"));
  EXPECT_TRUE(model.common.empty());
  EXPECT_EQ(
      metadata_of(model, "tvm-mlf"),
      R"({"version":7,"modules":{"a":{},"b":{}},"parameters":{"parameters/a.params":1,"parameters/b.params":2}})");
  EXPECT_THAT(model.warnings,
              ElementsAre("\"parameters/b.params\": tensor \"f\": type handle64 is unknown; shown as bytes"));
}

// The size of each is that in its own module.
TEST(Mlf, ComparesSizesModuleByModule) {
  const auto module = [](uint64_t size) {
    return fmt::format("{}{}}}}}", R"({"memory": {"sids": )", mlf_storage(size));
  };
  const Model model = read_well({{"metadata.json", fmt::format("{}{}{}{}{}", R"({"modules": {"a": )", module(8),
                                                               R"(, "b": )", module(8), R"(}, "version": 7})")},
                                 {"parameters/a.params", mlf_parameters()},
                                 {"parameters/b.params", ParamsBuilder().array("p0", kTvmInt8, {}, "2").build()}});
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("wrong for 1 of 2 parameters (\"p0\": 8, it has 1)")));
}

// AOT links the constants into its code.
TEST(Mlf, EmptyListHasNoTensors) {
  Files files = mlf_files(7);
  files["parameters/mlp.params"] = ParamsBuilder().build();
  const Model model = read_well(files);
  EXPECT_THAT(model.tensors, IsEmpty());
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_THAT(metadata_of(model, "tvm-mlf"), HasSubstr(R"("parameters":{"parameters/mlp.params":0})"));
}

// The documentation calls the file `.json`.
TEST(Mlf, FindsParametersByMagicNumber) {
  Files files = mlf_files(5);
  files["parameters/mlp.json"] = files["parameters/mlp.params"];
  files["parameters/notes.json"] = "{}";
  files.erase("parameters/mlp.params");
  EXPECT_THAT(scoped_listing(read_well(files)), ElementsAre(":p0 float32 float32 [2] 00001111"));
}

TEST(Mlf, CorruptParametersLeaveOthersReadable) {
  Files files = mlf_files(7);
  files["parameters/other.params"] = "no parameters";
  files["parameters/cut.params"] = mlf_parameters().substr(0, 60);
  const Model model = read_well(files);
  EXPECT_THAT(scoped_listing(model), ElementsAre("mlp:p0 float32 float32 [2] 00001111"));
  EXPECT_THAT(model.warnings,
              ElementsAre(HasSubstr("\"parameters/cut.params\": "),
                          "\"parameters/other.params\": no magic number of a list of arrays; its tensors are missing"));
  EXPECT_EQ(model.parts.size(), 6U);
}

TEST(Mlf, ShowsTensorsDespiteInvalidMetadata) {
  const auto warnings_with = [](std::string metadata) {
    Files files = mlf_files(7);
    files["metadata.json"] = std::move(metadata);
    const Model model = read_well(files);
    EXPECT_EQ(model.tensors.size(), 1U);
    EXPECT_EQ(model.parts.size(), 4U);
    return model.warnings;
  };
  EXPECT_THAT(warnings_with(mlf_metadata(7).substr(0, 100)), ElementsAre("metadata.json: invalid JSON near byte 101"));
  EXPECT_THAT(warnings_with("[]"), ElementsAre("metadata.json: no JSON object"));
  EXPECT_THAT(warnings_with(""), ElementsAre(HasSubstr("metadata.json: empty")));
  EXPECT_THAT(warnings_with("{}"), ElementsAre("metadata.json: no version"));
  EXPECT_THAT(warnings_with(R"({"version": 8, "modules": {}})"),
              ElementsAre("metadata.json: version 8, 1 to 7 are supported"));
  EXPECT_THAT(warnings_with(R"({"version": -1})"), ElementsAre("metadata.json: version -1, 1 to 7 are supported"));
  EXPECT_THAT(warnings_with(R"({"version": [7], "modules": []})"),
              ElementsAre("metadata.json: the version is not a number"));
  EXPECT_THAT(warnings_with(std::string((16 << 20) + 1, ' ')),
              ElementsAre("metadata.json: 16777217 bytes, at most 16777216 are read"));
  std::string many = R"({"version": 7, "list": [0)";
  for (int i = 0; i < 131'072; ++i) many += ",0";
  EXPECT_THAT(warnings_with(many + "]}"), ElementsAre("metadata.json: more than 131072 values"));
}

TEST(Mlf, AcceptsTextVersion) {
  Files files = mlf_files(7);
  files["metadata.json"].replace(files["metadata.json"].find(": 7}"), 3, ": \"7\"");
  files.erase("parameters/mlp.params");
  const Model model = read_well(files);
  EXPECT_EQ(model.version, "7");
  EXPECT_EQ(to_json_line(model.common), R"({"name":"mlp"})");
  EXPECT_THAT(model.warnings, ElementsAre("metadata.json: the version is not a number"));
}

TEST(Mlf, AcceptsMetadataOfAnyShape) {
  for (const char* modules :
       {"{}", R"({"a": null})", R"({"a": {"memory": null, "target": 7, "style": []}})",
        R"({"a": {"memory": {"functions": [], "sids": {}}}})",
        R"({"a": {"memory": [null, {"input_binding": 7}, {"input_binding": "p0", "size_bytes": "8"}]}})"}) {
    const Model model = read_well({{"metadata.json", fmt::format("{}{}}}", R"({"version": 7, "modules": )", modules)},
                                   {"parameters/a.params", mlf_parameters()}});
    EXPECT_EQ(model.tensors.size(), 1U) << modules;
    EXPECT_THAT(model.warnings, IsEmpty()) << modules;
  }
}

TEST(Mlf, MetadataKeyOfOwnFieldsIsKept) {
  const Model model = read_well({{"metadata.json", R"({"version": 7, "modules": {}, "tvm-mlf": "mine"})"}});
  EXPECT_EQ(metadata_of(model, "tvm-mlf"), R"({"version":7,"modules":{},"parameters":{},"value":"mine"})");
}

// A module's name is data; the tensors' scope becomes a path by the same rules as their names.
TEST(Mlf, AcceptsModulesOfAnyName) {
  const Model model = read_well({{"metadata.json", R"({"version": 7, "modules": {"../x": {}, "a/b": {}}})"},
                                 {"parameters/a/b.params", mlf_parameters()},
                                 {"parameters/c.params", mlf_parameters()}});
  EXPECT_THAT(scoped_listing(model),
              ElementsAre("a/b:p0 float32 float32 [2] 00001111", "c:p0 float32 float32 [2] 00001111"));
}

TEST(Mlf, BoundsTheFilesOfParameters) {
  Files files = mlf_files(7);
  for (int i = 1; i < 100; ++i) files[fmt::format("parameters/{}.params", i)] = mlf_parameters();
  EXPECT_THAT(read_well(files).warnings, IsEmpty());
  files["parameters/one more.params"] = mlf_parameters();
  const Model model = read_well(files);
  EXPECT_EQ(model.tensors.size(), 100U);
  EXPECT_THAT(model.warnings, ElementsAre("more than 100 files of parameters; the first are read"));
}

// 100 hard links to one file took 2.7 GB.
TEST(Mlf, FileWithManyNamesIsParsedOnce) {
  ParamsBuilder b;
  for (int i = 0; i < 1'000; ++i) b.array(fmt::format("p{}", i), kTvmInt8, {}, "x");
  const SourcePtr file = in_memory(b.build());
  archive::Builder builder(archive::DuplicatePolicy::last_wins);
  builder.add_file("metadata.json", in_memory(mlf_metadata(7)));
  builder.add_file("parameters/a.params", file);
  for (int i = 1; i < 100; ++i) builder.add_hard_link(fmt::format("parameters/{}.params", i), "parameters/a.params");
  const Container tar = container();
  const auto model = read_mlf(std::move(builder).finish(), tar);
  ASSERT_TRUE(model);
  EXPECT_EQ(model->tensors.size(), 1'000U);
  EXPECT_EQ(model->warnings.size(), 99U);
  EXPECT_EQ(model->warnings[0],
            "\"parameters/1.params\": the same file as \"parameters/a.params\", where its tensors are shown");
  Budget once(0);
  ASSERT_TRUE(once.charge(Cost::tensor, 1'000));
  EXPECT_LE(tar.budget->memory_used(), 2 * once.memory_used());
}

TEST(Mlf, RefusesParametersBeyondTheBudget) {
  ParamsBuilder b;
  for (int i = 0; i < 700; ++i) b.array(std::string(60'000, 'n') + std::to_string(i), kTvmInt8, {}, "x");
  archive::Builder builder(archive::DuplicatePolicy::last_wins);
  builder.add_file("metadata.json", in_memory(mlf_metadata(7)));
  for (int i = 0; i < 5; ++i) builder.add_file(fmt::format("parameters/{}.params", i), in_memory(b.build()));
  const auto model = read_mlf(std::move(builder).finish(), container());
  ASSERT_TRUE(model);
  EXPECT_EQ(model->tensors.size(), 700U);
  ASSERT_EQ(model->warnings.size(), 4U);
  EXPECT_THAT(model->warnings[0],
              HasSubstr("\"parameters/1.params\": too many bytes of names and texts: the memory limit"));
}

// An I/O error is not a property of the file.
TEST(Mlf, FailsOnIoErrorOfParameters) {
  for (const Code code : {Code::io, Code::resource}) {
    archive::Builder builder(archive::DuplicatePolicy::last_wins);
    builder.add_file("metadata.json", in_memory(mlf_metadata(7)));
    builder.add_file("parameters/mlp.params",
                     lazy(100, Later<SourcePtr>([code]() -> Result<SourcePtr> { return failure(code, "gone"); })));
    const auto model = read_mlf(std::move(builder).finish(), container());
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code, code);
  }
}

// tvmc's package.

TEST(TvmPackage, ReadsParametersAtRoot) {
  const Model model = read_well({{"mod.params", mlf_parameters()}, {"mod.json", "{}"}, {"mod.tar", "?"}});
  EXPECT_EQ(model.format, "tvm-package");
  EXPECT_EQ(model.version, "");
  EXPECT_THAT(scoped_listing(model), ElementsAre(":p0 float32 float32 [2] 00001111"));
  EXPECT_EQ(to_json_line(model.metadata), R"({"tvm-package":{"parameters":{"mod.params":1}}})");
  EXPECT_EQ(model.parts.size(), 3U);
}

TEST(TvmPackage, MayHaveAnyName) {
  EXPECT_EQ(read_well({{"net.params", mlf_parameters()}, {"net.json", "{}"}}).format, "tvm-package");
  EXPECT_EQ(read_well({{"net.params", mlf_parameters()}, {"mod.json", "{}"}}).format, "tvm-package");
  EXPECT_EQ(read_well({{"mod.params", mlf_parameters()}, {"mod.json", "{}"}, {"metadata.json", "{}"}}).format,
            "tvm-package");
}

// What is neither.

TEST(Mlf, IsNotDetectedInOtherArchives) {
  for (const Files& files : std::vector<Files>{{},
                                               {{"metadata.json", "{}"}},
                                               {{"metadata.json", "not JSON"}, {"parameters/a.params", "?"}},
                                               {{"a/metadata.json", mlf_metadata(7)}},
                                               {{"parameters/a.params", mlf_parameters()}},
                                               {{"mod.params", mlf_parameters()}},
                                               {{"mod.params", "other bytes"}, {"mod.json", "{}"}},
                                               {{"a/mod.params", mlf_parameters()}, {"a/mod.json", "{}"}}})
    EXPECT_FALSE(matches_mlf(archive_of(files)).value());
}

TEST(Mlf, IsDetectedByMetadata) {
  const auto is_one = [](std::string_view json) { return is_mlf_metadata(in_memory(std::string(json))).value(); };
  for (int version = 1; version <= 7; ++version) EXPECT_TRUE(is_one(mlf_metadata(version))) << version;
  for (int version = 4; version <= 7; ++version) EXPECT_TRUE(is_one(mlf_operator_metadata(version))) << version;
  for (const char* json :
       {"", "[]", "7", "{}", R"({"version": 7})", R"({"modules": {}})", R"({"version": 7, "modules": []})",
        R"({"version": 7.5, "modules": {}})", R"({"version": null, "modules": {}})",
        R"({"version": 1, "model_name": "llama", "license": "mit"})",
        R"({"version": 1, "model_name": 7, "memory": []})", R"({"a": {"version": 7, "modules": {}}})"})
    EXPECT_FALSE(is_one(json)) << json;
}

// Unpacked.

Container unpacked(const Files& files) {
  return Container{"metadata.json", in_memory(files.at("metadata.json")), std::make_shared<MemoryFolder>(files)};
}

TEST(MlfDirectory, IsReadLikeTheArchive) {
  const auto model = format_named("tvm-mlf")->read(unpacked(mlf_files(7)));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->format, "tvm-mlf");
  EXPECT_THAT(scoped_listing(*model), ElementsAre(":p0 float32 float32 [2] 00001111"));
  EXPECT_EQ(model->parts.size(), 4U);
}

TEST(MlfDirectory, NeedsMetadataAndFolder) {
  EXPECT_FALSE(
      format_named("tvm-mlf")->read(unpacked({{"metadata.json", "{}"}, {"parameters/a.params", mlf_parameters()}})));
  EXPECT_FALSE(format_named("tvm-mlf")->read(Container{"metadata.json", in_memory(mlf_metadata(7)), nullptr}));
}

TEST(MlfDirectory, MetadataJsonWithVersionMatchesMaybe) {
  EXPECT_EQ(matches_mlf_metadata(probe_of(mlf_metadata(7), "metadata.json")), Match::maybe);
  const std::string at_end = "{\"modules\": {\"" + std::string(10'000, 'n') + "\": {}}, \"version\": 7}";
  EXPECT_EQ(matches_mlf_metadata(probe_of(at_end, "metadata.json")), Match::maybe);
  EXPECT_EQ(matches_mlf_metadata(probe_of(mlf_metadata(7), "other.json")), Match::no);
  EXPECT_EQ(matches_mlf_metadata(probe_of("{}", "metadata.json")), Match::no);
  EXPECT_EQ(matches_mlf_metadata(probe_of("[\"version\"]", "metadata.json")), Match::no);
  EXPECT_EQ(matches_mlf_metadata(probe_of("", "metadata.json")), Match::no);
}

TEST(Mlf, ReadsEveryTruncationAndFlippedByteOfItsMetadata) {
  const std::string whole = mlf_metadata(7, 128);
  const auto read = [](std::string metadata) {
    Files files = mlf_files(7);
    files["metadata.json"] = std::move(metadata);
    return read_mlf(archive_of(files), container());
  };
  for (size_t at = 0; at < whole.size(); ++at) {
    const auto cut = read(whole.substr(0, at));
    ASSERT_TRUE(cut) << at;
    EXPECT_EQ(cut->tensors.size(), 1U) << at;
    for (const int flip : {0x01, 0x80}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      EXPECT_TRUE(read(bytes)) << at;
    }
  }
}

}  // namespace
}  // namespace weightfs::mlf_test
