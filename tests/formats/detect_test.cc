// Detection of a container's format.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "tests/builders/tar_builder.h"
#include "tests/support/filtered.h"
#include "tests/support/small_models.h"

namespace weightfs::detect_test {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Container container(std::string bytes, std::string name = "m") {
  return {std::move(name), in_memory(std::move(bytes)), nullptr};
}

// What `bytes` are read as, or why they are not.
std::string outcome(std::string bytes, const Format* forced = nullptr) {
  const auto model = read_model(container(std::move(bytes)), forced);
  return model ? model->format : model.error().message;
}

// The message with the formats that were tried.
std::string verbose_outcome(std::string bytes) {
  Container file = container(std::move(bytes));
  file.lists_tried = true;
  const auto model = read_model(file);
  return model ? model->format : model.error().message;
}

class Unreadable final : public Source {
 public:
  uint64_t size() const override { return 1000; }
  Result<size_t> read(uint64_t, std::span<std::byte>) const override { return failure(Code::io, "disk on fire"); }
};

TEST(Detection, FindsEachFormatByName) {
  for (const Format& format : formats()) EXPECT_EQ(format_named(format.name), &format);
  for (const char* name : {"", "GGUF", "bin", "ONNX"}) EXPECT_EQ(format_named(name), nullptr) << name;
}

// The formats of files; those of directories are not tried on other files.
std::string tried() {
  std::string names;
  for (const Format& format : formats())
    if (!format.suffixes.empty()) names += fmt::format("{}{}", names.empty() ? "" : ", ", format.name);
  return names;
}

const std::string kNeither = std::string("\1\2neither fish nor flesh, and long enough for every format");

TEST(Detection, ReportsTriedFormatsIfAsked) {
  EXPECT_EQ(verbose_outcome(kNeither), "m: not a model that weightfs knows (58 B); tried " + tried());
  EXPECT_EQ(verbose_outcome("plain text"), "m: text: \"plain text\" (10 B); tried " + tried());
}

// semantics 1.5
TEST(Detection, UnknownFileIsNotAModel) {
  const auto model = read_model(container(kNeither));
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::unsupported);
  EXPECT_EQ(model.error().message, "m: not a model that weightfs knows (58 B)");
}

// A format without a magic number may be intended: then the list has its error.
TEST(Detection, ListsWhyPossibleFormatFails) {
  EXPECT_EQ(verbose_outcome(bintensors_file("\2")), "m: not a model that weightfs knows (9 B); tried " + tried());
  EXPECT_THAT(verbose_outcome(bintensors_file(std::string("\0\5\0\0\0\0\0\0", 8))),
              HasSubstr("bintensors (bintensors: in the release layout: "));
  EXPECT_THAT(verbose_outcome(R"({"weight_map": 7})"), HasSubstr("safetensors-index (safetensors index: "));
}

// The name says what a file should be.
TEST(Detection, ReportsErrorOfFormatOfItsName) {
  const std::string bytes = bintensors_file(std::string("\0\5\0\0\0\0\0\0", 8));
  const auto named = read_model(container(bytes, "m.bintensors"));
  ASSERT_FALSE(named);
  EXPECT_THAT(named.error().message, StartsWith("m.bintensors: bintensors: in the release layout: "));
  const auto index = read_model(container(R"({"weight_map": 7})", "m.safetensors.index.json"));
  EXPECT_THAT(index.error().message, StartsWith("m.safetensors.index.json: safetensors index: "));
  EXPECT_EQ(outcome(R"({"weight_map": 7})"), "m: a JSON document, not a model");
  EXPECT_EQ(outcome(bytes), fmt::format("m: not a model that weightfs knows ({} B)", bytes.size()));
}

TEST(Detection, CompressedTarThatIsCutIsCorruptByItsName) {
  const std::string tar = tars::TarBuilder().file("a", "hello").build();
  const std::string cut = filtered("gzip", tar).substr(0, 30);
  EXPECT_EQ(read_model({"m.tar.gz", in_memory(cut)}).error().code, Code::corrupt);
  EXPECT_EQ(read_model({"m.gz", in_memory(cut)}).error().code, Code::unsupported);
}

TEST(Detection, ReportsErrorOfCertainFormat) {
  for (const std::string& bytes : {small_gguf(), rten::small_rten(), small_safetensors()}) {
    const std::string error = outcome(bytes.substr(0, bytes.size() / 2));
    EXPECT_THAT(error, StartsWith("m: "));
    EXPECT_THAT(error, Not(HasSubstr("not a model")));
  }
}

// The magic number decides before a layout that would fit, too: 'G', 'G', 'U', 'F' may be the length of a header.
TEST(Detection, PrefersMagicNumberToPlausibleLayout) {
  EXPECT_THAT(outcome("GGUF" + std::string(4, '\0') + std::string(1000, ' ')), StartsWith("m: gguf: "));
  EXPECT_THAT(outcome("RTEN" + std::string(4, '\0') + std::string(1000, ' ')), StartsWith("m: rten: "));
}

TEST(Detection, ForcedFormatSkipsDetection) {
  EXPECT_EQ(outcome(small_gguf(), format_named("gguf")), "gguf");
  EXPECT_THAT(outcome(small_gguf(), format_named("safetensors")), StartsWith("m: safetensors: "));
  EXPECT_EQ(outcome(small_bintensors().legacy()), "bintensors");
  EXPECT_EQ(outcome(small_bintensors().legacy(), format_named("bintensors-legacy")), "bintensors");
  EXPECT_THAT(outcome(small_bintensors().legacy(), format_named("bintensors-release")), StartsWith("m: bintensors: "));
}

// A disk error does not identify a format.
TEST(Detection, PassesOnIoErrors) {
  const Container unreadable{"m", std::make_shared<Unreadable>(), nullptr};
  const auto detected = read_model(unreadable);
  ASSERT_FALSE(detected);
  EXPECT_EQ(detected.error().code, Code::io);
  EXPECT_EQ(detected.error().message, "m: disk on fire");
  const auto is = is_model(unreadable);
  ASSERT_FALSE(is);
  EXPECT_EQ(is.error().code, Code::io);
  for (const Format& format : formats())
    EXPECT_EQ(read_model(unreadable, &format).error().code, Code::io) << format.name;
}

TEST(Detection, NamesTheContainerOnce) {
  const auto error_of = [](std::string name) {
    return read_model({std::move(name), in_memory("GGUF"), nullptr}).error().message;
  };
  EXPECT_EQ(error_of("model.gguf"), "model.gguf: gguf: ends at byte 4, 4 bytes needed at 4");
  EXPECT_EQ(error_of("g"), "g: gguf: ends at byte 4, 4 bytes needed at 4") << "a name that the message begins with";
}

// is_model must be right, or a directory shows a model that cannot be entered, or hides one.
TEST(Detection, IsModelPredictsReadModel) {
  for (const SmallModel& small : small_models()) {
    for (const size_t size : {small.bytes.size(), small.bytes.size() / 2, size_t{20}, size_t{3}}) {
      Container cut{small.file_name, in_memory(small.bytes.substr(0, size)),
                    std::make_shared<MemoryFolder>(small.beside)};
      cut.lists_tried = true;
      const auto model = read_model(cut);
      const auto says = [&](const char* text) { return model.error().message.find(text) != std::string::npos; };
      // A corrupt model is still a model; another file is not.
      const bool is_other = !model && (says("; tried ") || says("only zero bytes"));
      const bool is_broken = !model && (!is_other || small.file_name.ends_with(".tar.gz"));
      EXPECT_EQ(is_model(cut).value_or(false), model || is_broken)
          << small.title << ", " << size << " bytes: " << (model ? "" : model.error().message);
    }
  }
}

}  // namespace
}  // namespace weightfs::detect_test
