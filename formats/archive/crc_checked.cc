#include "formats/archive/crc_checked.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"

namespace weightfs::archive {
namespace {

class CrcCheckedStream final : public Stream {
 public:
  CrcCheckedStream(StreamPtr stream, std::string name, uint64_t size, uint32_t crc)
      : stream_(std::move(stream)), name_(std::move(name)), size_(size), left_(size), crc_(crc) {}

  Result<size_t> next(std::span<std::byte> out) override {
    if (left_ == 0) return end();
    const size_t got = TRY(passed(out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), left_)))));
    if (got == 0) return wrong("ends after {} of {} bytes", size_ - left_, size_);
    left_ -= got;
    seen_ = crc32(seen_, out.first(got));
    return got;
  }

 private:
  Result<size_t> end() {
    std::byte more;
    if (TRY(passed(std::span(&more, 1))) > 0) return wrong("longer than the {} bytes that it should have", size_);
    if (seen_ != crc_) return failure(Code::mismatch, fmt::format("{}: its bytes do not match their CRC-32", name_));
    return size_t{0};
  }

  Result<size_t> passed(std::span<std::byte> out) {
    return stream_->next(out).map_error([&](const Error& e) {
      return Error{e.code, fmt::format("{}: {}", name_, e.message)};
    });
  }

  template <class... Values>
  tl::unexpected<Error> wrong(fmt::format_string<Values...> format, Values&&... values) const {
    return failure(Code::corrupt, fmt::format("{}: {}", name_, fmt::format(format, std::forward<Values>(values)...)));
  }

  StreamPtr stream_;
  std::string name_;
  uint64_t size_, left_;
  uint32_t crc_, seen_ = 0;
};

}  // namespace

StreamPtr crc_checked(StreamPtr stream, std::string name, uint64_t size, uint32_t crc) {
  return std::make_unique<CrcCheckedStream>(std::move(stream), std::move(name), size, crc);
}

}  // namespace weightfs::archive
