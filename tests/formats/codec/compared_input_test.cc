// Compressed bytes that are compared with a stated digest while they are decoded.
#include "formats/codec/compared_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "formats/codec/codec.h"
#include "tests/support/compressed.h"
#include "tests/support/model_text.h"

namespace weightfs::compared_input_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view kText = "the bytes of a file, stored as gzip";

// All bytes of a stream, then the error.
std::string all_of(Result<StreamPtr> stream) {
  std::string text;
  std::array<char, 7> buffer;
  while (stream) {
    const auto got = (*stream)->next(std::as_writable_bytes(std::span(buffer)));
    if (!got) return text + ", then " + got.error().message;
    if (*got == 0) return text;
    text.append(buffer.data(), *got);
  }
  return "error: " + stream.error().message;
}

// A source whose bytes a store compares in prefetch().
class StoredInput final : public Source {
 public:
  explicit StoredInput(std::string bytes, bool is_wrong = false) : bytes_(std::move(bytes)), is_wrong_(is_wrong) {}
  uint64_t size() const override { return bytes_.size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const size_t got = bytes_inside(size(), offset, out.size());
    if (got > 0) std::memcpy(out.data(), bytes_.data() + offset, got);
    return got;
  }
  Result<void> prefetch(ByteRange range) const override {
    prefetched += range.to - range.from;
    if (is_wrong_) return failure(Code::mismatch, "the server sent other bytes");
    return {};
  }
  Result<CachedBytes> cached(ByteRange range) const override { return CachedBytes{range.to - range.from, 0}; }

  mutable uint64_t prefetched = 0;

 private:
  std::string bytes_;
  bool is_wrong_;
};

TEST(ComparedInput, EndsAfterTheDigestMatched) {
  int matches = 0;
  const std::string stored = gzip_stored(kText);
  EXPECT_EQ(all_of(codec::compare_input(in_memory(stored), sha256(stored), codec::gunzip_stream, [&] { ++matches; })),
            kText);
  EXPECT_EQ(matches, 1);
}

// The data are right for gzip: only the digest tells.
TEST(ComparedInput, OtherBytesFailBeforeTheEnd) {
  int matches = 0;
  const auto stream = [&] {
    return codec::compare_input(in_memory(gzip_stored(kText)), sha256("other"), codec::gunzip_stream,
                                [&] { ++matches; });
  };
  EXPECT_THAT(all_of(stream()), HasSubstr("then digest mismatch: found "));
  EXPECT_EQ(matches, 0);
}

// A decoder ignores them, the digest does not.
TEST(ComparedInput, ComparesBytesAfterTheCompressedData) {
  const std::string stored = gzip_stored(kText);
  const auto decoded = [](const std::string& bytes, const std::string& stated) {
    return all_of(codec::compare_input(in_memory(bytes), sha256(stated), codec::gunzip_stream));
  };
  EXPECT_EQ(decoded(stored + "padding", stored + "padding"), kText);
  EXPECT_THAT(decoded(stored + "pAdding", stored + "padding"), HasSubstr("digest mismatch"));
  EXPECT_THAT(decoded(stored + "padding", stored), HasSubstr("digest mismatch"));
}

TEST(ComparedInput, DoesNotReadAnyNumberOfBytesAfterTheCompressedData) {
  const std::string stored = gzip_stored(kText) + std::string(2 << 20, 'x');
  EXPECT_THAT(all_of(codec::compare_input(in_memory(stored), sha256(stored), codec::gunzip_stream)),
              HasSubstr("bytes follow the compressed data"));
  const auto wrong = std::make_shared<StoredInput>(stored, true);  // of a server: the store drops them
  EXPECT_THAT(all_of(codec::compare_input(wrong, sha256("right"), codec::gunzip_stream)),
              HasSubstr("the server sent other bytes"));
  EXPECT_EQ(wrong->prefetched, stored.size());
}

// The store drops the bytes then.
TEST(ComparedInput, AfterBrokenDataTheWholeInputIsCompared) {
  std::string stored = gzip_stored(kText);
  stored[15] = static_cast<char>(stored[15] ^ 1);
  const auto wrong = std::make_shared<StoredInput>(stored, true);
  EXPECT_THAT(all_of(codec::compare_input(wrong, sha256("right"), codec::gunzip_stream)),
              HasSubstr("the server sent other bytes"));
  EXPECT_EQ(wrong->prefetched, stored.size());
  const auto broken = std::make_shared<StoredInput>(stored);
  EXPECT_THAT(all_of(codec::compare_input(broken, sha256(stored), codec::gunzip_stream)), HasSubstr("gzip"));
  EXPECT_EQ(broken->prefetched, stored.size());
}

// Keeps what it decodes, if it is to.
class KeepingBlobs final : public Blobs {
 public:
  explicit KeepingBlobs(bool keeps) : keeps_(keeps) {}
  SourcePtr blob(BlobProducer producer) override { return uncached_blobs()->blob(std::move(producer)); }
  Result<SourcePtr> materialize(BlobProducer producer) override {
    if (is_decoded(producer)) return in_memory(kept_.at(0));
    std::string text = all_of(producer.start());
    if (text.find("mismatch") != text.npos) return failure(Code::mismatch, text);
    if (keeps_) kept_ = {text}, key_ = producer.key;
    return in_memory(std::move(text));
  }
  bool is_decoded(const BlobProducer& producer) override { return !kept_.empty() && producer.key == key_; }
  void release(const Digest& blob) override { released.push_back(blob.hex()); }

  std::vector<std::string> released;

 private:
  const bool keeps_;
  std::string key_;
  std::vector<std::string> kept_;
};

Result<SourcePtr> materialized(Blobs& blobs, const std::string& stored, const Digest& digest) {
  BlobProducer producer;
  producer.key = codec::key_of_decoded(digest, "gzip");
  return codec::materialize_compared(blobs, std::move(producer), std::make_shared<StoredInput>(stored), digest,
                                     codec::gunzip_stream);
}

TEST(ComparedInput, IsReleasedOnceWhenItsDecodedFormIsCached) {
  KeepingBlobs blobs(true);
  const std::string stored = gzip_stored(kText);
  const Digest digest = sha256(stored);
  EXPECT_EQ(text_of(*materialized(blobs, stored, digest).value()), kText);
  EXPECT_EQ(text_of(*materialized(blobs, stored, digest).value()), kText);
  EXPECT_THAT(blobs.released, ElementsAre(digest.hex()));
}

TEST(ComparedInput, IsKeptWhenItsDecodedFormIsNotCachedOrDoesNotMatch) {
  KeepingBlobs forgetful(false), blobs(true);
  const std::string stored = gzip_stored(kText);
  EXPECT_EQ(text_of(*materialized(forgetful, stored, sha256(stored)).value()), kText);
  EXPECT_FALSE(materialized(blobs, stored, sha256("other")));
  EXPECT_THAT(forgetful.released, IsEmpty());
  EXPECT_THAT(blobs.released, IsEmpty());
}

}  // namespace
}  // namespace weightfs::compared_input_test
