// Blobs known by digest: downloaded or read in place, and verified before they are served.
#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/cancel.h"
#include "base/files/file_source.h"
#include "base/files/unverified.h"
#include "cache/blocks/block_file.h"
#include "cache/direct_client.h"
#include "cache/external_stores.h"
#include "cache/maintenance.h"
#include "tests/cache/store_fixture.h"
#include "tests/support/http_server.h"

namespace weightfs::digest_blob_test {
namespace {

using test::describe;
using test::read;
using test::some_bytes;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr size_t kLarge = 5'000'000;

class DigestBlobTest : public test::StoreDirectory {
 protected:
  // Ignores the user's own stores.
  DigestBlobTest() {
    for (const char* name : {"HOME", "OLLAMA_MODELS", "CARTON_CACHE_DIR", "HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"})
      ::setenv(name, temporary.path("missing").c_str(), 1);
  }

  BlobStorePtr fetching_store() {
    StoreOptions options = this->options();
    options.fetching = {http(), quick()};
    return blob_store(std::move(options));
  }
  BlobStorePtr offline_store() const { return blob_store({directory, 100 << 20}); }

  StoreOptions options() {
    return {directory, 100 << 20, [this](const std::string& line) {
              const std::scoped_lock lock(mutex);
              log.push_back(line);
            }};
  }
  static http::ClientPtr http() {
    http::Options options;
    options.connect_timeout = std::chrono::seconds(2);
    options.stall_timeout = std::chrono::seconds(2);
    options.allow_private_urls = true;
    return std::make_shared<http::DirectClient>(options);
  }
  static download::RetryPolicy quick() { return {.retries = 1, .first_delay = std::chrono::milliseconds(1)}; }

  // Blocks of a download that ended early.
  uint64_t block_bytes() const { return usage_of(CacheMaintenance(directory).inventory().value()).partial_bytes; }
  store::BlockFilePtr partial_file() const {
    offline_store()->save_text("so that", "the directories are there");
    const std::string identity = store::blob_identity(sha256(bytes), bytes.size());
    std::filesystem::create_directories(directory + "/v1/blocks");
    const Descriptor top(::open((directory + "/v1").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return store::BlockFile::open(top, blocks_file(sha256(identity)), bytes.size(), identity, {}).value();
  }

  BlobRef blob_ref(std::vector<std::string> urls = {}) const {
    return {"layer", sha256(bytes), bytes.size(), std::move(urls)};
  }

  // Sends one half, and the other when the gate opens.
  std::function<void(const SeenRequest&, Wire&)> half_until(test::Gate& rest) const {
    return [this, &rest](const SeenRequest&, Wire& wire) {
      const size_t half = bytes.size() / 2;
      wire.send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", bytes.size(), bytes.substr(0, half)));
      rest.wait();
      wire.send(bytes.substr(half));
    };
  }

  std::string write(const std::string& path, std::string_view text) const {
    const std::string file = temporary.path(path);
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }
};

void wait_for_downloads(const BlobStorePtr& store) {
  EXPECT_TRUE(test::eventually([&] { return store->in_progress_status().blobs.empty(); }));
}

// Reads the whole blob from the store.
std::string read_blob(const BlobStorePtr& store, const BlobRef& ref) {
  const auto found = store->resolve(ref);
  return found ? read(*found->verified) : "error: " + found.error().message;
}

// The blocks of the first response were hashed before the last one sends them again.
TEST_F(DigestBlobTest, LaterResponseReplacesNoBlock) {
  bytes = some_bytes(kLarge);
  std::string newer = bytes;
  newer.replace(0, 1'000'000, 1'000'000, 'n');
  std::atomic<int> count = 0;
  HttpServer server([&](const SeenRequest&, Wire& wire) {
    const int request = count++;
    if (request == 1) return static_cast<void>(wire.send(answer("404 Not Found", "")));
    wire.send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.size()));
    wire.send(request == 0 ? bytes.substr(0, 2 << 20) : newer);
    if (request == 0) wire.close();
  });
  const auto store = fetching_store();
  const BlobRef ref = blob_ref({server.url("/blob")});
  read_blob(store, ref);  // may fail, because of the first responses
  EXPECT_EQ(read_blob(store, ref), describe(bytes));
  EXPECT_EQ(read_blob(offline_store(), ref), describe(bytes));
  EXPECT_THAT(log, IsEmpty());
}

// semantics 12.3
TEST_F(DigestBlobTest, LaterResponseDoesNotConfirmAnUnverifiedRead) {
  bytes = some_bytes(kLarge);
  std::atomic<int> count = 0;
  HttpServer server([&](const SeenRequest&, Wire& wire) {
    const bool is_first = count++ == 0;
    wire.send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.size()));
    wire.send(is_first ? std::string(65536, 'e') : bytes);
    if (is_first) wire.close();
  });
  const auto store = fetching_store();
  const auto blob = store->resolve(blob_ref({server.url("/blob")})).value();
  EXPECT_EQ(read(*blob.unverified, 0, 1000), describe(std::string(1000, 'e')));
  wait_for_downloads(store);
  read(*blob.unverified, 100'000, 1000);
  wait_for_downloads(store);
  EXPECT_THAT(read(*blob.verified), HasSubstr("error"));
  EXPECT_THAT(read(*blob.verified), HasSubstr("error"));
}

// semantics 12.3
TEST_F(DigestBlobTest, HeaderOfAnEarlierProcessIsNotRequestedAgain) {
  bytes = some_bytes(kLarge);
  HttpServer server([this](const SeenRequest& request, Wire& wire) { serve_file(request, wire, bytes); });
  for (int process = 0; process < 2; ++process) {
    const auto store = fetching_store();
    const auto blob = store->resolve(blob_ref({server.url("/blob")})).value();
    const SourcePtr early = blob.verified->unverified();
    ASSERT_NE(early, nullptr);
    EXPECT_EQ(read(*early, 0, 1000), describe(bytes.substr(0, 1000)));
    EXPECT_TRUE(early->prefetch({0, 10'000}));
  }
  EXPECT_EQ(server.count("GET"), 1U);
  EXPECT_THAT(blobs(), SizeIs(1)) << "the name of the server";
}

// semantics 12.3
TEST_F(DigestBlobTest, HeaderOfAnotherServerIsNotUsed) {
  bytes = some_bytes(kLarge);
  const std::string wrong(bytes.size(), 'e');
  HttpServer other([&](const SeenRequest& request, Wire& wire) { serve_file(request, wire, wrong); });
  HttpServer server([&](const SeenRequest& request, Wire& wire) { serve_file(request, wire, bytes); });
  const auto header_from = [&](const HttpServer& from) {
    const auto store = fetching_store();
    const auto blob = store->resolve(blob_ref({from.url("/blob")})).value();
    return read(*blob.verified->unverified(), 0, 1000);
  };
  EXPECT_EQ(header_from(other), describe(wrong.substr(0, 1000)));
  EXPECT_EQ(header_from(server), describe(bytes.substr(0, 1000)));
}

// semantics 12.3
TEST_F(DigestBlobTest, ForgottenReadIsNotCompared) {
  bytes = some_bytes(kLarge);
  const std::string wrong(bytes.size(), 'e');
  std::atomic<bool> is_right = false;
  HttpServer server(
      [&](const SeenRequest& request, Wire& wire) { serve_file(request, wire, is_right ? bytes : wrong); });
  const auto header_of = [&](const Source& early) { return read(early, 0, 1000); };
  EXPECT_EQ(header_of(*fetching_store()->resolve(blob_ref({server.url("/b")})).value().verified->unverified()),
            describe(wrong.substr(0, 1000)));
  is_right = true;
  for (const bool is_kept : {false, true}) {
    const auto store = fetching_store();
    const auto blob = store->resolve(blob_ref({server.url("/b")})).value();
    const SourcePtr early = blob.verified->unverified();
    ASSERT_EQ(header_of(*early), describe((is_kept ? bytes : wrong).substr(0, 1000)));
    if (!is_kept) dynamic_cast<const UnverifiedBytes&>(*early).forget();
    EXPECT_EQ(read(*blob.verified), describe(bytes));
  }
}

TEST_F(DigestBlobTest, SmallFileHasNoHeaderOfItsOwn) {
  bytes = some_bytes(256 << 10);
  EXPECT_EQ(fetching_store()->resolve(blob_ref({"http://127.0.0.1:1/b"})).value().verified->unverified(), nullptr);
}

TEST_F(DigestBlobTest, KilledReaderStartsNoDownload) {
  bytes = some_bytes(4 * kLarge);
  HttpServer server([this](const SeenRequest& request, Wire& wire) { serve_file(request, wire, bytes); });
  const auto store = fetching_store();
  const auto blob = store->resolve(blob_ref({server.url("/blob")})).value();
  read(*blob.unverified, 0, 100);
  wait_for_downloads(store);
  const size_t before = server.requests().size();
  {
    const CancelScope killed([] { return true; });
    EXPECT_THAT(read(*blob.verified, 0, 100), HasSubstr("cancelled"));
  }
  EXPECT_THAT(store->in_progress_status().blobs, IsEmpty());
  EXPECT_EQ(server.requests().size(), before);
}

TEST_F(DigestBlobTest, IsDownloadedOnceForManyReadersAndStores) {
  HttpServer server([&](const SeenRequest& request, Wire& wire) { serve_file(request, wire, bytes); });
  const auto first = fetching_store();
  const auto second = fetching_store();
  const auto one = first->resolve(blob_ref({server.url("/b")}));
  const auto other = second->resolve(blob_ref({server.url("/b")}));
  ASSERT_TRUE(one && other);
  EXPECT_THAT(server.requests(), IsEmpty());
  std::array<std::string, 6> results;
  {
    std::vector<std::thread> readers;
    for (size_t i = 0; i < results.size(); ++i)
      readers.emplace_back([&, i] { results.at(i) = read(*(i % 2 == 0 ? one : other)->verified); });
    for (auto& reader : readers) reader.join();
  }
  EXPECT_THAT(results, testing::Each(describe(bytes)));
  EXPECT_EQ(server.count("GET"), 1U);
  EXPECT_THAT(blobs(), ElementsAre(test::blob_path(bytes).substr(9)));
  EXPECT_THAT(remaining_making_files(), IsEmpty());
  EXPECT_EQ(read_blob(offline_store(), blob_ref()), describe(bytes));
}

TEST_F(DigestBlobTest, MismatchedDownloadIsDiscardedAndRetried) {
  // The server may still be sending wrong bytes after the read failed.
  const std::string wrong(bytes.size(), 'x');
  std::atomic<bool> right = false;
  HttpServer server([&](const SeenRequest& request, Wire& wire) { serve_file(request, wire, right ? bytes : wrong); });
  const auto store = fetching_store();
  EXPECT_THAT(read_blob(store, blob_ref({server.url("/b")})), HasSubstr("digest mismatch: found"));
  EXPECT_THAT(blobs(), IsEmpty());
  EXPECT_THAT(making_files(), IsEmpty());
  right = true;
  EXPECT_EQ(read_blob(store, blob_ref({server.url("/b")})), describe(bytes));
}

TEST_F(DigestBlobTest, FallsBackToNextUrlOnMismatch) {
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    serve_file(request, wire, request.target == "/right" ? bytes : std::string(bytes.size(), 'x'));
  });
  EXPECT_EQ(read_blob(fetching_store(), blob_ref({server.url("/wrong"), server.url("/right")})), describe(bytes));
  EXPECT_EQ(server.count("GET", "/wrong"), 1U);
  EXPECT_EQ(server.count("GET", "/right"), 1U);
  EXPECT_THAT(making_files(), IsEmpty());
}

TEST_F(DigestBlobTest, SizeIsQueriedOnlyWhenContainerLacksIt) {
  HttpServer server([&](const SeenRequest& request, Wire& wire) { serve_file(request, wire, bytes); });
  BlobRef unknown = blob_ref({server.url("/b")});
  unknown.size = std::nullopt;
  const auto store = fetching_store();
  const auto found = store->resolve(unknown);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->verified->size(), bytes.size());
  EXPECT_EQ(server.count("HEAD"), 1U);
  EXPECT_EQ(server.count("GET"), 0U);
  EXPECT_EQ(read(*found->verified), describe(bytes));
}

TEST_F(DigestBlobTest, UnreportedSizeIsMeasuredByDownload) {
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    if (request.method == "HEAD") return;
    std::array<char, 16> head{};
    std::snprintf(head.data(), head.size(), "%zx\r\n", bytes.size());
    wire.send(head.data() + bytes + "\r\n0\r\n\r\n");
  });
  BlobRef unknown = blob_ref({server.url("/b")});
  unknown.size = std::nullopt;
  EXPECT_EQ(read_blob(fetching_store(), unknown), describe(bytes));
  int whole = 0;
  for (const SeenRequest& request : server.requests()) whole += request.method == "GET" && !request.range() ? 1 : 0;
  EXPECT_EQ(whole, 1);
}

TEST_F(DigestBlobTest, InterruptedDownloadIsResumed) {
  bytes = some_bytes(kLarge);
  std::atomic<bool> cut = true;
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    if (!cut) return serve_file(request, wire, bytes);
    wire.send(fmt::format("HTTP/1.1 200 OK\r\nETag: \"e1\"\r\nAccept-Ranges: bytes\r\nContent-Length: {}\r\n\r\n",
                          bytes.size()));
    wire.send(std::string_view(bytes).substr(0, kLarge / 2));
    wire.close();
  });
  const auto url = server.url("/b");
  EXPECT_THAT(read_blob(fetching_store(), blob_ref({url})), HasSubstr("error: "));
  EXPECT_GT(block_bytes(), kLarge / 4);
  cut = false;
  const size_t before = server.requests().size();
  EXPECT_EQ(read_blob(fetching_store(), blob_ref({url})), describe(bytes));
  const auto requests = server.requests();
  ASSERT_THAT(requests, SizeIs(before + 1));
  ASSERT_TRUE(requests.back().range());
  EXPECT_GT(requests.back().range()->first, 0U);
  EXPECT_EQ(block_bytes(), 0U);
}

// The first blocks, as an interrupted download leaves them.
class ResumedDownload : public DigestBlobTest {
 protected:
  static constexpr size_t kLeft = 61 * store::kBlock;
  ResumedDownload() {
    bytes = some_bytes(kLarge);
    EXPECT_TRUE(partial_file()->write(0, std::as_bytes(std::span(bytes)).first(kLeft)));
  }
  uint64_t left() const { return store::BlockFile::present_bytes(partial_file()->files()); }
  // After a read with this server's response.
  uint64_t left_after(const std::function<void(const SeenRequest&, Wire&)>& handler) {
    HttpServer server(handler);
    EXPECT_THAT(read_blob(fetching_store(), blob_ref({server.url("/b")})), HasSubstr("error: "));
    return left();
  }
};

TEST_F(ResumedDownload, IsKeptWhenConnectionIsRefused) {
  EXPECT_THAT(read_blob(fetching_store(), blob_ref({"http://127.0.0.1:1/b"})), HasSubstr("error: "));
  EXPECT_EQ(left(), kLeft);
}

TEST_F(ResumedDownload, IsKeptOnServerError) {
  EXPECT_EQ(left_after([](const SeenRequest&, Wire& wire) { wire.send(answer("503 No", "")); }), kLeft);
}

TEST_F(ResumedDownload, IsKeptWhenResponseIsInvalid) {
  EXPECT_EQ(left_after([](const SeenRequest&, Wire& wire) { wire.send(answer("200 OK", "<html>log in</html>")); }),
            kLeft);
}

TEST_F(ResumedDownload, GrowsByReceivedBytes) {
  std::atomic<int> asked = 0;
  EXPECT_GT(
      left_after([&](const SeenRequest& request, Wire& wire) {
        if (asked++ > 0) return void(wire.send(answer("503 No", "")));
        const uint64_t from = request.range() ? request.range()->first : 0;
        wire.send(fmt::format("HTTP/1.1 206 Partial\r\nContent-Range: bytes {}-{}/{}\r\nContent-Length: {}\r\n\r\n",
                              from, kLarge - 1, kLarge, kLarge - from));
        wire.send(std::string_view(bytes).substr(from, 1'000'000));
        wire.close();
      }),
      kLeft);
}

TEST_F(ResumedDownload, IsKeptWhenMountEndsBeforeFirstByte) {
  test::Gate asked;
  test::Gate end;
  HttpServer server([&](const SeenRequest&, Wire&) {
    asked.open();
    end.wait();
  });
  const auto store = fetching_store();
  const auto found = store->resolve(blob_ref({server.url("/b")}));
  ASSERT_TRUE(found);
  std::thread reader([&] { EXPECT_THAT(read(*found->verified), HasSubstr("error: ")); });
  asked.wait();
  store->stop();
  reader.join();
  end.open();
  EXPECT_EQ(left(), kLeft);
}

// Its blocks are not trusted: another server may have sent them.
TEST_F(DigestBlobTest, CorruptPartialDownloadIsDiscardedAndRestarted) {
  bytes = some_bytes(kLarge);
  const std::string wrong(61 * store::kBlock, '\0');
  ASSERT_TRUE(partial_file()->write(0, std::as_bytes(std::span(wrong))));
  HttpServer server([&](const SeenRequest& request, Wire& wire) { serve_file(request, wire, bytes); });
  EXPECT_EQ(read_blob(fetching_store(), blob_ref({server.url("/b")})), describe(bytes));
  EXPECT_LE(server.count("GET"), 2U);
  EXPECT_EQ(block_bytes(), 0U);
}

TEST_F(DigestBlobTest, OfflineReadFailsWithMessage) {
  const auto store = offline_store();
  const auto found = store->resolve(blob_ref({"http://127.0.0.1:1/b"}));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::network);
  EXPECT_EQ(found.error().message, "layer: not cached, and downloads are disabled by --offline");
  EXPECT_FALSE(std::filesystem::exists(directory));
}

// A process that was started for sources without links.
TEST_F(DigestBlobTest, ReadWithoutTheNetworkSaysWhy) {
  StoreOptions options = this->options();
  options.fetching.had_no_links = true;
  const auto store = blob_store(std::move(options));
  EXPECT_EQ(read_blob(store, blob_ref({"https://localhost:1/b"})),
            "error: layer: not cached, and no source had links when the process started; start it again");
  const auto found = store->resolve(blob_ref());
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::not_found);
  EXPECT_EQ(found.error().message, "layer: not cached, and the container has no URL for it");
}

TEST_F(DigestBlobTest, UnverifiedSourceSeesBytesBeforeVerification) {
  test::Gate rest;
  HttpServer server(half_until(rest));
  const auto store = fetching_store();
  const auto found = store->resolve(blob_ref({server.url("/b")}));
  ASSERT_TRUE(found);
  EXPECT_EQ(read(*found->unverified, 10, 1000), describe(bytes.substr(10, 1000)));
  EXPECT_THAT(blobs(), IsEmpty());
  rest.open();
  EXPECT_EQ(read(*found->verified), describe(bytes));
  EXPECT_EQ(server.count("GET"), 1U);
}

TEST_F(DigestBlobTest, UnverifiedReadsOfOtherBytesFailVerifiedReads) {
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    serve_file(request, wire, request.target == "/right" ? bytes : std::string(bytes.size(), 'x'));
  });
  test::Gate rest;
  HttpServer lying([&](const SeenRequest&, Wire& wire) {
    wire.send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", bytes.size(), std::string(100'000, 'x')));
    rest.wait();
    wire.send(std::string(bytes.size() - 100'000, 'x'));
  });
  const auto store = fetching_store();
  const auto found = store->resolve(blob_ref({lying.url("/b"), server.url("/right")}));
  ASSERT_TRUE(found);
  EXPECT_EQ(read(*found->unverified, 0, 1000), describe(std::string(1000, 'x')));
  rest.open();
  EXPECT_THAT(read(*found->verified), HasSubstr("metadata read before verification does not match"));
  EXPECT_EQ(read_blob(fetching_store(), blob_ref({server.url("/right")})), describe(bytes));
}

TEST_F(DigestBlobTest, FilesOfUnreportedSizeDoNotEvictBlobs) {
  const std::string other = some_bytes(2'000'000, 7);
  StoreOptions small = options();
  small.quota = 8 << 20;
  small.fetching = {http(), quick()};
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    if (request.target == "/other") return serve_file(request, wire, other);
    wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    while (request.method == "GET" && wire.send("10000\r\n" + std::string(0x10000, 'x') + "\r\n")) {
    }
  });
  const auto store = blob_store(std::move(small));
  ASSERT_EQ(read_blob(store, {"other", sha256(other), other.size(), {server.url("/other")}}), describe(other));
  BlobRef endless = blob_ref({server.url("/endless")});
  endless.size = std::nullopt;
  EXPECT_THAT(read_blob(store, endless), HasSubstr("the size of the download is unknown"));
  store->stop();  // waits until verified blobs are published
  EXPECT_THAT(blobs(), ElementsAre(test::blob_path(other).substr(9)));
  EXPECT_LE(test::allocated_in(directory), 9U << 20);
  EXPECT_THAT(making_files(), IsEmpty());
}

// semantics 13.1
TEST_F(DigestBlobTest, BlobWhoseSizeNoServerReportsIsDownloadedOnceForIt) {
  std::atomic<int> gets = 0;
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    gets += request.method == "GET" && !request.range();
    wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    if (request.method == "GET") wire.send(fmt::format("{:x}\r\n{}\r\n0\r\n\r\n", bytes.size(), bytes));
  });
  BlobRef unsized = blob_ref({server.url("/unsized")});
  unsized.size = std::nullopt;
  const auto resolved = fetching_store()->resolve(unsized);
  ASSERT_TRUE(resolved);
  EXPECT_EQ(resolved->verified->size(), bytes.size());
  EXPECT_EQ(gets, 1);
  EXPECT_EQ(read_blob(fetching_store(), unsized), describe(bytes)) << "it is cached";
  EXPECT_EQ(gets, 1);
}

// semantics 12.5
TEST_F(DigestBlobTest, OthersWritableFileIsServedFromCacheCopy) {
  bytes = some_bytes(kLarge);
  const std::string path = write("theirs/sha256-" + sha256(bytes).hex(), bytes);
  ASSERT_EQ(::chmod(path.c_str(), 0646), 0);
  StoreOptions options = this->options();
  options.blob_directories = {temporary.path("theirs")};
  const auto store = blob_store(options);
  const auto found = store->resolve(blob_ref());
  ASSERT_TRUE(found);
  EXPECT_EQ(read(*found->verified, 10, 100), describe(bytes.substr(10, 100)));
  EXPECT_THAT(blobs(), ElementsAre(test::blob_path(bytes).substr(9)));
  std::ofstream(path, std::ios::binary) << std::string(kLarge, 'x');
  EXPECT_EQ(read(*found->verified), describe(bytes));
  EXPECT_EQ(read_blob(blob_store(options), blob_ref()), describe(bytes));
  std::filesystem::remove_all(directory);  // the cache; open files keep working
  EXPECT_THAT(read_blob(blob_store(options), blob_ref()), HasSubstr("digest mismatch: found"));
  EXPECT_THAT(blobs(), IsEmpty());
  EXPECT_THAT(making_files(), IsEmpty());
}

TEST_F(DigestBlobTest, OthersWritableFileIsServedFromTempFileWithoutCache) {
  const std::string path = write("theirs/sha256-" + sha256(bytes).hex(), bytes);
  ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  StoreOptions options = this->options();
  options.directory = "";
  options.blob_directories = {temporary.path("theirs")};
  const auto store = blob_store(std::move(options));
  const auto found = store->resolve(blob_ref());
  ASSERT_TRUE(found);
  EXPECT_EQ(read(*found->verified, 10, 100), describe(bytes.substr(10, 100)));
  std::ofstream(path, std::ios::binary) << std::string(bytes.size(), 'x');
  EXPECT_EQ(read(*found->verified), describe(bytes));
}

TEST_F(DigestBlobTest, OthersWritableFileThatExceedsCacheIsNotServed) {
  bytes = some_bytes(kLarge);
  const std::string path = write("theirs/sha256-" + sha256(bytes).hex(), bytes);
  ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  StoreOptions options = this->options();
  options.quota = 1 << 20;
  options.blob_directories = {temporary.path("theirs")};
  EXPECT_THAT(read_blob(blob_store(std::move(options)), blob_ref()), HasSubstr("writable by other users"));
}

// Neither change alters the size or the mtime.
TEST_F(DigestBlobTest, ModifiedFileInExternalStoreIsVerifiedAgain) {
  bytes = some_bytes(kLarge);
  const std::string path = write("theirs/sha256-" + sha256(bytes).hex(), bytes);
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), old, 0), 0);
  StoreOptions options = this->options();
  options.blob_directories = {temporary.path("theirs")};
  const auto store = blob_store(std::move(options));
  const auto found = store->resolve(blob_ref());
  ASSERT_TRUE(found);
  EXPECT_EQ(read(*found->verified), describe(bytes));
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), old, 0), 0);
  EXPECT_EQ(read(*found->verified), describe(bytes));
  EXPECT_THAT(log, IsEmpty());
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << "x" << std::flush;
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), old, 0), 0);
  EXPECT_THAT(read(*found->verified, 100, 10), HasSubstr("digest mismatch: found"));
}

TEST_F(DigestBlobTest, MatchingFileIsFoundAfterMismatchedOne) {
  bytes = some_bytes(kLarge);
  write("wrong/sha256-" + sha256(bytes).hex(), std::string(kLarge, 'x'));
  write("right/sha256-" + sha256(bytes).hex(), bytes);
  for (int mount = 0; mount < 2; ++mount) {
    StoreOptions options = this->options();
    options.blob_directories = {temporary.path("wrong"), temporary.path("right")};
    const auto store = blob_store(std::move(options));
    const auto found = store->resolve(blob_ref());
    ASSERT_TRUE(found);
    if (mount > 0) {
      EXPECT_EQ(read(*found->unverified, 0, 100), describe(bytes.substr(0, 100)));
    }
    EXPECT_EQ(read(*found->verified), describe(bytes));
  }
}

TEST_F(DigestBlobTest, ChangedExternalFileIsReplacedByAnotherCopy) {
  bytes = some_bytes(kLarge);
  const std::string path = write("theirs/" + sha256(bytes).hex(), bytes);
  StoreOptions options = this->options();
  options.blob_directories = {temporary.path("theirs"), temporary.path("others")};
  const auto store = blob_store(std::move(options));
  const auto found = store->resolve(blob_ref());
  ASSERT_TRUE(found);
  EXPECT_EQ(read(*found->verified), describe(bytes));
  write("others/" + sha256(bytes).hex(), bytes);
  std::filesystem::remove(path);
  write("theirs/" + sha256(bytes).hex(), std::string(kLarge, 'x'));
  EXPECT_EQ(read(*found->verified), describe(bytes));
}

TEST_F(DigestBlobTest, FileInExternalStoreIsReadInPlace) {
  bytes = some_bytes(kLarge);
  StoreOptions options = this->options();
  options.blob_directories = {temporary.path("theirs")};
  write("theirs/sha256-" + sha256(bytes).hex(), bytes);
  const auto store = blob_store(std::move(options));
  EXPECT_TRUE(store->is_local(blob_ref()));
  EXPECT_EQ(read_blob(store, blob_ref()), describe(bytes));
  EXPECT_THAT(blobs(), IsEmpty());
  EXPECT_THAT(test::files_in(temporary.path("theirs")), SizeIs(1));
}

TEST_F(DigestBlobTest, MismatchedFileInExternalStoreIsReportedAndNotServed) {
  StoreOptions options = this->options();
  options.blob_directories = {temporary.path("theirs")};
  const std::string path = write("theirs/sha256-" + sha256(bytes).hex(), std::string(bytes.size(), '\0'));
  const auto store = blob_store(std::move(options));
  EXPECT_THAT(read_blob(store, blob_ref()), HasSubstr("error: " + path + ": digest mismatch: found"));
  EXPECT_THAT(log, ElementsAre(HasSubstr(path)));
}

TEST_F(DigestBlobTest, FileOfWrongSizeIsReportedAndNotServed) {
  StoreOptions options = this->options();
  options.blob_directories = {temporary.path("theirs")};
  const std::string path = write("theirs/sha256-" + sha256(bytes).hex(), bytes.substr(1));
  const auto store = blob_store(std::move(options));
  EXPECT_FALSE(store->is_local(blob_ref()));
  EXPECT_EQ(read_blob(store, blob_ref()), "error: layer: not cached, and downloads are disabled by --offline");
  EXPECT_THAT(log, ElementsAre(HasSubstr(path)));
}

// Hashing many gigabytes takes minutes, and must happen once.
TEST_F(DigestBlobTest, VerificationIsCachedUntilFileChanges) {
  bytes = some_bytes(kLarge);
  const std::string path = write("here", bytes);
  BlobRef here = blob_ref();
  size_t reads = 0;
  class Counted final : public Source {
   public:
    Counted(SourcePtr source, size_t& reads) : source_(std::move(source)), reads_(reads) {}
    uint64_t size() const override { return source_->size(); }
    std::string identity() const override { return source_->identity(); }
    Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
      reads_ += out.size();
      return source_->read(offset, out);
    }

   private:
    SourcePtr source_;
    size_t& reads_;
  };
  here.local_copy = [&]() -> Result<SourcePtr> { return std::make_shared<Counted>(TRY(open_file(path)), reads); };
  const auto read_a_bit = [&] {
    const auto store = offline_store();
    return read(*store->resolve(here)->verified, 7, 100);
  };
  EXPECT_EQ(read_a_bit(), describe(bytes.substr(7, 100)));
  EXPECT_GE(reads, kLarge);
  reads = 0;
  EXPECT_EQ(read_a_bit(), describe(bytes.substr(7, 100)));
  EXPECT_EQ(reads, 100U);
  std::filesystem::remove(path);
  write("here", std::string(kLarge, 'x'));
  EXPECT_THAT(read_a_bit(), HasSubstr("digest mismatch: found"));
}

TEST_F(DigestBlobTest, StatusReportsDownloadsAndHits) {
  HttpServer server([&](const SeenRequest& request, Wire& wire) { serve_file(request, wire, bytes); });
  const auto store = fetching_store();
  const auto found = store->resolve(blob_ref({server.url("/b?secret=1")}));
  ASSERT_TRUE(found);
  auto status = store->status();
  ASSERT_THAT(status.blobs, SizeIs(1));
  EXPECT_EQ(status.blobs[0].name, "layer");
  EXPECT_EQ(status.blobs[0].fetched, 0U);
  EXPECT_FALSE(status.blobs[0].verified);
  EXPECT_EQ(read(*found->verified), describe(bytes));
  EXPECT_EQ(read(*found->verified), describe(bytes));
  status = store->status();
  EXPECT_EQ(status.blobs[0].fetched, bytes.size());
  EXPECT_TRUE(status.blobs[0].verified);
  EXPECT_EQ(status.blobs[0].from, server.url("/b"));
  EXPECT_EQ(status.misses, 1U);
  EXPECT_EQ(status.hits, 0U);
  EXPECT_EQ(status.bytes_fetched, bytes.size());
  store->stop();  // waits until verified blobs are published
  const auto later = fetching_store();
  EXPECT_EQ(read_blob(later, blob_ref()), describe(bytes));
  EXPECT_EQ(later->status().hits, 1U);
  EXPECT_EQ(later->status().misses, 0U);
}

TEST_F(DigestBlobTest, InProgressStatusReportsProgress) {
  test::Gate rest;
  HttpServer server(half_until(rest));
  const auto store = fetching_store();
  const auto idle = store->resolve({"idle", sha256("x"), 1, {server.url("/idle")}});
  const auto found = store->resolve(blob_ref({server.url("/b")}));
  ASSERT_TRUE(idle && found);
  EXPECT_THAT(store->in_progress_status().blobs, IsEmpty());
  std::thread reader([&] { EXPECT_EQ(read(*found->verified), describe(bytes)); });
  EXPECT_EQ(read(*found->unverified, 10, 1000), describe(bytes.substr(10, 1000)));
  StoreStatus running;
  while (running.blobs.empty() || running.blobs[0].fetched < 1010) running = store->in_progress_status();
  rest.open();
  reader.join();
  ASSERT_THAT(running.blobs, SizeIs(1));
  EXPECT_EQ(running.blobs[0].name, "layer");
  EXPECT_FALSE(running.blobs[0].verified);
  EXPECT_LT(running.blobs[0].fetched, bytes.size());
  EXPECT_GE(running.bytes_fetched, 1010U);
  EXPECT_THAT(store->status().blobs, SizeIs(2));
  EXPECT_THAT(store->in_progress_status().blobs, testing::Each(testing::Field(&StoreStatus::Blob::verified, true)));
  EXPECT_EQ(store->in_progress_status().bytes_fetched, bytes.size());
}

TEST_F(DigestBlobTest, TextIsReplacedUnderSameKey) {
  offline_store()->save_text("tag", "first");
  EXPECT_EQ(offline_store()->load_text("tag"), "first");
  offline_store()->save_text("tag", "second");
  EXPECT_EQ(offline_store()->load_text("tag"), "second");
  EXPECT_EQ(offline_store()->load_text("other"), std::nullopt);
}

TEST_F(DigestBlobTest, HangingServerIsAbandonedWhenStoreStops) {
  test::Gate asked;
  test::Gate end;
  HttpServer server([&](const SeenRequest&, Wire& wire) {
    wire.send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.size()));
    asked.open();
    end.wait();
  });
  const auto store = fetching_store();
  const auto found = store->resolve(blob_ref({server.url("/b")}));
  ASSERT_TRUE(found);
  std::string result;
  std::thread reader([&] { result = read(*found->verified); });
  asked.wait();
  store->stop();
  reader.join();
  EXPECT_THAT(result, HasSubstr("error: "));
  end.open();
}

}  // namespace
}  // namespace weightfs::digest_blob_test
