#include "base/os/unix_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>

namespace weightfs::unix_socket_test {
namespace {

struct Pair {
  explicit Pair(int type) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()), 0);
    near = Descriptor(ends[0]);
    far = Descriptor(ends[1]);
  }
  Descriptor near, far;
};

bool is_same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

class UnixSocket : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Types, UnixSocket, testing::Values(SOCK_SEQPACKET, SOCK_STREAM));

TEST_P(UnixSocket, DescriptorArrivesWithItsBytes) {
  const Pair pair(GetParam());
  const Descriptor file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(send_message(pair.near.number(), "with a file", file.number()));
  const SocketMessage received = receive_message(pair.far.number(), 100);
  EXPECT_EQ(received.bytes, "with a file");
  ASSERT_TRUE(received.descriptor);
  EXPECT_NE(received.descriptor.number(), file.number());
  EXPECT_TRUE(is_same_file(received.descriptor.number(), file.number()));
  EXPECT_EQ(::fcntl(received.descriptor.number(), F_GETFD), FD_CLOEXEC);
}

TEST_P(UnixSocket, MessageWithoutDescriptorHasNone) {
  const Pair pair(GetParam());
  ASSERT_TRUE(send_message(pair.near.number(), "alone"));
  const SocketMessage received = receive_message(pair.far.number(), 100);
  EXPECT_EQ(received.bytes, "alone");
  EXPECT_FALSE(received.descriptor);
}

TEST_P(UnixSocket, ClosedEndIsAnEmptyMessageAndNotASignal) {
  Pair pair(GetParam());
  pair.far = Descriptor();
  EXPECT_EQ(receive_message(pair.near.number(), 100).bytes, "");
  EXPECT_FALSE(send_message(pair.near.number(), "late"));
}

// The kernel closes those that do not fit.
TEST_P(UnixSocket, OnlyOneOfSeveralDescriptorsIsReceived) {
  const Pair pair(GetParam());
  const std::array<int, 2> two = {STDIN_FILENO, pair.near.number()};
  std::array<char, 1> byte = {'x'};
  iovec part{byte.data(), byte.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof two)> space{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  cmsghdr* const control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof two);
  std::memcpy(CMSG_DATA(control), two.data(), sizeof two);
  ASSERT_EQ(::sendmsg(pair.near.number(), &message, MSG_NOSIGNAL), 1);
  const int lowest = ::dup(STDIN_FILENO);  // the kernel uses the lowest free numbers
  ::close(lowest);
  const SocketMessage received = receive_message(pair.far.number(), 1);
  EXPECT_EQ(received.descriptor.number(), lowest);
  const Descriptor after(::dup(STDIN_FILENO));
  EXPECT_EQ(after.number(), lowest + 1);
}

TEST(UnixAddress, TooLongPathIsRefused) {
  const std::string longest(sizeof(sockaddr_un::sun_path) - 1, 'p');
  EXPECT_EQ(std::string(unix_address(longest)->sun_path), longest);
  EXPECT_EQ(unix_address(longest + "p").error().message, longest + "p: path too long for a socket");
}

}  // namespace
}  // namespace weightfs::unix_socket_test
