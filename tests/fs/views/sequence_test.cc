// The tensors of a model as one run of bytes.
#include "fs/views/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <numeric>
#include <random>

#include "base/files/leaf.h"
#include "fs/views/model_file.h"
#include "tests/support/counted_source.h"
#include "tests/support/models.h"
#include "tests/support/reading.h"
#include "tests/support/sanitized.h"

namespace weightfs::sequence_test {
namespace {

using namespace views;
using test::CountedSource;
using test::well;

std::string read_at(const Source& source, uint64_t offset, size_t size) {
  std::string text(size, '?');
  text.resize(well(source.read(offset, std::as_writable_bytes(std::span(text)))));
  return text;
}

// Tensors of these sizes of one source, each with one byte of padding.
struct Pieces {
  explicit Pieces(const std::vector<uint64_t>& sizes) {
    std::string bytes(std::accumulate(sizes.begin(), sizes.end(), size_t{0}), '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>('a' + i % 26);
    source = std::make_shared<CountedSource>(bytes);
    auto model = std::make_shared<Model>();
    uint64_t at = 0;
    uint64_t end = 0;
    std::vector<uint64_t> ends;
    for (const uint64_t size : sizes) {
      Tensor tensor = make_tensor("t" + std::to_string(ends.size()), "uint8", {0});
      tensor.shape = {size};
      tensor.source = slice(source, at, size).value();
      model->tensors.push_back(tensor);
      all += bytes.substr(at, size) + std::string(1, '\0');
      at += size;
      ends.push_back(end += size + 1);
    }
    const auto made = std::make_shared<FileLayout>(model, TypesInFile{});
    made->tensors.resize(sizes.size());
    std::iota(made->tensors.begin(), made->tensors.end(), 0);
    made->ends = ends;
    layout = made;
  }

  std::shared_ptr<CountedSource> source;
  FileLayoutPtr layout;
  std::string all;
};

TEST(Sequence, ReadsAreEqualAtAnyOffset) {
  const Pieces pieces({3, 0, 5, 1, 0, 0, 7});
  const SourcePtr whole = sequence(pieces.layout);
  ASSERT_EQ(whole->size(), pieces.all.size());
  for (size_t offset = 0; offset <= pieces.all.size() + 1; ++offset)
    for (size_t size = 0; size <= pieces.all.size(); ++size)
      EXPECT_EQ(read_at(*whole, offset, size), pieces.all.substr(std::min(offset, pieces.all.size()), size))
          << size << " bytes at " << offset;
}

TEST(Sequence, OpensOnlyPiecesThatAreRead) {
  const Pieces pieces({4, 4, 4, 4});
  std::vector<size_t> opened;
  const SourcePtr whole = sequence(pieces.layout, [&](size_t position) -> Result<SourcePtr> {
    opened.push_back(position);
    return bytes_in_file(*pieces.layout->model, pieces.layout->types, pieces.layout->tensors[position]);
  });
  EXPECT_EQ(whole->keep_cached(), nullptr);
  EXPECT_EQ(read_at(*whole, 7, 5), pieces.all.substr(7, 5));
  EXPECT_THAT(opened, testing::ElementsAre(1, 2));
  EXPECT_EQ(pieces.source->bytes_read, 4U);
}

TEST(Sequence, PieceThatIsTooLargeIsAnError) {
  const Pieces pieces({4, 4});
  const SourcePtr whole =
      sequence(pieces.layout, [](size_t) -> Result<SourcePtr> { return in_memory("more than the layout has"); });
  std::string text(3, '?');
  EXPECT_EQ(test::error_in(whole->read(5, std::as_writable_bytes(std::span(text)))),
            "24 bytes of a tensor, 5 expected");
}

// What a source on a server is told.
class Told final : public Source {
 public:
  explicit Told(uint64_t size) : size_(size) {}
  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t, std::span<std::byte> out) const override { return out.size(); }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    told.push_back({expected.from, expected.to});
    return read(offset, out);
  }
  Result<void> prefetch(ByteRange range) const override {
    fetched.push_back({range.from, range.to});
    return {};
  }
  std::shared_ptr<const void> keep_cached() const override { return std::make_shared<int>(++held); }
  VerifiedBy verification() const override { return VerifiedBy::blocks; }

  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;
  mutable Ranges told;
  mutable Ranges fetched;
  mutable int held = 0;

 private:
  uint64_t size_;
};

TEST(Sequence, PassesHintsToTheSourcesOfTheTensors) {
  const auto told = std::make_shared<Told>(100);
  auto model = std::make_shared<Model>();
  for (const uint64_t offset : {50U, 10U}) {
    Tensor tensor = make_tensor("t" + std::to_string(offset), "uint8", {0});
    tensor.shape = {20};
    tensor.source = slice(told, offset, 20).value();
    model->tensors.push_back(tensor);
  }
  const auto layout = std::make_shared<FileLayout>(model, TypesInFile{});
  layout->tensors = {0, 1};
  layout->ends = {20, 40};
  const SourcePtr whole = sequence(layout);
  std::string text(10, '?');
  EXPECT_EQ(well(whole->read_ahead(15, std::as_writable_bytes(std::span(text)), {5, 30})), 10U);
  EXPECT_EQ(told->told, (Told::Ranges{{55, 70}, {10, 20}}));
  EXPECT_TRUE(whole->prefetch({0, 25}));
  EXPECT_EQ(told->fetched, (Told::Ranges{{50, 70}, {10, 15}}));
  EXPECT_NE(whole->keep_cached(), nullptr);
  EXPECT_EQ(told->held, 1);  // one source, held once
  EXPECT_EQ(whole->verification(), VerifiedBy::blocks);
}

class ThreeBytes final : public Leaf {
 public:
  uint64_t size() const override { return 3; }
  Result<size_t> read(uint64_t, std::span<std::byte>) const override { return failure(Code::io, "not read"); }
  bool is_ready() const override { return true; }
};

TEST(Sequence, PlaceIsInAPieceWhichItKeeps) {
  const Pieces pieces({3, 3});
  std::weak_ptr<const Source> last;
  const SourcePtr whole = sequence(pieces.layout, [&](size_t) -> Result<SourcePtr> {
    const SourcePtr made = std::make_shared<ThreeBytes>();
    last = made;
    return made;
  });
  auto place = well(whole->place(5, Opens::nothing));
  EXPECT_EQ(place.leaf, last.lock().get());
  EXPECT_EQ(place.offset, 1U);
  EXPECT_EQ(place.length, 2U);
  EXPECT_FALSE(place.is_ready) << "of a hundred thousand tensors that would take long";
  place = {};
  EXPECT_TRUE(last.expired());
  place = well(whole->place(3, Opens::nothing));
  EXPECT_EQ(place.leaf, nullptr) << "the padding";
  EXPECT_EQ(place.length, 1U);
  place = well(whole->place(8, Opens::nothing));
  EXPECT_EQ(place.offset, 3U) << "the end of the last piece";
  EXPECT_EQ(place.length, 0U);
}

// The memory of the file of a large model, beside the model: its lists, and the offsets of blocks of its header.
TEST(Sequence, HundredThousandTensorsTakeAtMost32BytesEach) {
  if (test::sanitized()) GTEST_SKIP() << "the allocator of a sanitizer is not counted";
  constexpr size_t kCount = 100'000;
  const auto bytes = std::make_shared<CountedSource>(std::string(kCount * 4, 'x'));
  auto model = std::make_shared<Model>();
  for (size_t i = 0; i < kCount; ++i) {
    Tensor tensor = make_tensor("model.layers." + std::to_string(i) + ".weight", "float32", {0});
    tensor.shape = {1};
    tensor.source = slice(bytes, i * 4, 4).value();
    model->tensors.push_back(tensor);
  }
  const size_t before = ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
  const auto files = well(safetensors_files(model, {}, 0));
  const auto gguf = well(gguf_file(model, {}));
  const size_t after = ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
  ASSERT_EQ(files.size(), 1U);
  EXPECT_LE(after - before, 2 * 32 * kCount);
  EXPECT_EQ(bytes->bytes_read, 0U);
  EXPECT_EQ(read_at(*files[0].source, files[0].source->size() - 4, 4), "xxxx");
  EXPECT_EQ(bytes->bytes_read, 4U);
  EXPECT_EQ(read_at(*gguf.source, gguf.source->size() - 32, 8), std::string("xxxx\0\0\0\0", 8));
}

}  // namespace
}  // namespace weightfs::sequence_test
