// Passthrough against a fake kernel: requests and replies of fuse(4) over a socket.
#include "fs/fuse/passthrough.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "base/files/leaf.h"
#include "base/os/descriptor.h"
#include "base/os/tmpfile.h"
#include "fs/fuse/attached_device.h"
#include "fs/fuse/operations.h"
#include "fs/fuse/rings.h"
#include "tests/support/eventually.h"

namespace weightfs::passthrough_test {
namespace {

using namespace fuse;
using testing::ElementsAre;

constexpr uint32_t kInitPassthrough = 1U << 5;  // in flags2
constexpr uint32_t kOpenPassthrough = 1U << 7;
constexpr size_t kMaxStackDepthOffset = 36;
constexpr uint32_t kBackingId = 7;

Descriptor file_with(const std::string& bytes) {
  Descriptor file(open_tmpfile("/tmp"));
  EXPECT_EQ(::write(file.number(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return file;
}

// A source that is a file, or says why not.
class FakeSource final : public Leaf {
 public:
  uint64_t size() const override { return 5; }
  Result<size_t> read(uint64_t, std::span<std::byte>) const override { return failure(Code::io, "is not read"); }
  Result<Descriptor> open_whole_file() const override {
    if (error) return failure(*error);
    return file_with(bytes);
  }

  std::string bytes = "bytes";
  std::optional<Error> error;
};

// Records what is registered.
class FakeBackingFiles final : public BackingFiles {
 public:
  struct Record {
    std::vector<uint32_t> open;
    size_t opened = 0;
    std::optional<Error> error;
  };
  explicit FakeBackingFiles(Record& record) : record_(record) {}

  Result<void> start(int) override { return {}; }
  Result<uint32_t> open(int) override {
    if (record_.error) return failure(*record_.error);
    record_.open.push_back(kBackingId + static_cast<uint32_t>(record_.opened++));
    return record_.open.back();
  }
  void close(uint32_t id) override { std::erase(record_.open, id); }
  void stop() override {}

 private:
  Record& record_;
};

struct Destroy {
  void operator()(fuse_session* session) const { fuse_session_destroy(session); }
};

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

template <class T>
T value_in(const std::string& bytes, size_t offset = 0) {
  T value{};
  EXPECT_GE(bytes.size(), offset + sizeof value);
  if (bytes.size() >= offset + sizeof value) std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

class PassthroughTest : public testing::Test {
 protected:
  PassthroughTest() {
    params_.passthrough = &passthrough_;
    params_.rings = &rings_;
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    kernel_ = Descriptor(ends[0]);
    fuse_args arguments = FUSE_ARGS_INIT(0, nullptr);
    fuse_opt_add_arg(&arguments, "test");
    const fuse_lowlevel_ops ops = operations();
    session_.reset(fuse_session_new(&arguments, &ops, sizeof ops, &server_));
    fuse_opt_free_args(&arguments);
    EXPECT_EQ(attach_device(session_.get(), passthrough_, ends[1]), 0);
  }

  // The reply without its header.
  struct Reply {
    int error;
    std::string body;
  };
  Reply request(uint32_t opcode, uint64_t ino, const std::string& body) {
    fuse_in_header header{};
    header.len = static_cast<uint32_t>(sizeof header + body.size());
    header.opcode = opcode;
    header.unique = ++unique_;
    header.nodeid = ino;
    const std::string bytes = bytes_of(header) + body;
    EXPECT_EQ(::send(kernel_.number(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    fuse_buf buffer{};
    EXPECT_GT(fuse_session_receive_buf(session_.get(), &buffer), 0);
    fuse_session_process_buf(session_.get(), &buffer);
    std::free(buffer.mem);
    std::string reply(4096, '\0');
    const ssize_t got = ::recv(kernel_.number(), reply.data(), reply.size(), MSG_DONTWAIT);
    EXPECT_GE(got, static_cast<ssize_t>(sizeof(fuse_out_header)));
    reply.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    EXPECT_EQ(value_in<fuse_out_header>(reply).len, reply.size());
    return {value_in<fuse_out_header>(reply).error, reply.substr(sizeof(fuse_out_header))};
  }

  std::string init(uint32_t flags2) {
    fuse_init_in in{};
    in.major = FUSE_KERNEL_VERSION;
    in.minor = FUSE_KERNEL_MINOR_VERSION;
    in.max_readahead = 1 << 17;
    in.flags = FUSE_INIT_EXT | FUSE_MAX_PAGES | FUSE_ASYNC_READ;
    in.flags2 = flags2;
    return request(FUSE_INIT, 0, bytes_of(in)).body;
  }

  Reply open() { return request(FUSE_OPEN, ino_, bytes_of(fuse_open_in{O_RDONLY, 0})); }
  void release(const Reply& opened) {
    fuse_release_in in{};
    in.fh = value_in<fuse_open_out>(opened.body).fh;
    EXPECT_EQ(request(FUSE_RELEASE, ino_, bytes_of(in)).error, 0);
  }
  static uint32_t flags_of(const Reply& opened) { return value_in<fuse_open_out>(opened.body).open_flags; }
  static uint32_t backing_id_of(const Reply& opened) { return value_in<uint32_t>(opened.body, 12); }

  static TreePtr tree_of(SourcePtr source) {
    TreeBuilder builder(nullptr);
    builder.add_file("file", Later<SourcePtr>::of(std::move(source)));
    return std::move(builder).freeze();
  }

  std::shared_ptr<FakeSource> source_ = std::make_shared<FakeSource>();
  FakeBackingFiles::Record record_;
  Passthrough passthrough_{std::make_unique<FakeBackingFiles>(record_)};
  Forest forest_{tree_of(source_)};
  Ino ino_ = forest_.lookup(Forest::kRoot, "file").value();
  RequestStatistics statistics_{kOperationNames};
  Rings rings_{"none in tests"};
  SessionParams params_;
  Server server_{forest_, statistics_, params_};
  Descriptor kernel_;
  std::unique_ptr<fuse_session, Destroy> session_;
  uint64_t unique_ = 0;
};

TEST_F(PassthroughTest, InitReplyRequestsOfferedFeature) {
  const std::string reply = init(kInitPassthrough);
  const auto out = value_in<fuse_init_out>(reply);
  EXPECT_NE(out.flags & FUSE_INIT_EXT, 0U);
  EXPECT_EQ(out.flags2, kInitPassthrough);
  EXPECT_EQ(value_in<uint32_t>(reply, kMaxStackDepthOffset), 1U);
  EXPECT_NE(out.flags & FUSE_ASYNC_READ, 0U) << "the rest is libfuse's";
  EXPECT_EQ(passthrough_.unavailable(), "");
}

TEST_F(PassthroughTest, KernelWithoutItGetsThePlainReply) {
  const std::string reply = init(0);
  EXPECT_EQ(value_in<fuse_init_out>(reply).flags2, 0U);
  EXPECT_EQ(value_in<uint32_t>(reply, kMaxStackDepthOffset), 0U);
  const Reply opened = open();
  EXPECT_EQ(flags_of(opened) & kOpenPassthrough, 0U);
  ASSERT_EQ(passthrough_.open_files(9).size(), 1U);
  EXPECT_EQ(passthrough_.open_files(9)[0].tier.reason, "kernel without passthrough");
  EXPECT_EQ(record_.opened, 0U);
}

TEST_F(PassthroughTest, OpenReplyHasBackingIdAndKeepsNoPages) {
  init(kInitPassthrough);
  const Reply opened = open();
  EXPECT_EQ(opened.error, 0);
  EXPECT_EQ(opened.body.size(), sizeof(fuse_open_out));
  EXPECT_EQ(flags_of(opened), kOpenPassthrough | FOPEN_NOFLUSH);
  EXPECT_EQ(backing_id_of(opened), kBackingId);
  EXPECT_EQ(passthrough_.passthrough_opens(), 1U);
}

TEST_F(PassthroughTest, OpenFilesOfAnInodeShareOneBackingFileUntilTheLastCloses) {
  init(kInitPassthrough);
  const Reply first = open();
  const Reply second = open();
  EXPECT_EQ(backing_id_of(second), kBackingId);
  release(first);
  EXPECT_THAT(record_.open, ElementsAre(kBackingId));
  source_->error = Error{Code::unsupported, "evicted"};
  const Reply third = open();
  EXPECT_EQ(backing_id_of(third), kBackingId) << "the kernel does not permit two tiers of one inode";
  release(second);
  release(third);
  EXPECT_TRUE(record_.open.empty());
  EXPECT_TRUE(passthrough_.open_files(9).empty());
  EXPECT_EQ(flags_of(open()) & kOpenPassthrough, 0U) << "chosen again";
}

TEST_F(PassthroughTest, FileStaysWithServerWhileItIsOpen) {
  init(kInitPassthrough);
  source_->error = Error{Code::unsupported, "not cached"};
  const Reply first = open();
  source_->error.reset();
  const Reply second = open();
  EXPECT_EQ(flags_of(first) & kOpenPassthrough, 0U);
  EXPECT_EQ(flags_of(second) & kOpenPassthrough, 0U);
  release(first);
  release(second);
  EXPECT_EQ(flags_of(open()) & kOpenPassthrough, kOpenPassthrough);
}

TEST_F(PassthroughTest, ChangedFileCannotBeOpenedAgain) {
  init(kInitPassthrough);
  const Reply first = open();
  source_->error = Error{Code::io, "changed"};
  EXPECT_EQ(open().error, -EIO);
  release(first);
  EXPECT_TRUE(record_.open.empty());
}

TEST_F(PassthroughTest, FileOfAnotherSizeDoesNotPass) {
  init(kInitPassthrough);
  source_->bytes = "more bytes";
  EXPECT_EQ(flags_of(open()) & kOpenPassthrough, 0U);
  EXPECT_EQ(passthrough_.open_files(9).at(0).tier.reason, "part of a larger file");
}

TEST_F(PassthroughTest, RefusalOfTheKernelIsTheReason) {
  init(kInitPassthrough);
  record_.error = Error{Code::unsupported, "needs CAP_SYS_ADMIN"};
  EXPECT_EQ(flags_of(open()) & kOpenPassthrough, 0U);
  EXPECT_EQ(passthrough_.open_files(9).at(0).tier.reason, "needs CAP_SYS_ADMIN");
  EXPECT_THAT(passthrough_.server_opens(), ElementsAre(testing::Pair("needs CAP_SYS_ADMIN", 1U)));
}

TEST_F(PassthroughTest, ConcurrentOpensAgree) {
  init(kInitPassthrough);
  std::vector<Passthrough::OpenInodePtr> inodes(8);
  std::vector<std::thread> threads;
  for (auto& inode : inodes) threads.emplace_back([&] { inode = passthrough_.open(ino_, *source_).value(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& inode : inodes) EXPECT_EQ(inode, inodes[0]);
  EXPECT_EQ(record_.opened, 1U);
  inodes.clear();
  EXPECT_TRUE(record_.open.empty());
}

TEST_F(PassthroughTest, FileThatPassesHasNoFirstOpenAtTheServer) {
  init(kInitPassthrough);
  int calls = 0;
  const auto inode = passthrough_.open(ino_, *source_, [&] { ++calls; });
  EXPECT_TRUE(inode.has_value());
  EXPECT_EQ(calls, 0);
}

TEST(Passthrough, FirstOpenOfAnInodeIsAnnouncedOnce) {
  Passthrough passthrough(nullptr, "off");
  const FakeSource source;
  int calls = 0;
  const auto count = [&] { ++calls; };
  auto first = passthrough.open(1, source, count).value();
  auto second = passthrough.open(1, source, count).value();
  EXPECT_EQ(calls, 1);
  first.reset();
  EXPECT_TRUE(passthrough.open(1, source, count).has_value());
  EXPECT_EQ(calls, 1) << "the second is open";
  second.reset();
  EXPECT_TRUE(passthrough.open(1, source, count).has_value());
  EXPECT_EQ(calls, 2);
}

// A reply to an open file would permit reads, whose pages the first one waits for.
TEST(Passthrough, OtherOpensOfAnInodeWaitForTheFirst) {
  Passthrough passthrough(nullptr, "off");
  const FakeSource source;
  std::promise<void> begun, finished;
  std::atomic<bool> is_second_open = false;
  Passthrough::OpenInodePtr inode;
  std::thread first([&] {
    inode = passthrough
                .open(1, source,
                      [&] {
                        begun.set_value();
                        finished.get_future().wait();
                      })
                .value();
  });
  begun.get_future().wait();
  std::thread second([&] { is_second_open = passthrough.open(1, source).has_value(); });
  EXPECT_TRUE(passthrough.open(2, source).has_value()) << "another inode does not wait";
  EXPECT_FALSE(test::eventually([&] { return is_second_open.load(); }, std::chrono::milliseconds(50)));
  finished.set_value();
  first.join();
  second.join();
  EXPECT_TRUE(is_second_open);
}

TEST(Passthrough, WithoutBackingFilesTheReasonIsTheGivenOne) {
  Passthrough passthrough(nullptr, "--passthrough=off");
  const FakeSource source;
  const auto inode = passthrough.open(2, source).value();
  EXPECT_EQ(Passthrough::tier(*inode).backing_id, 0U);
  EXPECT_EQ(Passthrough::tier(*inode).reason, "--passthrough=off");
  EXPECT_STREQ(Passthrough::tier(*inode).name(), "server");
}

}  // namespace
}  // namespace weightfs::passthrough_test
