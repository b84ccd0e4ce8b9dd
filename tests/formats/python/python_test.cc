// Pickles of Python objects: arrays, names, joblib, what is dangerous.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "tests/builders/numpy_builder.h"
#include "tests/builders/python_builder.h"
#include "tests/support/counted_source.h"
#include "tests/support/memory_folder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::python_test {
namespace {

using namespace test;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

Result<Model> read(std::string bytes, Files beside = {}) {
  return read_as("pickle", {"m.pkl", in_memory(std::move(bytes)), std::make_shared<MemoryFolder>(std::move(beside))});
}
Model read_well(std::string bytes, Files beside = {}) { return well(read(std::move(bytes), std::move(beside))); }
Model read_dict(const PickleBuilder& items) { return read_well(dict(items).pickle()); }
std::string error_of(std::string bytes) { return error_in(read(std::move(bytes))); }
std::string dangerous_in(const Model& model) {
  const auto* const names = model.common.find_as<std::string>("dangerous_globals");
  return names == nullptr ? "" : *names;
}

TEST(Python, ArraysAreNamedByTheirPath) {
  const Model model = read_well(small_pipeline());
  EXPECT_EQ(model.format, "pickle");
  EXPECT_EQ(model.version, "2");
  EXPECT_THAT(listing(model),
              ElementsAre("steps.0.1.mean_ float32 <f4 [2] 01234567", "steps.1.1.coef_ float64 <f8 [1] abcdefgh"));
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(dangerous_in(model), "");
}

TEST(Python, ClassesAndVersionsAreFacts) {
  const std::string facts = json_at(read_well(small_pipeline()).metadata, "pickle");
  EXPECT_THAT(facts, HasSubstr(R"("class":"sklearn.pipeline.Pipeline")"));
  EXPECT_THAT(facts, HasSubstr(R"("steps.0.1":"sklearn.preprocessing._data.StandardScaler")"));
  EXPECT_THAT(facts, HasSubstr(R"("sklearn_version":"1.2.1")"));
  EXPECT_THAT(read_well(small_pipeline("0.24.0")).warnings,
              ElementsAre("its parts are of different versions of scikit-learn: \"0.24.0\", \"1.2.1\""));
}

TEST(Python, BytesOfArraysAreRangesOfTheFile) {
  const std::string bytes = dict(PickleBuilder().text("w").add(array("i1", {3}, "xyz"))).pickle();
  const Model model = read_well(bytes);
  EXPECT_EQ(model.tensors[0].source.offset(), bytes.find("xyz"));
}

TEST(Python, OrdersAndTextsAreConverted) {
  const PickleBuilder swapped = array_of(dtype("i2", ">"), {2}, PickleBuilder().bytes("1234"));
  const PickleBuilder columns = array_of(dtype("i1"), {2, 2}, PickleBuilder().bytes("abcd"), true);
  const PickleBuilder text = array_of(dtype("u1"), {3},
                                      PickleBuilder().call("_codecs", "encode",
                                                           PickleBuilder()
                                                               .text("a\xC3\xBF"
                                                                     "b")
                                                               .text("latin1")));
  const Model model = read_dict(PickleBuilder().text("s").add(swapped).text("c").add(columns).text("t").add(text));
  EXPECT_THAT(listing(model),
              ElementsAre("s int16 >i2 [2] 2143", "c int8 <i1 [2x2] acbd", StartsWith("t uint8 <u1 [3] a")));
}

TEST(Python, LongTextsAreDecodedWhenTheyAreRead) {
  std::string text, bytes;
  for (int i = 0; i < 40'000; ++i) {
    bytes += static_cast<char>(i % 2 == 0 ? 'a' : '\xE9');
    text += i % 2 == 0 ? "a" : "\xC3\xA9";
  }
  const PickleBuilder data = PickleBuilder().call("_codecs", "encode", PickleBuilder().text(text).text("latin1"));
  const Model model = read_dict(PickleBuilder().text("w").add(array_of(dtype("u1"), {40'000}, data)));
  EXPECT_EQ(text_of(model.tensors[0].source), bytes);
  const Model wrong = read_dict(PickleBuilder().text("w").add(array_of(dtype("u1"), {40'001}, data)));
  std::array<std::byte, 1> last{};
  EXPECT_FALSE(read_exact(wrong.tensors[0].source, 40'000, last));
  const Model cut = read_dict(PickleBuilder().text("w").add(array_of(dtype("u1"), {39'999}, data)));
  EXPECT_FALSE(read_exact(cut.tensors[0].source, 39'998, last));
}

TEST(Python, FieldsOfRecordsAreTensors) {
  const PickleBuilder type = record_dtype({{"n", dtype("i2"), 0}, {"x", dtype("f4"), 4}}, 8);
  const Model model =
      read_dict(PickleBuilder().text("r").add(array_of(type, {2}, PickleBuilder().bytes("01..abcd23..efgh"))));
  EXPECT_THAT(listing(model), ElementsAre("r unknown [('n', '<i2'), ('', '|V2'), ('x', '<f4')] [2] 01..abcd23..efgh",
                                          "r.n int16 <i2 [2] 0123", "r.x float32 <f4 [2] abcdefgh"));
  const PickleBuilder packed =
      record_dtype({{"n", dtype("u1"), 0}, {"x", dtype("f4", ">"), 1}, {"y", dtype("i2"), 5}}, 7);
  const Model unaligned =
      read_dict(PickleBuilder().text("r").add(array_of(packed, {2}, PickleBuilder().bytes("1abcd232efgh45"))));
  EXPECT_THAT(listing(unaligned),
              ElementsAre("r unknown [('n', '<u1'), ('x', '>f4'), ('y', '<i2')] [2] 1abcd232efgh45",
                          "r.n uint8 <u1 [2] 12", "r.x float32 >f4 [2] dcbahgfe", "r.y int16 <i2 [2] 2345"));
  const PickleBuilder outside = record_dtype({{"n", dtype("i8"), 4}}, 8);
  EXPECT_THAT(
      read_dict(PickleBuilder().text("r").add(array_of(outside, {1}, PickleBuilder().bytes("01234567")))).warnings,
      ElementsAre(HasSubstr("outside of its structure")));
}

// numpy.dtype of texts: their size is in the state.
PickleBuilder text_dtype(std::string_view code, int64_t size) {
  PickleBuilder b;
  b.call("numpy", "dtype", PickleBuilder().text(code).boolean(false).boolean(true));
  b.mark().integer(3).text("<").none().none().none().integer(size).integer(4).integer(8).tuple();
  return b.build();
}

TEST(Python, TextsDatesAndStructuresHaveNpyFiles) {
  const PickleBuilder records = record_dtype({{"n", dtype("i2"), 0},
                                              {"gr\xC3\xB6\xC3\x9F"
                                               "e",
                                               dtype("f4"), 4}},
                                             8);
  const std::string texts = std::string("a\0\0\0b\0\0\0", 8);
  PickleBuilder items;
  items.text("u").add(array_of(text_dtype("U1", 4), {2}, PickleBuilder().bytes(texts)));
  items.text("number").add(array("i1", {1}, "n"));
  items.text("day").add(array("M8", {1}, "01234567"));
  items.text("r").add(array_of(records, {2}, PickleBuilder().bytes("01..abcd23..efgh")));
  const Model model = read_dict(items);
  std::vector<std::string> arrays;
  for (const auto& [place, file] : model.per_tensor->npy_files) {
    const Model array = well(read_as("npy", {"a.npy", std::make_shared<Slice>(file)}));
    EXPECT_EQ(array.tensors[0].source.offset() % 64, 0U);
    arrays.push_back(fmt::format("{}: {}", model.tensors.name(place), listing(array)[0].substr(2)));
    EXPECT_EQ(arrays.back().substr(arrays.back().find(": ") + 2),
              listing(model)[place].substr(model.tensors.name(place).size() + 1));
  }
  EXPECT_THAT(arrays, ElementsAre(StartsWith("u: unknown <U1 [2]"), StartsWith("day: unknown <M8 [1]"),
                                  StartsWith("r: unknown [('n', '<i2')")));
}

TEST(Python, NpyFilesOfLeftOutTensorsAreLeftOut) {
  const PickleBuilder day = array("M8", {1}, "01234567");
  const PickleBuilder call = PickleBuilder().call("posix", "system", day);
  const Model model = read_dict(PickleBuilder().text("a").add(day).text("b").add(call).text("c").add(day));
  EXPECT_EQ(model.tensors.size(), 2U);
  ASSERT_EQ(model.per_tensor->npy_files.size(), 2U);
  EXPECT_TRUE(model.per_tensor->npy_files.contains(1));
}

TEST(Python, WrongArraysAreRefusedAndOthersShown) {
  const PickleBuilder good = array("u1", {1}, "g");
  for (const auto& [bad, why] : std::initializer_list<std::pair<PickleBuilder, const char*>>{
           {array("u1", {2}, "x"), "2 bytes needed, the pickle has 1"},
           {array("u1", {1}, "xx"), "1 byte needed, the pickle has 2"},
           {array("u1", {-1}, "x"), "below 0"},
           {array("q9", {1}, "x"), "is not a type of NumPy"},
           {array("u1", {int64_t{1} << 62, 4}, "x"), "2^63"},
           {array_of(dtype("u1"), {1}, PickleBuilder().none()), "its bytes are not bytes"},
           {array_of(dtype("O8"), {2}, PickleBuilder().raw("]")), "2 objects in a list of 0"}}) {
    const Model model = read_dict(PickleBuilder().text("w").add(bad).text("g").add(good));
    ASSERT_EQ(model.tensors.size(), 2U) << why;
    EXPECT_TRUE(model.tensors[0].source.refused()) << why;
    EXPECT_THAT(model.warnings, ElementsAre(HasSubstr(why)));
  }
}

TEST(Python, ElementsOfArraysOfObjectsAreNamedByTheirIndices) {
  PickleBuilder list;
  list.raw("]").mark().add(array("u1", {1}, "a")).text("b").add(array("u1", {1}, "c")).none().raw("e");
  const Model model = read_dict(PickleBuilder().text("o").add(array_of(dtype("O8"), {2, 2}, list)));
  EXPECT_THAT(listing(model), ElementsAre("o.0.0 uint8 <u1 [1] a", "o.1.0 uint8 <u1 [1] c"));
}

TEST(Python, LastValueOfAKeyCounts) {
  const Model model =
      read_dict(PickleBuilder().text("w").add(array("u1", {1}, "a")).text("w").add(array("u1", {1}, "b")));
  EXPECT_THAT(listing(model), ElementsAre("w uint8 <u1 [1] b"));
}

TEST(Python, BytesOfJoblibFollowTheObject) {
  for (const size_t padding : std::initializer_list<size_t>{0, 5, 255}) {
    const std::string bytes =
        dict(PickleBuilder().text("w").add(joblib_array("u1", {3}, ".R.", padding)).text("n").integer(7)).pickle();
    const Model model = read_well(bytes);
    EXPECT_THAT(listing(model), ElementsAre("w uint8 <u1 [3] .R."));
    EXPECT_EQ(json_at(model.metadata, "n"), "7");
    EXPECT_THAT(json_at(model.metadata, "pickle"), HasSubstr(R"("joblib":true)"));
  }
  EXPECT_THAT(error_of(dict(PickleBuilder().text("w").add(joblib_array("u1", {300}, "x"))).pickle()),
              HasSubstr("an array of 300 bytes"));
}

TEST(Python, BytesOfJoblibInsideAFrameAreRefused) {
  const std::string items = dict(PickleBuilder().text("w").add(joblib_array("u1", {3}, "xyz"))).opcodes() + ".";
  EXPECT_THAT(error_of("\x80\x04\x95" + le(items.size(), 8) + items), HasSubstr("inside of a frame"));
}

TEST(Python, CompanionsOfJoblibAreFilesOfTheDirectory) {
  const auto with = [](std::string_view file) {
    return dict(PickleBuilder().text("w").add(
                    object("joblib.numpy_pickle", "NDArrayWrapper",
                           PickleBuilder().text("filename").text(file).text("subclass").none())))
        .pickle();
  };
  const Model model = read_well(with("m.pkl_01.npy"), {{"m.pkl_01.npy", npy("|u1", "(3,)", "xyz")}});
  EXPECT_THAT(listing(model), ElementsAre("w uint8 |u1 [3] xyz"));
  EXPECT_EQ(model.parts.size(), 2U);
  for (const char* name : {"../m.npy", "/etc/passwd", "..", "m.pkl", "", "missing.npy"}) {
    const Model refused = read_well(with(name));
    ASSERT_EQ(refused.tensors.size(), 1U) << name;
    EXPECT_TRUE(refused.tensors[0].source.refused()) << name;
  }
}

TEST(Python, DangerousNamesAreReportedWhereverTheyHide) {
  const PickleBuilder call = PickleBuilder().call("posix", "system", PickleBuilder().text("id"));
  for (const PickleBuilder& items : {PickleBuilder().text("x").add(call), PickleBuilder().add(call).text("x"),
                                     PickleBuilder().add(call).raw("0").text("x").none(),
                                     PickleBuilder().text("x").global("posix\r", "system").text("y").none()}) {
    const Model model = read_dict(items);
    EXPECT_EQ(dangerous_in(model), "posix.system");
    EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("names posix.system: pickle.load and joblib.load can run code")));
  }
  EXPECT_THAT(error_of("\x80\x02" + call.opcodes() + "\xFF"),
              HasSubstr("before that it names posix.system, which can run code"));
  EXPECT_THAT(error_of("\x80\x02" + call.opcodes() + "\x82\x01."), HasSubstr("posix.system"));
}

TEST(Python, ErrorBeginsWithTheFormatOnce) {
  EXPECT_EQ(error_of("\x80\x02}\xF0."), "pickle: unknown opcode 0xf0 at byte 4");
}

TEST(Python, OnlyPaddlesOwnFormOfEvalIsData) {
  const auto eval = [](std::string_view code, std::string_view key) {
    const PickleBuilder arguments =
        PickleBuilder().text(code).add(dict(PickleBuilder().text(key).add(array("u1", {1}, "p"))));
    return PickleBuilder().text("w").call("__builtin__", "eval", arguments);
  };
  const Model paddle = read_dict(eval("data", "data"));
  EXPECT_THAT(listing(paddle), ElementsAre("w uint8 <u1 [1] p"));
  EXPECT_EQ(dangerous_in(paddle), "");
  EXPECT_EQ(dangerous_in(read_dict(eval("data.x", "data"))), "builtins.eval");
  EXPECT_EQ(dangerous_in(read_dict(eval("data", "x"))), "builtins.eval");
  EXPECT_EQ(dangerous_in(read_dict(eval("data", "data").text("y").global("builtins", "eval"))), "builtins.eval");
  // Eval may also be a value, which other code can call.
  const PickleBuilder arguments =
      PickleBuilder().text("data").add(dict(PickleBuilder().text("data").add(array("u1", {1}, "p"))));
  PickleBuilder both = PickleBuilder().text("f").global("builtins", "eval").raw("q\x07");
  both.text("w").raw("h\x07").mark().add(arguments).tuple().raw("R");
  EXPECT_EQ(dangerous_in(read_dict(both)), "builtins.eval");
}

TEST(Python, TensorsOfADangerousCallAreMissing) {
  const PickleBuilder call =
      PickleBuilder().text("x").call("posix", "system", PickleBuilder().add(array("u1", {1}, "a")));
  const Model model = read_dict(PickleBuilder(call).text("w").add(array("u1", {1}, "b")));
  EXPECT_THAT(listing(model), ElementsAre("w uint8 <u1 [1] b"));
  EXPECT_EQ(model.lacks->missing_tensors, 1U);
}

TEST(Python, MasksHaveTheOrderOfTheirArray) {
  const auto masked = [](bool fortran_order, bool has_mask) {
    PickleBuilder arguments;
    arguments.global("numpy.ma.core", "MaskedArray").global("numpy", "ndarray").integers({0}).bytes("b");
    PickleBuilder b;
    b.text("m").call("numpy.ma.core", "_mareconstruct", arguments);
    b.mark().integer(1).integers({2, 2}).add(dtype("u1")).boolean(fortran_order).bytes("abcd");
    if (has_mask) b.bytes(std::string_view("\0\1\1\1", 4)).none();
    return b.tuple().build();
  };
  const Model c = read_dict(masked(false, true));
  EXPECT_EQ(text_of(c.tensors[0].source), std::string("\0\1\1\1", 4));
  EXPECT_EQ(text_of(c.tensors[1].source), "abcd");
  const Model f = read_dict(masked(true, true));
  EXPECT_EQ(c.tensors[0].name, "m.mask");
  EXPECT_EQ(text_of(f.tensors[0].source), std::string("\0\1\1\1", 4));
  EXPECT_EQ(text_of(f.tensors[1].source), "acbd");
  EXPECT_TRUE(read_dict(masked(false, false)).tensors[0].source.refused());
}

TEST(Python, TensorsOfTorchAreFilesInBytes) {
  const std::string file = PytorchBuilder::legacy_header() + storage("Float", "0", 2).pickle() +
                           PickleBuilder().raw("]").mark().text("0").raw("e").pickle() + le(2, 8) + "01234567";
  const auto tensor = [](const std::string& inner) {
    const PickleBuilder loaded =
        PickleBuilder().call("torch.storage", "_load_from_bytes", PickleBuilder().bytes(inner));
    return PickleBuilder().text("w").add(tensor_v2(loaded, {{2}, {1}}));
  };
  const Model model = read_dict(tensor(file));
  EXPECT_THAT(listing(model), ElementsAre("w float32 float32 [2] 01234567"));
  EXPECT_EQ(dangerous_in(model), "");
  const std::string evil =
      PytorchBuilder::legacy_header() + PickleBuilder().call("os", "system", PickleBuilder().text("x")).pickle();
  EXPECT_THAT(dangerous_in(read_dict(tensor(evil + PickleBuilder().raw("]").pickle()))), HasSubstr("os.system"));
  const Model other = read_dict(tensor("PK\x03\x04\n" + file));
  EXPECT_TRUE(other.tensors[0].source.refused());
  EXPECT_THAT(dangerous_in(other), HasSubstr("torch.storage._load_from_bytes"));
}

TEST(Python, OpeningReadsNoArray) {
  PickleBuilder items;
  const std::string large(1 << 20, 'x');
  for (int i = 0; i < 16; ++i) items.text(std::to_string(i)).add(array("u1", {1 << 20}, large));
  const auto source = std::make_shared<CountedSource>(dict(items).pickle());
  const auto model = read_as("pickle", {"m.pkl", source});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->tensors.size(), 16U);
  EXPECT_LT(source->bytes_read, 4U << 20);
}

TEST(Python, DetectsPicklesByContent) {
  EXPECT_EQ(matches_pickle(probe_of(small_pipeline())), Match::yes);
  EXPECT_EQ(matches_pickle(probe_of("(dp0\n.", "m.pkl")), Match::maybe);
  EXPECT_EQ(matches_pickle(probe_of("(dp0\n.", "m.bin")), Match::no);
  EXPECT_EQ(matches_pickle(probe_of("\x80\x06(.")), Match::no);
}

TEST(Python, RestOfAFileIsAWarning) {
  EXPECT_THAT(read_well(small_pipeline() + small_pipeline()).warnings, ElementsAre(HasSubstr("more pickles follow")));
  EXPECT_THAT(read_well(small_pipeline() + "xx").warnings, ElementsAre("not shown: 2 bytes after the pickle"));
}

TEST(Python, LaterPicklesThatCanRunCodeAreNamed) {
  const auto later_in = [](const Model& model) { return json_at(model.common, "later_dangerous_globals"); };
  const std::string system = "cposix\nsystem\n.", plain = small_pipeline();
  const Model model = read_well(plain + plain + system + "\x80\x02" + system);
  EXPECT_EQ(later_in(model), R"("posix.system")");
  EXPECT_EQ(dangerous_in(model), "");
  EXPECT_THAT(model.warnings, Contains("a later pickle names posix.system: a program that loads it can run code"));
  EXPECT_EQ(read_well(plain + plain).common.find("later_dangerous_globals"), nullptr);
  EXPECT_EQ(read_well(plain + "xx").common.find("later_dangerous_globals"), nullptr);
  EXPECT_THAT(later_in(read_well(plain + system.substr(0, system.size() - 1))),
              HasSubstr("(before that it names posix.system, which can run code)"));
  EXPECT_THAT(later_in(read_well(plain + "\x80\x02" + system.substr(0, system.size() - 1))),
              HasSubstr("(before that it names posix.system, which can run code)"));
}

}  // namespace
}  // namespace weightfs::python_test
