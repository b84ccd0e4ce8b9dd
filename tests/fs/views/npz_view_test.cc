// model.npz, and the checksums that it needs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "base/cancel.h"
#include "base/digest.h"
#include "formats/float32.h"
#include "formats/format.h"
#include "fs/views/npz.h"
#include "tests/support/counted_source.h"
#include "tests/support/model_text.h"
#include "tests/support/models.h"
#include "tests/support/reading.h"

namespace weightfs::npz_view_test {
namespace {

using namespace views;
using test::CountedSource;
using test::error_in;
using test::listing;
using test::text_of;
using test::well;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Bytes with an identity, whose reads are counted and can fail.
class Named final : public Source {
 public:
  Named(std::string name, std::string bytes) : name_(std::move(name)), bytes_(in_memory(std::move(bytes))) {}
  uint64_t size() const override { return bytes_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    ++reads;
    if (fails) return failure(Code::io, "broken disk");
    if (on_read) on_read();
    return bytes_->read(offset, out);
  }
  std::string identity() const override { return name_; }

  mutable std::atomic<uint64_t> reads = 0;
  std::atomic<bool> fails = false;
  std::function<void()> on_read;

 private:
  std::string name_;
  SourcePtr bytes_;
};

std::shared_ptr<Named> add_named(Model& model, const std::string& name, const std::string& bytes) {
  const auto source = std::make_shared<Named>("identity of " + name, bytes);
  Tensor tensor = make_tensor(name, "uint8", {0});
  tensor.shape = {bytes.size()};
  tensor.source = slice(source, 0, bytes.size()).value();
  model.tensors.push_back(tensor);
  return source;
}

// Keeps blobs that have a key, as the cache does with large ones.
class KeptBlobs final : public Blobs {
 public:
  SourcePtr blob(BlobProducer producer) override {
    const uint64_t size = *producer.size;
    EXPECT_GT(size, kSmallBlob) << "not cached";
    EXPECT_FALSE(producer.key.empty());
    return lazy(size, Later<SourcePtr>([this, producer]() -> Result<SourcePtr> {
                  const auto found = blobs.find(producer.key);
                  if (found != blobs.end()) return found->second;
                  const StreamPtr stream = TRY(producer.start());
                  std::string bytes(*producer.size, '\0');
                  size_t done = 0;
                  while (const size_t got = TRY(stream->next(std::as_writable_bytes(std::span(bytes)).subspan(done))))
                    if ((done += got) == bytes.size()) break;
                  return blobs[producer.key] = in_memory(bytes);
                }));
  }
  Result<SourcePtr> materialize(BlobProducer) override { return failure(Code::io, "not used"); }

  std::map<std::string, SourcePtr> blobs;
};

Model read_back(const ModelFile& file) {
  EXPECT_EQ(file.path, "model.npz");
  // A zip whose checksums are wrong cannot be read.
  return well(read_model({.name = "model.npz", .bytes = in_memory(text_of(*file.source))}, format_named("npz")));
}

TEST(NpzView, HasTheArraysOfNpy) {
  auto model = std::make_shared<Model>();
  for (const auto& [name, dtype, shape] : {std::tuple{"layer/w", "float32", Shape{2, 3}},
                                           {"b", "bool", {3}},
                                           {"scalar", "int64", {}},
                                           {"empty", "float16", {0, 2}}})
    model->tensors.push_back(make_tensor(name, dtype, shape));
  const ModelFile file = well(npz_file(model, {}));
  EXPECT_THAT(file.left_out.lines(), IsEmpty());
  const Model again = read_back(file);
  EXPECT_THAT(again.warnings, IsEmpty());
  ASSERT_EQ(again.tensors.size(), model->tensors.size());
  for (size_t i = 0; i < model->tensors.size(); ++i) {
    EXPECT_EQ(again.tensors[i].name, model->tensors[i].name);
    EXPECT_EQ(again.tensors[i].dtype, model->tensors[i].dtype);
    EXPECT_EQ(again.tensors[i].shape, model->tensors[i].shape);
    EXPECT_EQ(text_of(again.tensors[i].source), text_of(model->tensors[i].source));
  }
}

TEST(NpzView, Float32HasTheNumbersOfEveryType) {
  auto model = std::make_shared<Model>();
  model->tensors.push_back(make_tensor("q", "q8_0", {2, 32}));
  model->tensors.push_back(make_tensor("h", "float16", {3}));
  const Model again = read_back(well(npz_file(model, {.types = FileTypes::float32})));
  ASSERT_EQ(again.tensors.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(again.tensors[i].dtype->name, "float32");
    EXPECT_EQ(again.tensors[i].shape, model->tensors[i].shape);
    EXPECT_EQ(text_of(again.tensors[i].source), text_of(*float32_values(model->tensors[i])));
  }
}

// semantics 4.3, 26.9
TEST(NpzView, NumbersThatNumpyLacksAreFloat32) {
  auto model = std::make_shared<Model>();
  model->tensors.push_back(make_tensor("b", "bfloat16", {2, 3}));
  model->tensors.push_back(make_tensor("f", "float8_e5m2", {4}));
  const Model again = read_back(well(npz_file(model, {})));
  const Model halves = read_back(well(npz_file(model, {.types = FileTypes::float16})));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(again.tensors[i].dtype->name, "float32");
    EXPECT_EQ(again.tensors[i].shape, model->tensors[i].shape);
    EXPECT_EQ(text_of(again.tensors[i].source), text_of(*float32_values(model->tensors[i])));
    EXPECT_EQ(halves.tensors[i].dtype->name, "float16");
    EXPECT_EQ(text_of(halves.tensors[i].source),
              text_of(*half_values(model->tensors[i], nullptr, HalfType::float16, {})));
  }
}

TEST(NpzView, ReadsAreEqualAtAnyOffset) {
  auto model = std::make_shared<Model>();
  add_named(*model, "a", "123");
  add_named(*model, "b", "");
  const ModelFile file = well(npz_file(model, {}));
  const std::string all = text_of(*file.source);
  for (size_t offset = 0; offset <= all.size(); ++offset)
    for (const size_t size : {1U, 7U, 300U}) {
      std::string part(size, '?');
      part.resize(well(file.source->read(offset, std::as_writable_bytes(std::span(part)))));
      ASSERT_EQ(part, all.substr(offset, size)) << size << " bytes at " << offset;
    }
}

// Paths are those of npy/: unique, and never outside of a directory.
TEST(NpzView, HostileNamesAreThePathsOfNpy) {
  auto model = std::make_shared<Model>();
  for (const char* const name : {"w", "w", "../up", "/abs", "", "a\xFF", "n\u00e9e"})
    model->tensors.push_back(make_tensor(name, "uint8", {1}));
  std::vector<std::string> names;
  for (const TensorView& tensor : read_back(well(npz_file(model, {}))).tensors) names.emplace_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("w", "w%~2", "%2E%2E/up", "%2Fabs", "%", "a%FF", "n\u00e9e"));
}

TEST(NpzView, TensorsWithoutNpyAreLeftOut) {
  auto model = std::make_shared<Model>();
  model->tensors.push_back(make_tensor("deep", "uint8", Shape(70, 1)));
  Tensor unknown = make_tensor("unknown", "uint8", {1});
  unknown.dtype = &kUnknownDType;
  model->tensors.push_back(unknown);
  EXPECT_EQ(error_in(npz_file(model, {})), "no tensor can be written as npz: tensor \"deep\": has no .npy file, …");
  model->tensors.push_back(make_tensor("w", "uint8", {1}));
  const ModelFile file = well(npz_file(model, {}));
  EXPECT_THAT(file.left_out.lines(),
              ElementsAre("tensor \"deep\": has no .npy file", "tensor \"unknown\": has no .npy file"));
  EXPECT_EQ(read_back(file).tensors.size(), 1U);
}

// A member of 4 GiB and one after it: the fields of zip64. The members are not read.
TEST(NpzView, LargeMembersHaveZip64Fields) {
  constexpr uint64_t kLarge = (uint64_t{1} << 32) + 5;
  auto model = std::make_shared<Model>();
  for (const uint64_t size : {kLarge, uint64_t{3}}) {
    Tensor tensor = make_tensor("t" + std::to_string(size), "uint8", {0});
    tensor.shape = {size};
    tensor.source = slice(std::make_shared<CountedSource>("", size), 0, size).value();
    model->tensors.push_back(tensor);
  }
  const auto blobs = std::make_shared<KeptBlobs>();
  const ModelFile file = well(npz_file(model, {}));
  // 30 + "t4294967301.npy" + 20, 30 + "t3.npy", with headers of 128 bytes; the entries have 46 + name + extra.
  const uint64_t members = 30 + 15 + 20 + 128 + kLarge + 30 + 6 + 128 + 3;
  const uint64_t directory = 46 + 15 + 20 + 46 + 6 + 12;
  EXPECT_EQ(file.source->size(), members + directory + 56 + 20 + 22);
  const std::string end = well(read_text(*file.source, members + directory, 98));
  EXPECT_EQ(end.substr(0, 4), "PK\x06\x06");
  EXPECT_EQ(end.substr(56, 4), "PK\x06\x07");
  EXPECT_EQ(end.substr(76, 4), "PK\x05\x06");
}

TEST(NpzView, OpeningAndDataReadNoChecksums) {
  auto model = std::make_shared<Model>();
  const auto first = add_named(*model, "a", "123");
  const auto second = add_named(*model, "b", "456");
  const ModelFile file = well(npz_file(model, {}));
  EXPECT_EQ(first->reads + second->reads, 0U);
  EXPECT_EQ(well(read_text(*file.source, 30 + 5 + 128, 3)), "123");
  EXPECT_EQ(first->reads, 1U);
  EXPECT_EQ(second->reads, 0U);
}

// A regular model of many small tensors can be listed: its file may cost 1 second and 100 nanoseconds for each byte,
// and a tensor has about 90 bytes of a GGUF.
TEST(NpzView, ManySmallTensorsAreWithinTheBudget) {
  constexpr uint64_t kTensors = 200'000;
  auto model = std::make_shared<Model>();
  model->budget = std::make_shared<Budget>(90 * kTensors);
  Tensor tensor = make_tensor("", "float32", {1});
  tensor.source = slice(in_memory("1234"), 0, 4).value();
  for (uint64_t i = 0; i < kTensors; ++i) {
    tensor.name = "blk." + std::to_string(i) + ".attn.weight";
    model->tensors.push_back(tensor);
  }
  const Result<ModelFile> gguf = gguf_file(model, {}), npz = npz_file(model, {});
  EXPECT_TRUE(gguf && npz);
  // Two views of five; npy/, tensors/ and their lists follow.
  EXPECT_LT(model->budget->time_used(), model->budget->time_limit() * 2 / 5);
}

// The end of the directory, which has all checksums.
Result<std::string> end_of(const ModelFile& file) {
  constexpr uint64_t kSize = 60;
  return read_text(*file.source, file.source->size() - kSize, kSize);
}

// The second mount of the same bytes reads no tensor for its checksums.
TEST(NpzView, ChecksumsAreRemembered) {
  const auto blobs = std::make_shared<KeptBlobs>();
  const auto checksums = std::make_shared<Checksums>(blobs);
  std::string texts[2];
  for (std::string& text : texts) {
    auto model = std::make_shared<Model>();
    const auto source = add_named(*model, "a", "123");
    const ModelFile file = well(npz_file(model, {}, "m: model.npz", checksums));
    text = well(end_of(file));
    EXPECT_EQ(source->reads, &text == texts ? 1U : 0U);
    EXPECT_THAT(checksums->running(), IsEmpty());
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(blobs->blobs.size(), 1U);
  // Other bytes, another shape or another type have other checksums.
  auto other = std::make_shared<Model>();
  add_named(*other, "b", "123");
  EXPECT_TRUE(end_of(well(npz_file(other, {}, "m", checksums))));
  EXPECT_EQ(blobs->blobs.size(), 2U);
}

// Bytes without an identity could be others the next time.
TEST(NpzView, ChecksumsOfUnknownBytesAreNotRemembered) {
  const auto blobs = std::make_shared<KeptBlobs>();
  auto model = std::make_shared<Model>();
  model->tensors.push_back(make_tensor("w", "uint8", {3}));
  const ModelFile file = well(npz_file(model, {}, "m", std::make_shared<Checksums>(blobs)));
  EXPECT_TRUE(end_of(file));
  EXPECT_THAT(blobs->blobs, IsEmpty());
}

TEST(NpzView, ProgressIsReported) {
  const auto checksums = std::make_shared<Checksums>(uncached_blobs());
  auto model = std::make_shared<Model>();
  const auto source = add_named(*model, "a", std::string(10, 'x'));
  std::vector<Checksums::Progress> seen;
  source->on_read = [&] { seen = checksums->running(); };
  const ModelFile file = well(npz_file(model, {}, "m: model.npz", checksums));
  EXPECT_TRUE(read_text(*file.source, 0, 30));
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].name, "m: model.npz");
  EXPECT_EQ(seen[0].size, 138U);
  EXPECT_EQ(seen[0].done, 0U);
  EXPECT_THAT(checksums->running(), IsEmpty());
}

void wait_for(const std::atomic<bool>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(condition) << "after 60 s";
}

// A table of three files.
struct Table {
  Table() {
    for (size_t i = 0; i < 3; ++i)
      sources.push_back(std::make_shared<Named>("n" + std::to_string(i), std::string(i + 1, 'x')));
  }
  uint32_t expected(size_t file) const {
    const std::string bytes(file + 1, 'x');
    return crc32(0, std::as_bytes(std::span(bytes)));
  }

  std::vector<std::shared_ptr<Named>> sources;
  std::atomic<int> keys = 0;  // calls of key()
  const ChecksumsPtr checksums = std::make_shared<Checksums>(uncached_blobs());
  ChecksumTable table{{"table", 3, 6, [this](size_t file) -> Result<SourcePtr> { return sources[file]; },
                       [this] { return ++keys, std::string("key"); }},
                      checksums};
};

TEST(NpzView, EightReadersReadEachTensorOnce) {
  Table t;
  std::vector<std::thread> readers;
  std::atomic<int> wrong = 0;
  for (size_t reader = 0; reader < 8; ++reader)
    readers.emplace_back([&, reader] {
      const auto crc = t.table.crc32_of(reader % 3);
      if (!crc || *crc != t.expected(reader % 3)) ++wrong;
    });
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
  for (const auto& source : t.sources) EXPECT_EQ(source->reads, 1U);
}

// A program that looks at the beginning of model.npz reads one tensor, not the model.
TEST(NpzView, HeaderReadsItsOwnTensorOnly) {
  Table t;
  EXPECT_EQ(well(t.table.crc32_of(1)), t.expected(1));
  EXPECT_EQ(well(t.table.crc32_of(1)), t.expected(1));
  EXPECT_EQ(t.sources[0]->reads, 0U);
  EXPECT_EQ(t.sources[1]->reads, 1U);
  EXPECT_EQ(t.sources[2]->reads, 0U);
  EXPECT_TRUE(t.table.compute_all());
  for (const auto& source : t.sources) EXPECT_EQ(source->reads, 1U);
  EXPECT_EQ(t.keys, 1);  // it names all tensors
}

// A copy needs the tensors that follow, in several threads.
TEST(NpzView, ReaderInOrderIsReadAhead) {
  Table t;
  t.sources[2]->fails = true;
  EXPECT_EQ(well(t.table.crc32_of(0)), t.expected(0));
  EXPECT_EQ(t.sources[2]->reads, 0U);
  EXPECT_EQ(well(t.table.crc32_of(1)), t.expected(1));
  EXPECT_EQ(t.sources[2]->reads, 1U);
  EXPECT_EQ(error_in(t.table.crc32_of(2)), "broken disk");
}

// The directory of a large model takes minutes.
TEST(NpzView, KnownChecksumDoesNotWaitForTheOthers) {
  Table t;
  EXPECT_EQ(well(t.table.crc32_of(0)), t.expected(0));
  std::atomic<bool> has_begun = false;
  std::atomic<bool> may_end = false;
  t.sources[2]->on_read = [&] {
    has_begun = true;
    wait_for(may_end);
  };
  std::thread directory([&] { EXPECT_TRUE(t.table.compute_all()); });
  wait_for(has_begun);
  EXPECT_EQ(well(t.table.crc32_of(0)), t.expected(0));
  may_end = true;
  directory.join();
}

// The checksums that were computed are kept for the next reader.
TEST(NpzView, ReadErrorIsReturnedAndTheNextReaderContinues) {
  Table t;
  t.sources[2]->fails = true;
  EXPECT_EQ(error_in(t.table.compute_all()), "broken disk");
  t.sources[2]->fails = false;
  EXPECT_EQ(well(t.table.crc32_of(0)), t.expected(0));
  EXPECT_EQ(well(t.table.crc32_of(2)), t.expected(2));
  EXPECT_EQ(t.sources[2]->reads, 2U);
  EXPECT_EQ(t.table.progress().done, 6U);
}

TEST(NpzView, CancelledReaderIsReplacedByOneThatWaits) {
  Table t;
  std::atomic<bool> killed = false;
  std::atomic<bool> has_begun = false;
  std::atomic<bool> may_end = false;
  t.sources[1]->on_read = [&] {
    if (has_begun.exchange(true)) return;
    wait_for(may_end);
  };
  Result<uint32_t> cancelled_result, other_result;
  std::thread cancelled([&] {
    const CancelScope scope([&] { return killed.load(); });
    cancelled_result = t.table.crc32_of(1);
  });
  wait_for(has_begun);
  std::thread other([&] { other_result = t.table.crc32_of(1); });
  // A third reader that is killed while it waits does not wait longer.
  {
    const CancelScope scope([] { return true; });
    EXPECT_EQ(error_in(t.table.crc32_of(1)), "table: cancelled");
  }
  killed = true;
  may_end = true;
  cancelled.join();
  other.join();
  EXPECT_EQ(well(other_result), t.expected(1));
  for (const auto& source : t.sources) EXPECT_LE(source->reads, 2U);
}

}  // namespace
}  // namespace weightfs::npz_view_test
