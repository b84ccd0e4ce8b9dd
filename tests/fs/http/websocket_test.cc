#include "fs/http/protocol/websocket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weightfs::websocket_test {
namespace {

using namespace httpd;

constexpr size_t kMost = 100'000;

Request asked(std::vector<Field> changed = {}) {
  Request request{.method = "GET", .target = "/"};
  request.fields = {{"upgrade", "websocket"},
                    {"connection", "keep-alive, Upgrade"},
                    {"sec-websocket-version", "13"},
                    {"sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="},
                    {"origin", "http://127.0.0.1"}};
  for (const Field& each : changed)
    for (Field& field : request.fields)
      if (field.name == each.name) field.value = each.value;
  return request;
}

int status_of(const Request& request) {
  const auto response = accept_websocket(request);
  return response ? response->status : response.error().status;
}

// A frame of a client. RFC 6455, section 5.3.
std::string masked(unsigned first, std::string_view bytes, std::string_view mask = "\x37\xfa\x21\x3d") {
  std::string out(1, static_cast<char>(first));
  if (bytes.size() < 126) {
    out += static_cast<char>(0x80 | bytes.size());
  } else {
    out += {static_cast<char>(0xFE), static_cast<char>(bytes.size() >> 8), static_cast<char>(bytes.size() & 0xFF)};
  }
  out += mask;
  for (size_t i = 0; i < bytes.size(); ++i) out += static_cast<char>(bytes[i] ^ mask[i % 4]);
  return out;
}

// The messages of what a client sends, as "OPCODE:BYTES", and the error at the end if there is one.
std::vector<std::string> messages_of(const std::string& sent, size_t piece, size_t most = kMost) {
  WebSocketReader reader(most);
  std::vector<std::string> found;
  for (size_t at = 0; at < sent.size(); at += piece) {
    reader.add(std::string_view(sent).substr(at, piece));
    for (;;) {
      const auto message = reader.next();
      if (!message) {
        found.push_back(message.error().message);
        return found;
      }
      if (!*message) break;
      found.push_back(std::to_string(static_cast<int>((*message)->opcode)) + ":" + (*message)->bytes);
    }
  }
  return found;
}

TEST(WebSocket, HandshakeHasTheAcceptOfTheSpecification) {
  const auto response = accept_websocket(asked()).value();
  EXPECT_EQ(response.status, 101);
  const auto field = std::ranges::find(response.fields, "Sec-WebSocket-Accept", &Field::name);
  ASSERT_NE(field, response.fields.end());
  EXPECT_EQ(field->value, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");  // section 1.3
}

TEST(WebSocket, OtherRequestsAreRefused) {
  EXPECT_EQ(status_of(asked({{"upgrade", "h2c"}})), 426);
  EXPECT_EQ(status_of(asked({{"connection", "keep-alive"}})), 426);
  EXPECT_EQ(status_of(asked({{"sec-websocket-version", "8"}})), 426);
  EXPECT_EQ(status_of(asked({{"sec-websocket-key", "c2hvcnQ="}})), 400);
  EXPECT_EQ(status_of(asked({{"sec-websocket-key", "not base64, of 24 chars."}})), 400);
  Request without_origin = asked();
  without_origin.fields.pop_back();
  EXPECT_EQ(status_of(without_origin), 403);
  Request old = asked();
  old.minor = 0;
  EXPECT_EQ(status_of(old), 426);
}

TEST(WebSocket, FramesOfTheServerHaveTheShortestLength) {
  EXPECT_EQ(websocket_frame(Opcode::text, "Hello"), "\x81\x05Hello");  // section 5.7
  EXPECT_EQ(websocket_frame(Opcode::binary, std::string(256, 'a')).substr(0, 5), std::string("\x82\x7E\x01\x00"
                                                                                             "a",
                                                                                             5));
  EXPECT_EQ(websocket_frame(Opcode::binary, std::string(65536, 'a')).substr(0, 11),
            std::string("\x82\x7F\0\0\0\0\0\1\0\0a", 11));
}

TEST(WebSocket, FramesOfAClientAreUnmasked) {
  const std::string sent = masked(0x81, "Hello") + masked(0x82, std::string(300, 'b')) + masked(0x81, "");
  for (const size_t piece : {size_t{1}, size_t{7}, sent.size()})
    EXPECT_THAT(messages_of(sent, piece), testing::ElementsAre("1:Hello", "2:" + std::string(300, 'b'), "1:"));
}

TEST(WebSocket, ControlFramesMayArriveBetweenTheFramesOfAMessage) {
  const std::string sent = masked(0x01, "Hel") + masked(0x89, "p") + masked(0x00, "") + masked(0x80, "lo");
  EXPECT_THAT(messages_of(sent, 3), testing::ElementsAre("9:p", "1:Hello"));
}

TEST(WebSocket, WhatTheSpecificationForbidsIsRefused) {
  const auto last = [](const std::string& sent) { return messages_of(sent, sent.size()).back(); };
  EXPECT_EQ(last("\x81\x05Hello"), "a frame of a client must be masked");
  EXPECT_EQ(last(masked(0xC1, "x")), "an unknown kind of frame");
  EXPECT_EQ(last(masked(0x83, "x")), "an unknown kind of frame");
  EXPECT_EQ(last(masked(0x80, "x")), "a new message inside an unfinished one, or a continuation without a beginning");
  EXPECT_EQ(last(masked(0x01, "x") + masked(0x81, "y")),
            "a new message inside an unfinished one, or a continuation without a beginning");
  EXPECT_EQ(last(masked(0x09, "x")), "a control frame must be short, and not in parts");
  EXPECT_EQ(last(masked(0x89, std::string(126, 'x'))), "a control frame must be short, and not in parts");
}

TEST(WebSocket, LengthsAreCheckedBeforeBytesAreExpected) {
  const std::string huge = std::string("\x82\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 10) + "mask";
  EXPECT_THAT(messages_of(huge, huge.size()), testing::ElementsAre("a message is too long"));
  EXPECT_THAT(messages_of(masked(0x82, "12345"), 99, 4), testing::ElementsAre("a message is too long"));
  EXPECT_THAT(messages_of(masked(0x02, "123") + masked(0x80, "45"), 99, 4),
              testing::ElementsAre("a message is too long"));
  EXPECT_THAT(messages_of(masked(0x82, "1234"), 99, 4), testing::ElementsAre("2:1234"));
}

}  // namespace
}  // namespace weightfs::websocket_test
