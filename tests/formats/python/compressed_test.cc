// Compressed pickles, companions of joblib, arrays of JAX.
#include "tests/support/compressed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "tests/builders/python_builder.h"
#include "tests/support/filtered.h"
#include "tests/support/memory_folder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::python_compressed_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;

// RFC 1950, with stored blocks.
std::string zlib(std::string_view bytes) {
  uint32_t a = 1, b = 0;
  for (const char c : bytes) {
    a = (a + static_cast<uint8_t>(c)) % 65521;
    b = (b + a) % 65521;
  }
  std::string checksum = le(b << 16 | a, 4);
  std::reverse(checksum.begin(), checksum.end());
  return "\x78\x01" + deflate_stored(bytes) + checksum;
}

// The file of joblib up to 0.9.
std::string zf(std::string_view bytes, size_t padding = 19) {
  std::string length = fmt::format("{:#x}", bytes.size());
  length.resize(padding, ' ');
  return "ZF" + length + zlib(bytes);
}

Result<Model> read(std::string name, std::string bytes, Files beside = {}) {
  return read_model({std::move(name), in_memory(std::move(bytes)), std::make_shared<MemoryFolder>(std::move(beside))});
}

std::string small_pickle() { return dict(PickleBuilder().text("w").add(array("u1", {3}, "xyz"))).pickle(); }

TEST(CompressedPickles, AreReadInEachForm) {
  const std::string pickle = small_pickle();
  for (const auto& [name, bytes] :
       std::initializer_list<std::pair<std::string, std::string>>{{"gzip", filtered("gzip", pickle)},
                                                                  {"bzip2", filtered("bzip2", pickle)},
                                                                  {"xz", filtered("xz", pickle)},
                                                                  {"lzma", filtered("lzma", pickle)},
                                                                  {"lz4", filtered("lz4", pickle)},
                                                                  {"zlib", zlib(pickle)},
                                                                  {"zlib", zf(pickle)},
                                                                  {"zlib", zf(pickle, 20)}}) {
    const Model model = well(read("m.pkl", bytes));
    EXPECT_EQ(model.format, "pickle") << name;
    EXPECT_THAT(listing(model), ElementsAre("w uint8 <u1 [3] xyz")) << name;
    EXPECT_THAT(json_at(model.metadata, "pickle"), HasSubstr("\"compression\":\"" + name + "\""));
    for (const size_t left : {bytes.size() / 2, bytes.size() - 9})
      EXPECT_FALSE(read("m.pkl", bytes.substr(0, left))) << name << ": " << left;
  }
}

TEST(CompressedPickles, CutFilesAreCorrupt) {
  const std::string pickle = small_pickle();
  for (const char* const filter : {"gzip", "bzip2", "xz", "lz4"}) {
    const std::string whole = filtered(filter, pickle);
    constexpr size_t kRecognised = 20;
    for (size_t size = kRecognised; size < whole.size(); ++size) {
      const auto model = read("m.pkl.gz", whole.substr(0, size));
      ASSERT_FALSE(model) << filter << ": " << size;
      EXPECT_EQ(model.error().code, Code::corrupt) << filter << ": " << size << ": " << model.error().message;
    }
  }
}

TEST(CompressedPickles, CompanionsAreReadWithTheStateOfTheirArray) {
  const PickleBuilder arguments = PickleBuilder().global("numpy", "ndarray").integers({0}).text("b");
  const auto file = [&](bool fortran_order) {
    PickleBuilder state;
    state.mark().integer(1).integers({2, 2}).add(dtype("u1")).boolean(fortran_order).tuple();
    return dict(PickleBuilder().text("w").add(object("joblib.numpy_pickle", "ZNDArrayWrapper",
                                                     PickleBuilder()
                                                         .text("filename")
                                                         .text("m.pkl_01.npy.z")
                                                         .text("init_args")
                                                         .mark()
                                                         .add(arguments)
                                                         .tuple()
                                                         .text("state")
                                                         .add(state))))
        .pickle();
  };
  const Files beside = {{"m.pkl_01.npy.z", zf("abcd")}};
  EXPECT_THAT(listing(well(read("m.pkl", file(false), beside))), ElementsAre("w uint8 <u1 [2x2] abcd"));
  EXPECT_THAT(listing(well(read("m.pkl", file(true), beside))), ElementsAre("w uint8 <u1 [2x2] acbd"));
  const Model shorter = well(read("m.pkl", file(false), {{"m.pkl_01.npy.z", zf("abc")}}));
  EXPECT_THAT(shorter.warnings, ElementsAre(HasSubstr("4 bytes needed, its file has 3")));
}

TEST(CompressedPickles, ArraysOfJaxAreThoseOfNumPy) {
  for (const auto& [module, name] : std::initializer_list<std::pair<const char*, const char*>>{
           {"jax._src.array", "_reconstruct_array"},
           {"jax.interpreters.xla", "_reconstruct_device_array"},
           {"jax._src.device_array", "reconstruct_device_array"}}) {
    PickleBuilder arguments;
    arguments.global("numpy.core.multiarray", "_reconstruct");
    arguments.mark().global("numpy", "ndarray").integers({0}).bytes("b").tuple();
    arguments.mark().integer(1).integers({3}).add(dtype("bfloat16", ">")).boolean(false).bytes("aAbBcC").tuple();
    arguments.boolean(false);
    const std::string bytes = dict(PickleBuilder().text("w").call(module, name, arguments)).pickle();
    const Model model = well(read("m.pkl", bytes));
    ASSERT_EQ(model.tensors.size(), 1U) << module;
    EXPECT_EQ(model.tensors[0].dtype->name, "bfloat16");
    EXPECT_EQ(text_of(model.tensors[0].source), "AaBbCc");
  }
}

}  // namespace
}  // namespace weightfs::python_compressed_test
