// Contract of all formats: from the bytes of a container to the mounted tree.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "tests/support/invariants.h"
#include "tests/support/sanitized.h"
#include "tests/support/small_models.h"
#include "tests/support/surroundings.h"

namespace weightfs::contract_test {
namespace {

using namespace test;
using testing::ElementsAreArray;
using testing::StartsWith;

// All paths without those below views/, as find(1) lists them; directories end in `/`, links include their target,
// unreadable files end in `!`.
std::vector<std::string> walk(Forest& forest, Ino directory = Forest::kRoot) {
  std::vector<std::string> out;
  const auto all = forest.list(directory).value();
  for (uint32_t i = 0; i < all.count; ++i) {
    const Ino ino = all.ino + i;
    const auto attributes = forest.attributes(ino);
    const bool is_directory = attributes && attributes->is_directory();
    const bool is_link = attributes && attributes->kind == NodeKind::link;
    out.push_back(forest.path(ino) + (is_directory ? "/"
                                      : is_link    ? " -> " + *forest.link(ino)
                                      : attributes ? ""
                                                   : " !"));
    if (!is_directory || all.tree->node(all.first + i).text == "views") continue;
    for (std::string& below : walk(forest, ino)) out.push_back(std::move(below));
  }
  return out;
}

// A file that fails at a given read, or has zeros from a given byte on.
class Scripted final : public Source {
 public:
  explicit Scripted(std::string bytes) : bytes_(std::move(bytes)), size_(bytes_.size()) {}
  Scripted(std::string bytes, uint64_t size) : bytes_(std::move(bytes)), size_(size) {}

  void fail_at(uint64_t read) { failing_ = read; }
  uint64_t reads() const { return reads_; }
  uint64_t bytes_read() const { return bytes_read_; }

  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (reads_++ == failing_) return failure(Code::io, "disk on fire");
    const auto count = static_cast<size_t>(offset >= size_ ? 0 : std::min<uint64_t>(out.size(), size_ - offset));
    bytes_read_ += count;
    for (size_t i = 0; i < count; ++i)
      out[i] = offset + i < bytes_.size() ? static_cast<std::byte>(bytes_[offset + i]) : std::byte{0};
    return count;
  }

 private:
  std::string bytes_;
  uint64_t size_;
  uint64_t failing_ = UINT64_MAX;
  mutable std::atomic<uint64_t> reads_ = 0;
  mutable std::atomic<uint64_t> bytes_read_ = 0;
};

class EveryFormat : public testing::TestWithParam<SmallModel> {
 protected:
  static const Format* forced() { return format_named(GetParam().format); }
  static const Format* needed() { return GetParam().detected ? nullptr : forced(); }

  static Container container(SourcePtr bytes) {
    const std::string& name = GetParam().file_name;
    return {name, bytes, std::make_shared<Surroundings>(GetParam().beside, name, bytes), std::make_shared<SmallDisk>()};
  }
  static Container container(std::string bytes) { return container(in_memory(std::move(bytes))); }
  static Container container() { return container(GetParam().bytes); }

  // "" if `bytes` are refused as they should be, or read and everything that is mounted of them is in order.
  static std::string wrong_with(std::string bytes) {
    auto model = read_model(container(std::move(bytes)), forced());
    if (model) return ModelInvariants(std::make_shared<Model>(std::move(*model))).violation();
    const std::string& message = model.error().message;
    if (!message.starts_with(GetParam().file_name)) return "does not name the container: " + message;
    if (!is_one_line(message)) return "not one line: " + message;
    return model.error().code == Code::io && !SmallDisk::refused(model.error())
               ? "no bytes in memory can fail: " + message
               : "";
  }
};

// Formats detected by the content of one file: not shards, which are found by name, nor forced layouts.
class EveryLoneFormat : public EveryFormat {};

std::vector<SmallModel> lone_models() {
  auto models = small_models();
  std::erase_if(models, [](const SmallModel& m) { return !m.detected || !m.beside.empty(); });
  return models;
}

// Those that have another model in them.
class EveryArchive : public EveryFormat {};

std::vector<SmallModel> archives() {
  auto models = small_models();
  std::erase_if(models, [](const SmallModel& m) { return std::ranges::count(m.tree, "nested/") == 0; });
  return models;
}

TEST_P(EveryFormat, HasCommonTree) {
  auto model = read_model(container(), needed());
  ASSERT_TRUE(model) << model.error().message;
  Forest forest(lay_out(std::make_shared<Model>(std::move(*model)), "m", 0));
  EXPECT_THAT(walk(forest), ElementsAreArray(GetParam().tree));
}

TEST_P(EveryFormat, KeepsInvariantsOfMount) { EXPECT_EQ(wrong_with(GetParam().bytes), ""); }

TEST_P(EveryLoneFormat, IsDetectedByContentNotName) {
  Container disguised = container();
  disguised.name = "photo.jpeg";
  disguised.folder = nullptr;
  EXPECT_TRUE(is_model(disguised).value_or(false));
  const auto model = read_model(disguised);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->format, read_model(container())->format);
  EXPECT_EQ(model->tensors.size(), read_model(container())->tensors.size());
}

// Reads return the same bytes, independent of earlier reads.
TEST_P(EveryFormat, RepeatedReadsAreEqual) {
  const auto describe = [] {
    const Model model = read_model(container(), forced()).value();
    std::string out = to_json(metadata_of(model, "m"));
    for (const TensorView& t : model.tensors)
      out += fmt::format("{} {}{}{}\n", t.name, t.dtype->name, shape_text(t.shape), t.source.offset());
    return out;
  };
  EXPECT_EQ(describe(), describe());
}

// The tested offsets of `bytes`: all, but only every 16th of long runs of zeros (the padding of a tar). With a
// sanitizer every 16th: a test takes ten times as long, and the fuzz targets cover the same code.
std::vector<size_t> places_in(std::string_view bytes) {
  constexpr size_t kLong = 32, kStep = 16;
  const size_t apart = sanitized() ? 16 : 1;
  std::vector<size_t> places;
  for (size_t i = 0, zeros = 0; i < bytes.size(); ++i) {
    zeros = bytes[i] == '\0' ? zeros + 1 : 0;
    if (i % apart == 0 && (zeros < kLong || zeros % kStep == 0)) places.push_back(i);
  }
  return places;
}

TEST_P(EveryFormat, SurvivesEveryTruncation) {
  for (const size_t size : places_in(GetParam().bytes))
    ASSERT_EQ(wrong_with(GetParam().bytes.substr(0, size)), "") << size << " bytes";
}

// In all ways in small containers; in those of files, which are larger and take longer, in one way each.
TEST_P(EveryFormat, SurvivesEveryFlippedByte) {
  constexpr size_t kSmall = 512;
  constexpr std::array kFlips = {0x01, 0x80, 0xFF};
  const std::string& whole = GetParam().bytes;
  for (const size_t i : places_in(whole))
    for (size_t way = 0; way < (whole.size() <= kSmall ? kFlips.size() : 1); ++way) {
      const int flip = kFlips[(i + way) % kFlips.size()];
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      ASSERT_EQ(wrong_with(std::move(bytes)), "") << "byte " << i << " flipped by " << flip;
    }
}

// A disk error does not mean a corrupt model, and can be retried.
TEST_P(EveryFormat, SystemErrorsArePassedThrough) {
  const auto whole = std::make_shared<Scripted>(GetParam().bytes);
  ASSERT_TRUE(read_model(container(whole), needed()));
  ASSERT_GT(whole->reads(), 0U);
  for (uint64_t read = 0; read < whole->reads(); ++read) {
    const auto failing = std::make_shared<Scripted>(GetParam().bytes);
    failing->fail_at(read);
    const auto model = read_model(container(failing), needed());
    ASSERT_FALSE(model) << "read " << read << " failed";
    EXPECT_EQ(model.error().code, Code::io) << model.error().message;
    EXPECT_THAT(model.error().message, StartsWith(GetParam().file_name));
  }
}

// Listings are cached: a disk error while nested containers are detected must be an error, not an incomplete listing.
TEST_P(EveryArchive, ShowsAllNestedModelsOrNone) {
  for (uint64_t read = 0;; ++read) {
    const auto bytes = std::make_shared<Scripted>(GetParam().bytes);
    auto model = read_model(container(bytes), needed());
    ASSERT_TRUE(model) << model.error().message;
    Forest forest(lay_out(std::make_shared<Model>(std::move(*model)), "m", 0));
    const uint64_t before = bytes->reads();
    bytes->fail_at(before + read);
    const auto nested = forest.list(forest.resolve("nested").value());
    if (nested)
      EXPECT_EQ(nested->count, 1U) << "read " << read << " failed";
    else
      EXPECT_EQ(nested.error().code, Code::io) << nested.error().message;
    if (bytes->reads() <= before + read) break;
  }
}

// A file with a valid beginning, followed by zeros: the number of bytes read depends on the content, not on the size.
TEST_P(EveryFormat, ReadsLittleOfFileWithHugeClaims) {
  constexpr uint64_t kHuge = uint64_t{1} << 62;
  constexpr uint64_t kLittle = 1 << 20;
  for (const std::string& beginning : {GetParam().bytes, GetParam().bytes.substr(0, 9), std::string()}) {
    const auto huge = std::make_shared<Scripted>(beginning, kHuge);
    const auto model = read_model(container(huge), forced());
    EXPECT_LT(huge->bytes_read(), kLittle);
    if (model) {
      EXPECT_LT(model->tensors.size(), 20U);
    } else {
      EXPECT_NE(model.error().code, Code::io) << model.error().message;
    }
  }
}

constexpr auto kTitle = [](const auto& row) { return std::string(row.param.title); };
INSTANTIATE_TEST_SUITE_P(Small, EveryFormat, testing::ValuesIn(small_models()), kTitle);
INSTANTIATE_TEST_SUITE_P(Small, EveryLoneFormat, testing::ValuesIn(lone_models()), kTitle);
INSTANTIATE_TEST_SUITE_P(Small, EveryArchive, testing::ValuesIn(archives()), kTitle);

// A format that is added without a row above is not tested.
TEST(EveryFormat, IsInSuite) {
  for (const Format& format : formats()) {
    const auto models = small_models();
    EXPECT_TRUE(std::any_of(models.begin(), models.end(), [&](const SmallModel& m) { return m.format == format.name; }))
        << format.name;
  }
}

}  // namespace
}  // namespace weightfs::contract_test
