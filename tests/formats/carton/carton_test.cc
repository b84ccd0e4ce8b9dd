// The Carton format, version 1: from an archive's members to a model.
#include "formats/carton/carton.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/text.h"
#include "formats/archive/archive_formats.h"
#include "formats/completeness.h"
#include "formats/verify.h"
#include "tests/support/memory_folder.h"

namespace weightfs::carton_test {
namespace {

using namespace test;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::string_view kMinimal =
    "spec_version = 1\n[runner]\nrunner_name = \"noop\"\nrequired_framework_version = \"=1.0.0\"\n"
    "runner_compat_version = 2\n";

// Members, and a MANIFEST of them unless they have one.
class CartonBuilder {
 public:
  CartonBuilder() { files_["carton.toml"] = kMinimal; }
  CartonBuilder& file(const std::string& path, std::string text) {
    files_[path] = std::move(text);
    return *this;
  }
  CartonBuilder& link(const std::string& path, const std::string& target) {
    links_[path] = target;
    return *this;
  }
  CartonBuilder& only_in_manifest(const std::string& path, const std::string& text) {
    absent_[path] = text;
    return *this;
  }
  std::string manifest() const {
    std::map<std::string, std::string> lines;
    for (const auto& [path, text] : files_)
      if (path != "LINKS" && path != "MANIFEST") lines[path] = sha256(text).hex();
    for (const auto& [path, text] : absent_) lines[path] = sha256(text).hex();
    std::string out;
    for (const auto& [path, hex] : lines) out += path + "=" + hex + "\n";
    return out;
  }
  archive::Archive archive() const {
    archive::Builder builder(archive::DuplicatePolicy::first_wins);
    for (const auto& [path, text] : files_) builder.add_file(path, in_memory(text));
    for (const auto& [path, target] : links_) builder.add_link(path, target);
    if (!files_.contains("MANIFEST")) builder.add_file("MANIFEST", in_memory(manifest()));
    return std::move(builder).finish();
  }
  Model model() const { return read_carton(archive(), Container{"m.carton", in_memory("zip")}).value(); }

 private:
  std::map<std::string, std::string> files_, links_, absent_;
};

std::vector<std::string> warnings_with_toml(const std::string& more) {
  return CartonBuilder().file("carton.toml", std::string(kMinimal) + more).model().warnings;
}

const Part& part(const Model& model, std::string_view path) {
  for (const Part& part : model.parts)
    if (part.path == path) return part;
  throw std::out_of_range(std::string(path));
}

std::string text_of(const Source& source) { return read_text(source, 0, source.size()).value(); }

TEST(Carton, IsDetectedByCartonTomlOrLinks) {
  const auto with = [](std::initializer_list<const char*> paths) {
    archive::Builder builder(archive::DuplicatePolicy::first_wins);
    for (const char* path : paths) builder.add_file(path, in_memory(""));
    return matches_carton(std::move(builder).finish()).value();
  };
  EXPECT_TRUE(with({"carton.toml", "MANIFEST"}));
  EXPECT_TRUE(with({"carton.toml"}));
  EXPECT_TRUE(with({"MANIFEST", "LINKS"}));
  EXPECT_FALSE(with({"MANIFEST"}));
  EXPECT_FALSE(with({"dir/carton.toml"}));
}

TEST(Carton, ShowsItsMetadata) {
  const Model model = CartonBuilder()
                          .file("carton.toml", R"(spec_version = 1
model_name = "resnet"
short_description = "short"
model_description = "long"
license = "MIT"
required_platforms = ["x86_64-unknown-linux-gnu"]
future = {kept = true}
[[input]]
name = "x"
dtype = "float32"
shape = ["batch", 3, "*"]
[[output]]
name = "y"
dtype = "string"
shape = "*"
[[self_test]]
name = "t"
inputs = {x = "@tensor_data/a"}
[[example]]
inputs = {x = "@misc/in.png"}
sample_out = {y = "@tensor_data/a"}
[runner]
runner_name = "torchscript"
required_framework_version = "=1.12.1"
runner_compat_version = 2
[runner.opts]
num_threads = 1
)")
                          .file("misc/in.png", "png")
                          .file("tensor_data/index.toml",
                                "[[tensor]]\nname = \"a\"\ndtype = \"uint8\"\nshape = [2]\nfile = \"t.bin\"\n")
                          .file("tensor_data/t.bin", "\1\2")
                          .model();
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(model.format, "carton");
  EXPECT_EQ(model.version, "1");
  EXPECT_EQ(to_json_line(model.common),
            R"({"name":"resnet","short_description":"short","description":"long","license":"MIT",)"
            R"("runner":{"name":"torchscript","required_framework_version":"=1.12.1","runner_compat_version":2},)"
            R"("platforms":["x86_64-unknown-linux-gnu"],)"
            R"("inputs":[{"dtype":"float32","name":"x","shape":["batch",3,"*"]}],)"
            R"("outputs":[{"dtype":"string","name":"y","shape":"*"}],)"
            R"("self_tests":[{"inputs":{"x":"@tensor_data/a"},"name":"t"}],)"
            R"("examples":[{"inputs":{"x":"@misc/in.png"},"sample_out":{"y":"@tensor_data/a"}}],)"
            R"("opts":{"num_threads":1}})");
  EXPECT_EQ(to_json_line(*model.metadata.find("future")), R"({"kept":true})");
}

TEST(Carton, ShowsModelHash) {
  const CartonBuilder carton;
  EXPECT_EQ(to_json_line(*carton.model().metadata.find("carton")),
            fmt::format("{}{}{}", R"({"model_hash":")", sha256(carton.manifest()).hex(), R"(","files":1})"));
}

TEST(Carton, WarnsAboutEachInvalidKey) {
  struct Case {
    const char* toml;
    const char* warning;
  };
  for (const auto& [toml, warning] : std::initializer_list<Case>{
           {"[[input]]\nname = 1\ndtype = \"float32\"\nshape = []", "input[0].name: a string is expected, not 1"},
           {"[[input]]\nname = \"x\"\nshape = []", "input[0].dtype: a string is missing"},
           {"[[input]]\nname = \"x\"\ndtype = \"f32\"\nshape = []", "input[0].dtype: \"f32\" is not a dtype"},
           {"[[output]]\nname = \"x\"\ndtype = \"int8\"\nshape = [-1]", "output[0].shape: a symbol or an array"},
           {"[[output]]\nname = \"x\"\ndtype = \"int8\"\nshape = [1.5]", "output[0].shape: a symbol or an array"},
           {"[[self_test]]\ninputs = {x = \"tensor\"}", "self_test[0].inputs.x: a reference (@tensor_data/"},
           {"[[self_test]]\ninputs = {x = \"@misc/a\"}", "self_test[0].inputs.x: a reference (@tensor_data/"},
           {"[[self_test]]\nname = \"t\"", "self_test[0].inputs: a table is missing"},
           {"[[example]]\ninputs = {}", "example[0].sample_out: a table is missing"},
           {"[[self_test]]\ninputs = {x = \"@tensor_data/no\"}", "there is no tensor \"no\""},
           {"[[example]]\ninputs = {x = \"@misc/no\"}\nsample_out = {}", "there is no file \"misc/no\""},
           {"[runner.opts]\na = [1]", "runner.opts.a: a number, a text or a truth value is expected"},
           {"example = 3", "example: an array is expected"},
       })
    EXPECT_THAT(warnings_with_toml(std::string_view(toml).starts_with("example") ? "" : toml),
                std::string_view(toml).starts_with("example") ? testing::An<std::vector<std::string>>()
                                                              : Contains(HasSubstr(warning)))
        << toml;
}

TEST(Carton, WarnsAboutMissingTopLevelKeys) {
  const auto model =
      CartonBuilder().file("carton.toml", "model_name = 3\nrequired_platforms = [\"linux\", 1]\nexample = 3\n").model();
  EXPECT_THAT(model.warnings, ElementsAre("carton.toml: spec_version: a whole number is missing",
                                          "carton.toml: model_name: a string is expected, not 3",
                                          "carton.toml: required_platforms: \"linux\" is not a target triple",
                                          "carton.toml: required_platforms: 1 is not a target triple",
                                          "carton.toml: example: an array is expected, not 3",
                                          "carton.toml: runner: a table is missing"));
}

TEST(Carton, ReadsVersionRequirementsAsTheSemverCrateDoes) {
  const auto warns = [](const std::string& version) {
    const std::string toml =
        "spec_version = 1\n[runner]\nrunner_name = \"a\"\nrunner_compat_version = 0\n"
        "required_framework_version = \"" +
        version + "\"\n";
    return !CartonBuilder().file("carton.toml", toml).model().warnings.empty();
  };
  for (const char* good :
       {"=1.12.1", "*", "1", "1.2", ">=1.2, <2", "~1.2.3", "^0.1", "1.*", "1.x", "=1.0.0-rc.1", "= 1.2"})
    EXPECT_FALSE(warns(good)) << good;
  for (const char* bad : {"", "latest", "==1.0", "1.2.3.4", "1.", ">", "1,,2", "v1"}) EXPECT_TRUE(warns(bad)) << bad;
}

TEST(Carton, MountsWithUnreadableMetadata) {
  const auto model = CartonBuilder().file("carton.toml", "not = [toml").file("model/w", "bytes").model();
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("carton.toml: line 1: not TOML")));
  EXPECT_EQ(text_of(*part(model, "model/w").source.get().value()), "bytes");
  const auto long_one = CartonBuilder().file("carton.toml", std::string(carton::kMaxTomlSize + 1, '#')).model();
  EXPECT_THAT(long_one.warnings, ElementsAre(HasSubstr("carton.toml: 4194305 bytes, at most 4194304 are read")));
}

TEST(Carton, ReadsManifestAsTheReferenceDoes) {
  Warnings warnings;
  Budget budget(0);
  const std::string a = sha256("a").hex();
  const std::string b = sha256("b").hex();
  const auto manifest = carton::read_manifest(
      "a=b=c.txt=" + a + "\r\nb=" + std::string(60, 'A') + "\nno line\n\nx=" + b + "\nx=" + a + "\na=" + b, warnings,
      budget);
  EXPECT_EQ(manifest.digests.at("a=b=c.txt").hex(), a);
  EXPECT_EQ(manifest.digests.at("x").hex(), a);
  EXPECT_EQ(manifest.digests.size(), 3U);
  EXPECT_THAT(warnings.lines(), ElementsAre(HasSubstr("MANIFEST line 2: "), "MANIFEST line 3: no `=` in \"no line\"",
                                            "MANIFEST line 4: no `=` in \"\"",
                                            "MANIFEST line 6: \"x\" is listed twice; the last entry is used",
                                            "MANIFEST: not in alphabetical order"));
}

TEST(Carton, AcceptsUpperCaseDigest) {
  Warnings warnings;
  Budget budget(0);
  std::string hex = sha256("a").hex();
  for (char& c : hex) c = static_cast<char>(std::toupper(c));
  EXPECT_EQ(carton::read_manifest("a=" + hex + "\n", warnings, budget).digests.at("a"), sha256("a"));
  EXPECT_THAT(warnings.lines(), IsEmpty());
}

TEST(Carton, ReportsUnlistedAndMissingFiles) {
  const auto model =
      CartonBuilder()
          .file("model/new", "x")
          .file("MANIFEST", "carton.toml=" + sha256(kMinimal).hex() + "\ngone=" + sha256("").hex() + "\n")
          .model();
  EXPECT_THAT(model.warnings, ElementsAre("\"gone\": in MANIFEST, but neither in the carton nor in LINKS",
                                          "\"model/new\": in the carton, but not in MANIFEST"));
}

TEST(Carton, LinkedFileIsLocatedOnFirstRead) {
  const std::string links = "version = 1\n[urls]\n" + sha256("weights").hex() + " = [\"https://a/b\", \"https://c\"]\n";
  const auto model = CartonBuilder().only_in_manifest("model/w", "weights").file("LINKS", links).model();
  const auto read = part(model, "model/w").source.get();
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "model/w: no local copy, and downloads are disabled");
  EXPECT_EQ(read.error().code, Code::network);
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(*part(model, "model/w").checksums.get<Digest>(), sha256("weights"));
  EXPECT_THAT(to_json_line(*model.metadata.find("carton")), HasSubstr("\"links\":1"));
}

TEST(Carton, WarnsAboutMalformedLinks) {
  const std::string hex = sha256("w").hex();
  for (const auto& [links, warning] : std::initializer_list<std::pair<std::string, const char*>>{
           {"[urls]\n", "LINKS: version: an integer is missing"},
           {"version = 2\n[urls]\n", "LINKS: version 2; 1 is supported"},
           {"version = 1\n", "LINKS: no table [urls]"},
           {"version = 1\n[urls]\n" + hex + " = \"https://a\"\n", "not a list of texts"},
           {"version = 1\n[urls]\n" + hex + " = [1]\n", "not a list of texts"},
           {"version = 1\n[urls]\nabc = [\"https://a\"]\n", "LINKS: \"abc\": no SHA-256"},
           {"version = [", "LINKS: line 1: not TOML"}})
    EXPECT_THAT(CartonBuilder().file("LINKS", links).model().warnings, Contains(HasSubstr(warning))) << links;
}

// Has no blobs, and counts the lookups.
class EmptyStore final : public Blobs {
 public:
  SourcePtr blob(BlobProducer) override { return in_memory(""); }
  Result<SourcePtr> materialize(BlobProducer) override { return failure(Code::not_found, "nothing here"); }
  bool is_local(const BlobRef&) override { return ++lookups, false; }

  uint64_t lookups = 0;
};

// Searching 200,000 missing files in seven stores each took 12 seconds.
TEST(Carton, LookupsOfMissingFilesStopAtBudget) {
  std::string manifest;
  const std::string hex = sha256("x").hex();
  for (int i = 0; i < 150'000; ++i) manifest += fmt::format("{}={}\n", i, hex);
  const auto store = std::make_shared<EmptyStore>();
  Container container{"m.carton", in_memory("zip"), nullptr, store};
  const auto model = read_carton(CartonBuilder().file("MANIFEST", manifest).archive(), container);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->lacks->files, 150'000u);
  EXPECT_GT(store->lookups, 10'000u);
  EXPECT_LE(store->lookups, container.budget->time_limit() / 10'000);
  EXPECT_THAT(model->warnings, Contains(HasSubstr("too many lookups: the time limit of 1000 ms")));
}

TEST(Carton, ManifestBeyondBudgetIsCutWithWarning) {
  std::string manifest;
  const std::string hex = sha256("x").hex();
  for (int i = 0; i < 20'000; ++i) manifest += fmt::format("{}={}\n", 1'000'000 + i, hex);
  Warnings warnings;
  Budget budget(0);
  ASSERT_TRUE(budget.charge(Cost::kept, Budget::kBaseMemory - 1'000'000));
  const auto read = carton::read_manifest(manifest, warnings, budget);
  EXPECT_GT(read.digests.size(), 1'000u);
  EXPECT_LT(read.digests.size(), 10'000u);
  EXPECT_THAT(warnings.lines(), ElementsAre(HasSubstr("this line and those after it are not read")));
}

TEST(Carton, ParsesTheStringsOfSharedFilesOnce) {
  std::string index;
  for (int i = 0; i < 1'000; ++i)
    index += fmt::format("[[tensor]]\nname = \"s{}\"\ndtype = \"string\"\nfile = \"s\"\nshape = [{}]\n", i, i);
  std::string strings = "data = [";
  for (int i = 0; i < 999; ++i) strings += "\"some text\", ";
  Container container{"m.carton", in_memory("zip")};
  const auto model = read_carton(
      CartonBuilder().file("tensor_data/index.toml", index).file("tensor_data/s", strings + "]").archive(), container);
  ASSERT_TRUE(model) << model.error().message;
  const uint64_t before = container.budget->memory_used();
  EXPECT_EQ(model->per_tensor->strings.at(999).get().value()->size(), 999u);
  const uint64_t once = container.budget->memory_used();
  EXPECT_GT(once, before);
  for (const auto& [place, texts] : model->per_tensor->strings)
    EXPECT_EQ(texts.get().has_value(), place == 999) << place;
  EXPECT_EQ(container.budget->memory_used(), once);
}

// Each inner tensor had a copy of the name of the nested one.
TEST(Carton, NameOfNestedTensorIsStoredOnce) {
  std::string index;
  std::string inner;
  for (int i = 0; i < 2'000; ++i) {
    index += fmt::format("[[tensor]]\nname = \"i{}\"\ndtype = \"uint8\"\nfile = \"w\"\nshape = [1]\n", i);
    inner += fmt::format("\"i{}\", ", i);
  }
  index += "[[tensor]]\nname = \"" + std::string(10'000, 'n') + "\"\ndtype = \"nested\"\ninner = [" + inner + "]\n";
  const auto model = CartonBuilder().file("tensor_data/index.toml", index).file("tensor_data/w", "1").model();
  ASSERT_EQ(model.tensors.size(), 2'000u);
  EXPECT_EQ(model.tensors[0].scope.size(), 10'000u);
  EXPECT_EQ(model.tensors[0].scope.data(), model.tensors[1'999].scope.data());
}

TEST(Carton, UsesFirst16UrlsOfLink) {
  const std::string hex = sha256("w").hex();
  std::string links = "version = 1\n[urls]\n" + hex + " = [\"https://0\"";
  for (int i = 1; i < 16; ++i) links += fmt::format(", \"https://{}\"", i);
  Warnings none;
  Budget budget(0);
  EXPECT_EQ(carton::read_links(links + "]\n", none, budget)->urls.at(hex).size(), 16u);
  EXPECT_THAT(none.lines(), IsEmpty());
  Warnings warnings;
  const auto urls = carton::read_links(links + ", \"https://16\"]\n", warnings, budget)->urls.at(hex);
  EXPECT_EQ(urls.size(), 16u);
  EXPECT_EQ(urls.back(), "https://15");
  EXPECT_THAT(warnings.lines(), ElementsAre("LINKS: \"" + hex + "\": 17 URLs; the first 16 are used"));
}

// The tensors of an index.toml, "scope/name dtype stored shape bytes" each.
std::vector<std::string> tensors(const Model& model) {
  std::vector<std::string> out;
  for (const TensorView& t : model.tensors) {
    std::string shape;
    for (const uint64_t dimension : t.shape) shape += std::to_string(dimension) + ",";
    out.push_back(fmt::format("{}{}{} {} {} [{}] {}", t.scope, t.scope.empty() ? "" : "/", t.name, t.dtype->name,
                              t.stored_dtype, shape, t.source.refused() ? "refused" : text_of(t.source)));
  }
  return out;
}

CartonBuilder with_tensors(const std::string& index) {
  return CartonBuilder()
      .file("tensor_data/index.toml", index)
      .file("tensor_data/a.bin", "1234")
      .file("tensor_data/s.toml", "data = [\"a\", \"\"\"\nü\"\"\"]\n");
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& rest) {
  return "[[tensor]]\nname = \"" + name + "\"\ndtype = \"" + dtype + "\"\n" + rest + "\n";
}

TEST(Carton, ReadsItsTensors) {
  const auto carton = with_tensors(entry("n", "uint16", "shape = [2]\nfile = \"a.bin\"\ninner = []") +
                                   entry("scalar", "float32", "shape = []\nfile = \"a.bin\"") +
                                   entry("s", "string", "shape = [1, 2]\nfile = \"s.toml\""));
  const Model model = carton.model();
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_THAT(tensors(model), ElementsAre("n uint16 uint16 [2,] 1234", "scalar float32 float32 [] 1234",
                                          "s string string [1,2,] data = [\"a\", \"\"\"\nü\"\"\"]\n"));
  EXPECT_THAT(*model.per_tensor->strings.at(2).get().value(), ElementsAre("a", "ü"));
  EXPECT_EQ(model.per_tensor->strings.size(), 1U);
  EXPECT_EQ(model.per_tensor->digests.at(0), sha256("1234"));
}

TEST(Carton, NestedTensorIsDirectoryOfInnerTensors) {
  const Model model =
      with_tensors(entry("outer", "nested", "inner = [\"x\", \"y\", \"no\", \"other\"]") +
                   entry("x", "int8", "shape = [4]\nfile = \"a.bin\"") +
                   entry("y", "int8", "shape = [4]\nfile = \"a.bin\"") + entry("other", "nested", "inner = [\"x\"]") +
                   entry("z", "int8", "shape = [4]\nfile = \"a.bin\""))
          .model();
  EXPECT_THAT(tensors(model),
              ElementsAre("outer/x int8 int8 [4,] 1234", "outer/y int8 int8 [4,] 1234", "z int8 int8 [4,] 1234"));
  EXPECT_THAT(model.warnings, ElementsAre("nested tensor \"outer\": \"no\" is not in the index",
                                          "nested tensor \"outer\": \"other\" is nested itself",
                                          "nested tensor \"other\": \"x\" already belongs to a nested tensor"));
}

TEST(Carton, SkipsTensorWithForeignFile) {
  for (const char* file : {"../carton.toml", "/etc/passwd", "missing.bin", "", "a/../../MANIFEST", "."}) {
    const Model model = with_tensors(entry("n", "uint16", fmt::format("shape = [2]\nfile = \"{}\"", file))).model();
    EXPECT_THAT(tensors(model), IsEmpty()) << file;
    EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("tensor \"n\": its file "))) << file;
  }
}

TEST(Carton, TensorOfWrongSizeIsShownAsBytes) {
  const Model model = with_tensors(entry("n", "float32", "shape = [2]\nfile = \"a.bin\"") +
                                   entry("wrap", "float64", "shape = [4294967296, 4294967296]\nfile = \"a.bin\"") +
                                   entry("new", "int4", "shape = [8]\nfile = \"a.bin\""))
                          .model();
  EXPECT_THAT(tensors(model), ElementsAre("n unknown float32 [2,] 1234",
                                          "wrap unknown float64 [4294967296,4294967296,] 1234", HasSubstr("new ")));
  EXPECT_THAT(model.warnings, Contains("tensor \"n\": 4 bytes, but the size from its shape is 8; shown as bytes"));
}

TEST(Carton, SkipsInvalidIndexEntry) {
  const Model model = with_tensors("[[tensor]]\nname = \"x\"\n" + entry("y", "int8", "file = \"a.bin\"") +
                                   entry("z", "int8", "shape = [-4]\nfile = \"a.bin\"") +
                                   entry("n", "int8", "shape = [4]\nfile = \"a.bin\"") +
                                   entry("n", "int8", "shape = [4]\nfile = \"a.bin\""))
                          .model();
  EXPECT_THAT(tensors(model), ElementsAre("n int8 int8 [4,] 1234"));
  EXPECT_THAT(model.warnings, ElementsAre("tensor_data/index.toml: tensor 0: no name or no dtype",
                                          "tensor_data/index.toml: tensor 1: no shape",
                                          "tensor_data/index.toml: tensor 2: dimension \"-4\" is not a size",
                                          "tensor_data/index.toml: tensor \"n\" is listed twice; the first is shown"));
}

TEST(Carton, LinkedTensorHasSizeOfShape) {
  const std::string links = "version = 1\n[urls]\n" + sha256("12345678").hex() + " = [\"https://a\"]\n";
  const Model model = with_tensors(entry("n", "float64", "shape = [1]\nfile = \"far.bin\""))
                          .only_in_manifest("tensor_data/far.bin", "12345678")
                          .file("LINKS", links)
                          .model();
  EXPECT_EQ(model.tensors.at(0).nbytes(), 8U);
  std::array<std::byte, 8> out;
  EXPECT_THAT(model.tensors.at(0).source.read(0, out).error().message, HasSubstr("far.bin: no local copy"));
}

TEST(Carton, RefusesInvalidStringTensor) {
  for (const char* text : {"data = [1]", "data = 3", "x = []", "data = [\"a\"]", "data = [", ""}) {
    const Model model =
        with_tensors(entry("s", "string", "shape = [2]\nfile = \"t.toml\"")).file("tensor_data/t.toml", text).model();
    const auto strings = model.per_tensor->strings.at(0).get();
    ASSERT_FALSE(strings) << text;
    EXPECT_EQ(strings.error().code, Code::corrupt);
    EXPECT_EQ(text_of(model.tensors[0].source), text);
  }
}

TEST(Carton, TensorDataWithoutIndexIsPlainFiles) {
  const Model model = CartonBuilder().file("tensor_data/a.bin", "1").model();
  EXPECT_THAT(model.warnings, ElementsAre("tensor_data: no index.toml, so its files have no names"));
  EXPECT_THAT(CartonBuilder().file("tensor_data/index.toml", "tensor = []\n").model().warnings, IsEmpty());
  EXPECT_THAT(CartonBuilder().file("tensor_data/index.toml", "tensor = 1\n").model().warnings,
              ElementsAre("tensor_data/index.toml: `tensor` is not an array of tables"));
}

TEST(Carton, UnpackedDirectoryIsRead) {
  const CartonBuilder carton = with_tensors(entry("n", "uint16", "shape = [2]\nfile = \"a.bin\""));
  Files files = {{"carton.toml", std::string(kMinimal)}, {"MANIFEST", carton.manifest()}};
  for (const Part& part : carton.archive().parts) files[part.path] = text_of(*part.source.get().value());
  const auto folder = std::make_shared<MemoryFolder>(files);
  const auto model = format_named("carton")->read(Container{"carton.toml", in_memory(files["carton.toml"]), folder});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(tensors(*model), ElementsAre("n uint16 uint16 [2,] 1234"));
  files.erase("MANIFEST");
  EXPECT_EQ(format_named("carton")
                ->read(Container{"carton.toml", in_memory(files["carton.toml"]), std::make_shared<MemoryFolder>(files)})
                .error()
                .message,
            "no MANIFEST in the same directory");
}

TEST(Verify, ComparesEveryFileWithItsChecksum) {
  const auto right =
      CartonBuilder().file("model/w", "weights").link("model/l", "w").only_in_manifest("model/l", "weights").model();
  const auto found = verify(right, {});
  EXPECT_THAT(found.wrong, IsEmpty());
  EXPECT_EQ(found.checked, 3U);
  EXPECT_EQ(found.unchecked, 1U);  // MANIFEST

  const CartonBuilder built = CartonBuilder().file("model/w", "weights").only_in_manifest("model/l", "weights");
  const auto tampered =
      CartonBuilder().file("model/w", "WEIGHTS").link("model/l", "w").file("MANIFEST", built.manifest()).model();
  EXPECT_THAT(verify(tampered, {}).wrong,
              ElementsAre(HasSubstr("\"model/w\": SHA-256 is " + sha256("WEIGHTS").hex() + ", should be "),
                          HasSubstr("\"model/l\": SHA-256 is ")));
}

// Missing files are in the completeness of the model.
TEST(Verify, ReportsUnlistedFiles) {
  CartonBuilder carton;
  for (int i = 100; i < 300; ++i) carton.only_in_manifest(fmt::format("gone{}", i), "x");
  const std::string manifest = carton.manifest();
  const auto model = carton.file("MANIFEST", manifest).file("evil.py", "x").model();
  EXPECT_THAT(verify(model, {}).wrong, ElementsAre("\"evil.py\": not in the container's list of its files"));
  EXPECT_EQ(completeness_of(model).files, 200u);
}

TEST(Verify, CartonWithoutManifestIsIncomplete) {
  archive::Builder builder(archive::DuplicatePolicy::first_wins);
  builder.add_file("carton.toml", in_memory(std::string(kMinimal)));
  const auto model = read_carton(std::move(builder).finish(), Container{"m", in_memory("")}).value();
  const Completeness completeness = completeness_of(model);
  EXPECT_FALSE(completeness.is_complete());
  EXPECT_THAT(model.warnings, Contains(HasSubstr("MANIFEST")));
}

TEST(Verify, ReportsUnreadableFiles) {
  const auto model = CartonBuilder()
                         .only_in_manifest("far", "x")
                         .file("LINKS", "version = 1\n[urls]\n" + sha256("x").hex() + " = [\"https://a\"]\n")
                         .link("dangling", "nowhere")
                         .only_in_manifest("dangling", "y")
                         .model();
  const auto found = verify(model, {});
  ASSERT_EQ(found.unreadable.size(), 2U);
  EXPECT_THAT(found.unreadable[0].message, HasSubstr("\"dangling\": a link to \"nowhere\""));
  EXPECT_EQ(found.unreadable[1].message, "\"far\": far: no local copy, and downloads are disabled");
}

TEST(Verify, ReportsProgress) {
  const auto model = CartonBuilder().file("model/w", std::string(3 << 20, 'w')).model();
  std::vector<uint64_t> seen;
  verify(model, [&](const Progress& progress) {
    seen.push_back(progress.bytes);
    EXPECT_EQ(progress.total, (3U << 20) + kMinimal.size());
  });
  EXPECT_THAT(seen, ElementsAre(0, kMinimal.size(), kMinimal.size() + (1U << 20), kMinimal.size() + (2U << 20)));
}

}  // namespace
}  // namespace weightfs::carton_test
