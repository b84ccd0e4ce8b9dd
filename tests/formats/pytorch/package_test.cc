// Archives of torch.package, and archives that were unpacked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/archive/archive_formats.h"
#include "formats/completeness.h"
#include "formats/format.h"
#include "tests/builders/pickle_builder.h"
#include "tests/support/memory_folder.h"
#include "tests/support/model_text.h"
#include "tests/support/reading.h"

namespace weightfs::pytorch_package_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A storage of a package: its key is a number.
PickleBuilder numbered(int64_t key, int64_t elements) {
  PickleBuilder b;
  b.mark().text("storage").global("torch", "ByteStorage").integer(key).text("cpu").integer(elements).tuple();
  return b.raw("Q");
}

PickleBuilder only(std::string_view name, const PickleBuilder& tensor) {
  return PickleBuilder().raw("}").text(name).add(tensor).raw("s");
}

ZipBuilder package() {
  ZipBuilder zip;
  zip.stored("p/a/b/model", only("w", tensor_v2(numbered(0, 2), {{2}, {1}})).pickle());
  zip.stored("p/.data/0.storage", "ab");
  zip.stored("p/.data/extern_modules", "torch\n");
  zip.stored("p/.data/python_version", "3.11.2");
  zip.stored("p/a/b/code.py", "x = 1\n");
  return zip;
}

Model read(ZipBuilder zip) { return well(read_model({"m.pt", in_memory(zip.build())})); }

TEST(PytorchPackage, TensorsAreNamedBelowTheirResource) {
  const Model model = read(package());
  EXPECT_EQ(model.format, "pytorch");
  EXPECT_THAT(listing(model), ElementsAre("a.b.model.w uint8 uint8 [2] ab"));
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_THAT(json_at(std::get<Map>(*model.metadata.find("pytorch")), "python_version"), HasSubstr("3.11.2"));
  const auto shared = std::make_shared<const Model>(read(package()));
  EXPECT_THAT(well(shared->nested(shared)), IsEmpty());
}

TEST(PytorchPackage, ModulesOfTorchScriptAreReadOnceWhereTheyAreUsed) {
  ZipBuilder zip = package();
  PickleBuilder module;
  module.mark().text("reduce_package").integer(9).global("torch.jit._script", "unpackage_script_module").mark();
  zip.stored("p/tts/model", only("m", module.text("0").tuple().tuple().raw("Q")).pickle());
  for (const char* id : {"0", "1"}) {
    const std::string directory = std::string("p/.data/ts_code/") + id;
    PickleBuilder weights;
    weights.global("__torch__", "M")
        .raw(")\x81")
        .add(only("v", tensor_v2(storage("Byte", "0.storage", 2), {{1}, {1}, 1})));
    zip.stored(directory + "/data.pkl", weights.raw("b").pickle());
    zip.stored(directory + "/constants.pkl", ").");
  }
  const Model model = read(std::move(zip));
  EXPECT_THAT(listing(model), ElementsAre("a.b.model.w uint8 uint8 [2] ab", "tts.model.m.v uint8 uint8 [1] b",
                                          "ts_code.1.v uint8 uint8 [1] b"));
  EXPECT_EQ(json_at(model.common, "dangerous_globals"), "missing");
}

TEST(PytorchPackage, BrokenResourceIsDamage) {
  ZipBuilder zip = package();
  zip.stored("p/broken",
             "\x80\x02"
             "cos\nsystem\n(");
  const Model model = read(std::move(zip));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("broken: pickle")));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("before that it names os.system")));
  EXPECT_EQ(completeness_of(model).reason->code, Code::corrupt);
}

// The files of an unpacked archive, in the directory of its object.
Files unpacked() {
  PickleBuilder object;
  object.raw("}").mark().text("w").add(tensor_v2(storage("Byte", "0", 2), {{2}, {1}}));
  object.text("v").add(tensor_v2(storage("Byte", "1", 2), {{2}, {1}})).raw("u");
  return {{"data.pkl", object.pickle()}, {"data/0", "ab"}, {"data/1", "cd"}, {"version", "3\n"}};
}

Model read_unpacked(const Files& files) {
  return well(read_model({.name = "data.pkl",
                          .bytes = in_memory(files.at("data.pkl")),
                          .folder = std::make_shared<const MemoryFolder>(files)}));
}

TEST(UnpackedPytorch, ObjectOpensTheFilesBesideIt) {
  const Model model = read_unpacked(unpacked());
  EXPECT_EQ(model.format, "pytorch");
  EXPECT_THAT(listing(model), ElementsAre("w uint8 uint8 [2] ab", "v uint8 uint8 [2] cd"));
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(UnpackedPytorch, MissingStorageIsAMissingFile) {
  Files files = unpacked();
  files.erase("data/1");
  const Model model = read_unpacked(files);
  EXPECT_THAT(listing(model).front(), "w uint8 uint8 [2] ab");
  const Completeness completeness = completeness_of(model);
  EXPECT_EQ(completeness.reason->code, Code::not_found);
  EXPECT_EQ(to_sentence(completeness), "1 of 2 tensors cannot be read: \"data/1\": missing");
}

TEST(UnpackedPytorch, DirectoryIsRecognizedByItsObject) {
  const auto entry = [](const Files& files, const std::vector<std::string>& names) {
    return model_entry_file(names, MemoryFolder(files)).value().value_or("none");
  };
  const std::vector<std::string> names = {"data", "data.pkl", "version"};
  EXPECT_EQ(entry(unpacked(), names), "data.pkl");
  EXPECT_EQ(entry(unpacked(), {"data", "data.pkl"}), "data.pkl");
  EXPECT_EQ(entry({{"data.pkl", unpacked().at("data.pkl")}}, {"data.pkl"}), "none");
  EXPECT_EQ(entry({{"data.pkl", PickleBuilder().raw("]").pickle()}, {"version", "3\n"}}, names), "none");
}

TEST(UnpackedPytorch, PickleOfItsNameStaysAPickle) {
  Files files = unpacked();
  files["data.pkl"] = PickleBuilder().raw("]").pickle();
  EXPECT_EQ(read_unpacked(files).format, "pickle");
  files = unpacked();
  EXPECT_EQ(read_unpacked({{"data.pkl", files.at("data.pkl")}}).format, "pickle");
}

}  // namespace
}  // namespace weightfs::pytorch_package_test
