#include "fs/http/transfer.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace weightfs::httpd {
namespace {

// The end of a body, and a body up to this size, is copied: it is compared before it is sent.
constexpr uint64_t kCopied = 64 << 10;
constexpr uint64_t kFilePiece = 2 << 20;  // sent between two examinations
// Below OpenFile's mapped reads, because OpenSSL would touch the mapping.
constexpr uint64_t kTlsPiece = 64 << 10;
constexpr uint64_t kPlainPiece = 256 << 10;
constexpr const char* kTooMany = "too many requests wait for servers";

uint64_t size_of(const FilePart& part) { return part.range.to - part.range.from; }

Result<std::string> read_text(OpenFile& file, ByteRange range, ByteRange expected) {
  OpenFile::Read read(file, range.from, range.to - range.from, Pages::kept, expected);
  const auto bytes = TRY(read.bytes());
  if (bytes.size() != range.to - range.from) return failure(Code::io, "ends too early");
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  read.finish();
  return text;
}

}  // namespace

Result<void> read_first(Response& response) {
  const auto first =
      std::ranges::find_if(response.body, [](const BodyPart& part) { return std::holds_alternative<FilePart>(part); });
  if (first == response.body.end()) return {};
  auto& part = std::get<FilePart>(*first);
  const uint64_t end = part.range.from + std::min(size_of(part), kCopied);
  std::string text = TRY(read_text(*part.file, {part.range.from, end}, part.range));
  part.range.from = end;
  if (size_of(part) == 0)
    *first = std::move(text);
  else
    response.body.insert(first, std::move(text));
  return {};
}

Transfer::Transfer(Response response, const Request* request, bool closes)
    : response_(std::move(response)), is_chunked_(!response_.length() && (request == nullptr || request->minor == 1)) {
  text_ = header_of(response_, request, closes);
  header_ = text_.size();
  if (request != nullptr && request->is_head()) response_.body.clear();
  if (response_.body.empty()) is_chunked_ = false;
}

void Transfer::add_text(std::string_view text) {
  if (text.empty()) return;
  text_ += is_chunked_ ? fmt::format("{:x}\r\n{}\r\n", text.size(), text) : text;
}

// Adds the texts that are sent next to text_. Fails as a generator.
Result<void> Transfer::next_text() {
  for (; part_ < response_.body.size() && text_.size() < kCopied; ++part_) {
    BodyPart& part = response_.body[part_];
    if (std::holds_alternative<FilePart>(part)) return {};
    if (auto* const text = std::get_if<std::string>(&part)) {
      add_text(*text);
      std::string().swap(*text);
      continue;
    }
    if (auto* const shared = std::get_if<SharedText>(&part)) {
      const auto piece = std::string_view(*shared->text).substr(shared->sent, kCopied);
      add_text(piece);
      shared->sent += piece.size();
      if (shared->sent < shared->text->size()) return {};
      shared->text = nullptr;
      continue;
    }
    if (!may_wait_) return failure(Code::resource, kTooMany);
    const std::string piece = TRY(std::get<Generator>(part)());
    add_text(piece);
    if (!piece.empty()) return {};  // sent at once: the next one may take its time
  }
  if (part_ == response_.body.size() && is_chunked_ && !std::exchange(has_ended_, true)) text_ += "0\r\n\r\n";
  return {};
}

Transfer::Progress Transfer::advance(Transport& to, bool may_wait) {
  may_wait_ = may_wait;
  turn_ = 0;
  for (;;) {
    if (const auto added = next_text(); !added) return fail(added.error());
    if (turn_ >= kTurn) return Progress::paused;
    Progress progress = Progress::sent;
    if (text_sent_ < text_.size())
      progress = send_text(to);
    else if (part_ < response_.body.size())
      progress = send_file(to, std::get<FilePart>(response_.body[part_]));
    else
      return Progress::sent;
    if (progress != Progress::sent) return progress;
  }
}

Transfer::Progress Transfer::moved(const Moved& moved) {
  turn_ += moved.bytes;
  switch (moved.wait) {
    case Wait::nothing:
      return Progress::sent;
    case Wait::readable:
      return Progress::receives;
    case Wait::writable:
      return Progress::blocked;
    case Wait::closed:
      return Progress::failed;
  }
  return Progress::failed;
}

Transfer::Progress Transfer::fail(const Error& error, std::optional<Ino> file) {
  error_ = error;
  failed_ = file;
  return Progress::failed;
}

Transfer::Progress Transfer::send_text(Transport& to) {
  const auto rest = std::as_bytes(std::span(text_)).subspan(text_sent_);
  const Moved sent = to.write(rest, part_ < response_.body.size());
  text_sent_ += sent.bytes;
  const size_t header = std::min(header_, sent.bytes);
  header_ -= header;
  body_sent_ += sent.bytes - header;
  if (text_sent_ == text_.size()) {
    std::string().swap(text_);  // the client may be slow
    text_sent_ = 0;
  }
  return moved(sent);
}

Transfer::Progress Transfer::send_file(Transport& to, FilePart& part) {
  const uint64_t left = size_of(part);
  if (left == 0) {
    ++part_;
    return Progress::sent;
  }
  if (left > kCopied && !to.is_encrypted())
    if (const auto extent = part.file->extent())
      return send_extent(to, part, *extent, std::min(left - kCopied, kFilePiece));
  return send_copy(to, part);
}

Transfer::Progress Transfer::send_extent(Transport& to, FilePart& part, const Extent& extent, uint64_t size) {
  const auto sent = to.send_file(extent, part.range.from, size);
  if (!sent) return send_copy(to, part);
  part.range.from += sent->bytes;
  body_sent_ += sent->bytes;
  if (sent->bytes > 0)
    if (const auto unchanged = part.file->check_unchanged(); !unchanged)
      return fail(unchanged.error(), part.file->ino());
  return moved(*sent);
}

// What the socket does not take is read again: it is in the page cache or in the cache then.
Transfer::Progress Transfer::send_copy(Transport& to, FilePart& part) {
  if (!may_wait_ && !part.file->is_ready()) return fail({Code::resource, kTooMany});
  const uint64_t size = std::min(size_of(part), to.is_encrypted() ? kTlsPiece : kPlainPiece);
  // The client gets no bytes after its range.
  OpenFile::Read read(*part.file, part.range.from, size, Pages::kept, part.range);
  const auto bytes = read.bytes();
  if (!bytes) return fail(bytes.error(), part.file->ino());
  if (bytes->size() != size) return fail({Code::io, "ends too early"});
  const bool more = size < size_of(part) || part_ + 1 < response_.body.size();
  const Moved sent = to.write(*bytes, more);
  read.finish();
  part.range.from += sent.bytes;
  body_sent_ += sent.bytes;
  return moved(sent);
}

}  // namespace weightfs::httpd
