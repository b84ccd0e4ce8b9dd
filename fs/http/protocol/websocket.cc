#include "fs/http/protocol/websocket.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/digest.h"
#include "base/text.h"
#include "base/values/base64.h"

namespace weightfs::httpd {
namespace {

constexpr size_t kMaskSize = 4;
constexpr size_t kMaxControl = 125;  // bytes of a control frame

bool is_control(Opcode opcode) { return opcode >= Opcode::close; }

bool is_known(uint8_t opcode) { return opcode <= 2 || (opcode >= 8 && opcode <= 10); }

// Whether a field, a list of tokens, has this one.
bool has_token(const Request& request, std::string_view field, std::string_view token) {
  std::string list = lower_case(request.list(field).value_or(""));
  std::ranges::replace(list, ',', ' ');
  return (" " + list + " ").find(fmt::format(" {} ", token)) != std::string::npos;
}

uint8_t byte_at(std::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

}  // namespace

Accepted<Response> accept_websocket(const Request& request) {
  const std::string* const version = request.field("sec-websocket-version");
  const bool is_asked = has_token(request, "upgrade", "websocket") && has_token(request, "connection", "upgrade");
  if (request.method != "GET" || request.minor == 0 || !is_asked || version == nullptr || *version != "13")
    return refused(426, "WebSocket version 13 required");
  if (request.field("origin") == nullptr) return refused(403, "only a page may open this connection");
  const std::string* const key = request.field("sec-websocket-key");
  constexpr size_t kKeySize = 16;
  if (request.has_body) return refused(400, "a request for a WebSocket has no body");
  if (key == nullptr || from_base64(*key).value_or("").size() != kKeySize)
    return refused(400, "Sec-WebSocket-Key: not 16 bytes in base64");
  const auto hash = sha1(*in_memory(*key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
  if (!hash) return refused(500, hash.error().message);
  const std::string_view bytes(reinterpret_cast<const char*>(hash->bytes.data()), hash->bytes.size());
  Response response{101};
  response.add("Upgrade", "websocket").add("Connection", "Upgrade").add("Sec-WebSocket-Accept", base64(bytes));
  return response;
}

std::string websocket_frame(Opcode opcode, std::string_view bytes) {
  constexpr size_t kMaxShort = 125;
  std::string out(1, static_cast<char>(0x80 | static_cast<unsigned>(opcode)));
  const size_t length_size = bytes.size() <= kMaxShort ? 0 : bytes.size() <= 0xFFFF ? 2 : 8;
  out += static_cast<char>(length_size == 0 ? bytes.size() : length_size == 2 ? 126 : 127);
  for (size_t i = length_size; i-- > 0;) out += static_cast<char>(bytes.size() >> (8 * i) & 0xFF);
  return out.append(bytes);
}

// Frames that were returned are removed here: once for all that one system call has received.
void WebSocketReader::add(std::string_view received) {
  received_.erase(0, std::exchange(taken_, 0));
  received_ += received;
}

// Nothing until all of it has been received.
Result<std::optional<WebSocketReader::Header>> WebSocketReader::header() const {
  const std::string_view bytes = rest();
  if (bytes.size() < 2) return std::nullopt;
  const uint8_t first = byte_at(bytes, 0);
  const uint8_t second = byte_at(bytes, 1);
  if ((first & 0x70) != 0 || !is_known(first & 0x0F)) return failure(Code::corrupt, "an unknown kind of frame");
  if ((second & 0x80) == 0) return failure(Code::corrupt, "a frame of a client must be masked");
  const unsigned length = second & 0x7F;
  const size_t length_size = length < 126 ? 0 : length == 126 ? 2 : 8;
  Header header{(first & 0x80) != 0, static_cast<Opcode>(first & 0x0F), 2 + length_size + kMaskSize, length};
  if (bytes.size() < header.size) return std::nullopt;
  if (length_size > 0) header.bytes = 0;
  for (size_t i = 0; i < length_size; ++i) header.bytes = header.bytes << 8 | byte_at(bytes, 2 + i);
  return header;
}

Result<void> WebSocketReader::check(const Header& header) const {
  if (is_control(header.opcode)) {
    if (!header.is_last || header.bytes > kMaxControl)
      return failure(Code::corrupt, "a control frame must be short, and not in parts");
    return {};
  }
  if ((header.opcode == Opcode::continuation) != begun_.has_value())
    return failure(Code::corrupt, "a new message inside an unfinished one, or a continuation without a beginning");
  if (header.bytes > most_ - (begun_ ? begun_->bytes.size() : 0))
    return failure(Code::unsupported, "a message is too long");
  return {};
}

// The payload of a frame that has been received as a whole.
std::string WebSocketReader::take(const Header& header) {
  const auto size = static_cast<size_t>(header.bytes);
  const std::string_view mask = rest().substr(header.size - kMaskSize, kMaskSize);
  std::string bytes(rest().substr(header.size, size));
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(bytes[i] ^ mask[i % kMaskSize]);
  taken_ += header.size + size;
  return bytes;
}

Result<std::optional<WebSocketMessage>> WebSocketReader::next() {
  for (;;) {
    const auto found = TRY(header());
    if (!found) return std::nullopt;
    TRY_VOID(check(*found));
    if (rest().size() - found->size < found->bytes) return std::nullopt;
    std::string bytes = take(*found);
    if (is_control(found->opcode)) return WebSocketMessage{found->opcode, std::move(bytes)};
    if (begun_)
      begun_->bytes += bytes;
    else
      begun_ = WebSocketMessage{found->opcode, std::move(bytes)};
    if (found->is_last) return std::exchange(begun_, std::nullopt);
  }
}

}  // namespace weightfs::httpd
