#include "cache/fetcher/wire.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "base/values/packing.h"

namespace weightfs::fetcher {
namespace {

constexpr uint64_t kMaxPatience = 1ULL << 50;  // milliseconds
constexpr uint64_t kMaxTime = 1ULL << 33;      // seconds since 1970, in the year 2242

tl::unexpected<Error> malformed(const char* what) { return failure(Code::corrupt, std::string("malformed ") + what); }

void add_told(Packer& out, const Told& told) {
  out.text(told.credentials).text(told.keys.from);
  out.number(static_cast<uint64_t>(told.keys.read.time_since_epoch().count()));
  const auto expires = told.keys.expires.value_or(std::chrono::sys_seconds());
  out.number(static_cast<uint64_t>(std::max<int64_t>(expires.time_since_epoch().count(), 0)));
  out.list(told.requests, [&](const auto& origin) { out.text(origin.first).number(origin.second); });
}

Told told_in(Unpacker& in) {
  Told told{.credentials = in.text()};
  told.keys.from = in.text();
  told.keys.read = std::chrono::sys_seconds(std::chrono::seconds(in.number_below(kMaxTime)));
  const std::chrono::seconds expires(in.number_below(kMaxTime));
  if (expires.count() > 0) told.keys.expires = std::chrono::sys_seconds(expires);
  in.list([&] {
    const std::string origin = in.text();
    told.requests[origin] = in.number();
  });
  return told;
}

}  // namespace

std::string pack(const Asked& asked) {
  const http::Request& request = asked.request;
  Packer out;
  out.text(request.url)
      .number(request.trust == http::Trust::container)
      .number(request.method == http::Request::Method::head);
  const auto add = [&](const std::string& text) { out.text(text); };
  out.list(request.headers, add).number(request.encoded).number(request.public_only);
  out.number(static_cast<uint64_t>(request.deadline.time_since_epoch().count()));
  out.number(request.urgency == http::Urgency::ahead);
  const http::CredentialsName& name = asked.credentials;
  out.number(static_cast<uint64_t>(name.kind)).text(name.server).text(name.region).list(name.headers, add);
  out.number(static_cast<uint64_t>(asked.patience.count()));
  return out.take();
}

Result<Asked> unpack_request(std::string_view bytes) {
  using Clock = std::chrono::steady_clock;
  Unpacker in(bytes);
  Asked asked;
  http::Request& request = asked.request;
  request.url = in.text();
  request.trust = in.flag() ? http::Trust::container : http::Trust::user;
  request.method = in.flag() ? http::Request::Method::head : http::Request::Method::get;
  in.list([&] { request.headers.push_back(in.text()); });
  request.encoded = in.flag();
  request.public_only = in.flag();
  request.deadline = Clock::time_point(Clock::duration(static_cast<Clock::rep>(in.number())));
  request.urgency = in.flag() ? http::Urgency::ahead : http::Urgency::waited_for;
  asked.credentials.kind = static_cast<http::CredentialsName::Kind>(in.number_below(http::CredentialsName::kKinds));
  asked.credentials.server = in.text();
  asked.credentials.region = in.text();
  in.list([&] { asked.credentials.headers.push_back(in.text()); });
  asked.patience = std::chrono::milliseconds(in.number_below(kMaxPatience));
  if (!in.is_done()) return malformed("request");
  return asked;
}

std::string pack(const Answered& answered) {
  const http::Response& response = answered.response;
  Packer out;
  out.number(static_cast<uint64_t>(response.status)).text(response.url).number(response.from_public);
  out.number(response.is_deferred);
  out.list(response.headers, [&](const auto& header) { out.text(header.first).text(header.second); });
  add_told(out, answered.told);
  return out.take();
}

Result<Answered> unpack_response(std::string_view bytes) {
  Unpacker in(bytes);
  Answered answered;
  http::Response& response = answered.response;
  response.status = static_cast<int>(in.number_below(1'000));
  response.url = in.text();
  response.from_public = in.flag();
  response.is_deferred = in.flag();
  in.list([&] {
    std::string name = in.text();
    response.headers.emplace_back(std::move(name), in.text());
  });
  answered.told = told_in(in);
  if (!in.is_done()) return malformed("response");
  return answered;
}

std::string pack(const Ended& ended) {
  Packer out;
  add_error(out, ended.error);
  add_told(out, ended.told);
  return out.take();
}

Result<Ended> unpack_end(std::string_view bytes) {
  Unpacker in(bytes);
  Ended ended;
  ended.error = error_in(in);
  ended.told = told_in(in);
  if (!in.is_done()) return malformed("end");
  return ended;
}

std::string pack(const FrameHeader& header) {
  std::string out(1, static_cast<char>(header.kind));
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(header.size >> shift & 0xFF);
  return out;
}

Result<FrameHeader> unpack_header(std::string_view bytes) {
  const auto byte = [&](size_t i) { return uint32_t{static_cast<uint8_t>(bytes[i])}; };
  if (bytes.size() != kFrameHeader || byte(0) < 1 || byte(0) > 4) return malformed("frame");
  const FrameHeader header{static_cast<Frame>(byte(0)), byte(1) | byte(2) << 8 | byte(3) << 16 | byte(4) << 24};
  if (header.size > kMaxFrame) return malformed("frame");
  return header;
}

}  // namespace weightfs::fetcher
