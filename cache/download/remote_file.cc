#include "cache/download/remote_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "cache/download/mirror_scheduler.h"

namespace weightfs::download {
namespace {

using Next = Outcome::Next;

// Ends a request early; the outcome is recorded elsewhere.
tl::unexpected<Error> enough() { return failure(Code::resource, "enough"); }

// A strong ETag, in quotes or not, as it was sent; empty for a weak one.
std::string pinning_etag(const http::Response& response) {
  const std::string_view etag = response.header("etag").value_or("");
  const bool is_plain = std::all_of(etag.begin(), etag.end(), [](char c) { return c > ' ' && c < 0x7f; });
  return is_plain && etag.size() > 2 && etag.size() <= 500 && !etag.starts_with("W/") ? std::string(etag) : "";
}

FileVersion version_of(const http::Response& response, uint64_t size) {
  std::string modified(response.header("last-modified").value_or(""));
  if (modified.size() > 100) modified.clear();
  return {size, is_encoded(response) ? "" : pinning_etag(response), std::move(modified)};
}

// Some registries quote the ETag of a cached file only.
std::string_view unquoted(std::string_view etag) {
  return etag.size() >= 2 && etag.starts_with('"') && etag.ends_with('"') ? etag.substr(1, etag.size() - 2) : etag;
}

// The response is part of the version, as far as its headers tell.
bool is_of(const FileVersion& version, const FileVersion& sent) {
  if (sent.size != version.size) return false;
  if (version.is_pinned()) return unquoted(sent.etag) == unquoted(version.etag);
  return sent.last_modified == version.last_modified;
}

Error changed(const std::string& url) {
  return {Code::corrupt, fmt::format("{}: changed on the server; mount it again", url)};
}

// The parsed Content-Range; nothing unless it begins at `from`. It counts with status 200, too: some proxies send it.
std::optional<ContentRange> content_range_from(const http::Response& response, uint64_t from) {
  const auto range = parse_content_range(response.header("content-range").value_or(""));
  return range && range->first == from && !is_encoded(response) ? range : std::nullopt;
}

// Performs a request until it succeeds; pauses between retries. `attempt` makes one, and reports progress.
template <class Attempt>
Result<void> with_retries(const RetryPolicy& policy, const std::stop_token& stop, Attempt attempt) {
  Backoff backoff(policy);
  int immediate = 0;
  for (;;) {
    bool has_progress = false;
    const Outcome outcome = attempt(has_progress);
    if (outcome.next == Next::done) return {};
    if (has_progress) {
      backoff.reset();
      immediate = 0;
    }
    if (outcome.next == Next::give_up) return tl::unexpected(outcome.error);
    if (outcome.next == Next::retry_now && ++immediate <= 4) continue;
    const auto pause = TRY(backoff.pause(outcome.error, outcome.retry_after));
    if (!interruptible_sleep(pause, stop)) return failure(Code::network, "cancelled");
  }
}

}  // namespace

// One request for a range.
class RemoteFile::RangeGet {
 public:
  RangeGet(RemoteFile& file, ByteRange range, const Sink& sink)
      : file_(file), range_(range), sink_(sink), url_(file.current_url()), has_ranges_(file.has_ranges()) {}

  Outcome perform(const std::stop_token& stop) {
    const http::ResponseHandler handler{[this](const http::Response& response) { return on_response(response); },
                                        [this](std::span<const std::byte> bytes) { return on_body(bytes); }};
    ++file_.requests_;
    const auto done = file_.http_->perform(request(), handler, stop);
    if (outcome_) return *outcome_;
    if (at_ >= end_) return {};
    if (!done) {
      file_.set_current_url(file_.origin_.url);
      return outcome_of(done.error());
    }
    return {at_ > begin_ ? Next::retry_now : Next::retry_later,
            {Code::network, fmt::format("{}: sends less than requested", file_.printable())}};
  }

  uint64_t at() const { return at_; }

 private:
  http::Request request() const {
    http::Request request{
        .url = url_, .trust = file_.origin_.trust, .credentials = credentials_for(file_.origin_, url_)};
    const std::scoped_lock lock(file_.mutex_);
    request.public_only = file_.is_public_ && url_ != file_.origin_.url;
    if (has_ranges_) request.headers.push_back(fmt::format("Range: bytes={}-{}", range_.from, range_.to - 1));
    if (file_.version_.etag.starts_with('"')) request.headers.push_back("If-Match: " + file_.version_.etag);
    return request;
  }

  Result<void> on_response(const http::Response& response) {
    const auto range = has_ranges_ ? content_range_from(response, range_.from) : std::nullopt;
    if ((response.status == 206 || response.status == 200) && range) return begin(response, *range);
    if (response.status == 206)
      return end(
          {Next::give_up, {Code::corrupt, fmt::format("{}: sends other bytes than requested", file_.printable())}});
    if (response.status == 200 && has_ranges_) {
      remember(response, false);
      return end({Next::give_up, {Code::unsupported, fmt::format("{}: ignores ranges", file_.printable())}});
    }
    if (response.status == 200) return begin_whole(response);
    if (response.status == 412 || response.status == 416) return end({Next::give_up, changed(file_.printable())});
    Outcome outcome = outcome_of(response, credentials_for(file_.origin_, response.url).get());
    if (outcome.next == Next::give_up && url_ != file_.origin_.url)
      outcome.next = Next::retry_now;  // it may have expired
    file_.set_current_url(file_.origin_.url);
    return end(std::move(outcome));
  }

  Result<void> begin(const http::Response& response, const ContentRange& range) {
    const FileVersion sent = version_of(response, range.total.value_or(file_.version_.size));
    if (!is_of(file_.version_, sent)) return end({Next::give_up, changed(file_.printable())});
    begin_ = at_ = range_.from;
    end_ = std::min(range_.to, *range.last + 1);
    remember(response, true);
    return {};
  }

  Result<void> begin_whole(const http::Response& response) {
    const FileVersion sent = version_of(response, content_length(response).value_or(file_.version_.size));
    if (is_encoded(response) || !is_of(file_.version_, sent)) return end({Next::give_up, changed(file_.printable())});
    begin_ = at_ = 0;
    end_ = file_.version_.size;
    remember(response, false);
    return {};
  }

  void remember(const http::Response& response, bool has_ranges) const {
    const std::scoped_lock lock(file_.mutex_);
    file_.url_ = response.url;
    file_.is_public_ = response.from_public;
    file_.has_ranges_ = has_ranges;
  }

  Result<void> on_body(std::span<const std::byte> bytes) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(bytes.size(), end_ - at_));
    if (auto taken = sink_(at_, bytes.first(count)); !taken) return end({Next::give_up, std::move(taken).error()});
    at_ += count;
    return at_ < end_ ? Result<void>() : at_ == range_.to && count == bytes.size() ? Result<void>() : enough();
  }

  Result<void> end(Outcome outcome) {
    outcome_ = std::move(outcome);
    return enough();
  }

  RemoteFile& file_;
  const ByteRange range_;
  const Sink& sink_;
  const std::string url_;
  const bool has_ranges_;
  uint64_t begin_ = 0;  // of the bytes that the server sends
  uint64_t at_ = 0;     // the next byte
  uint64_t end_ = UINT64_MAX;
  std::optional<Outcome> outcome_;
};

std::string version_text(const FileVersion& version) {
  return fmt::format("{}\n{}\n{}\n", version.size, version.etag, version.last_modified);
}

std::optional<FileVersion> parse_version(std::string_view text) {
  FileVersion version;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version.size);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  const size_t etag_end = text.find('\n', 1);
  if (!text.starts_with('\n') || etag_end == text.npos || !text.ends_with('\n')) return std::nullopt;
  version.etag = text.substr(1, etag_end - 1);
  if (etag_end + 1 < text.size()) version.last_modified = text.substr(etag_end + 1, text.size() - etag_end - 2);
  return version;
}

Result<RemoteFilePtr> RemoteFile::open(http::ClientPtr http, Origin origin, RetryPolicy retries,
                                       const std::optional<FileVersion>& known, const std::stop_token& stop) {
  RemoteFilePtr file(new RemoteFile(std::move(http), std::move(origin), retries));
  TRY_VOID(with_retries(retries, stop, [&](bool&) { return file->probe(known, stop); }));
  return file;
}

RemoteFilePtr RemoteFile::offline(Origin origin, FileVersion version) {
  RemoteFilePtr file(new RemoteFile(nullptr, std::move(origin), {}));
  file->version_ = std::move(version);
  return file;
}

Outcome RemoteFile::probe(const std::optional<FileVersion>& known, const std::stop_token& stop) {
  std::optional<Outcome> outcome;
  uint64_t expected = 0;  // bytes of the head
  http::Request request{.url = origin_.url,
                        .trust = origin_.trust,
                        .headers = {fmt::format("Range: bytes=0-{}", kHead - 1)},
                        .credentials = origin_.credentials};
  if (known && known->etag.starts_with('"')) request.headers.push_back("If-None-Match: " + known->etag);
  const auto end = [&](Outcome how) {
    outcome = std::move(how);
    return enough();
  };
  const auto on_response = [&](const http::Response& response) -> Result<void> {
    {
      const std::scoped_lock lock(mutex_);
      url_ = response.url;
      is_public_ = response.from_public;
    }
    if (response.status == 304 && known) {
      version_ = *known;
      return {};
    }
    const auto range = content_range_from(response, 0);
    if (range && range->total) {
      version_ = version_of(response, *range->total);
      expected = std::min(kHead, *range->last + 1);
      return {};
    }
    const auto none = parse_content_range(response.header("content-range").value_or(""));
    if (response.status == 416 && none && none->total == 0) {
      version_ = version_of(response, 0);
      return {};
    }
    if (response.status != 200 && response.status != 206) return end(outcome_of(response, origin_.credentials.get()));
    const auto size = content_length(response);
    if (response.status == 206 || !size)
      return end(
          {Next::give_up,
           {Code::unsupported, fmt::format("{}: the server does not report the size of the file", printable())}});
    version_ = version_of(response, *size);
    expected = std::min(kHead, *size);
    const std::scoped_lock lock(mutex_);
    has_ranges_ = *size <= kHead;  // a short file may be sent whole
    return {};
  };
  const auto on_body = [&](std::span<const std::byte> bytes) -> Result<void> {
    const auto count = static_cast<size_t>(std::min<uint64_t>(bytes.size(), expected - head_.size()));
    head_.append(reinterpret_cast<const char*>(bytes.data()), count);
    return count < bytes.size() ? enough() : Result<void>();
  };
  head_.clear();
  ++requests_;
  const auto done = http_->perform(request, {on_response, on_body}, stop);
  if (outcome) return *outcome;
  if (!done && head_.size() < expected) return outcome_of(done.error());
  if (!done && expected == 0) return outcome_of(done.error());
  return {};
}

bool RemoteFile::has_ranges() const {
  const std::scoped_lock lock(mutex_);
  return has_ranges_;
}

std::string RemoteFile::current_url() const {
  const std::scoped_lock lock(mutex_);
  return url_;
}

void RemoteFile::set_current_url(const std::string& url) {
  const std::scoped_lock lock(mutex_);
  url_ = url;
}

Result<void> RemoteFile::fetch(ByteRange range, const Sink& sink, const std::stop_token& stop) {
  if (http_ == nullptr)
    return failure(Code::network, fmt::format("{}: not cached, and downloads are disabled by --offline", printable()));
  return with_retries(retries_, stop, [&](bool& has_progress) -> Outcome {
    RangeGet get(*this, range, sink);
    Outcome outcome = get.perform(stop);
    has_progress = get.at() > range.from;
    if (has_progress) range.from = std::min(get.at(), range.to);
    if (range.from == range.to) return {};
    // A shorter answer is legal (RFC 9110, 15.3.7): ask for the rest.
    return outcome.next == Next::done ? Outcome{Next::retry_now, {Code::network, ""}} : outcome;
  });
}

}  // namespace weightfs::download
