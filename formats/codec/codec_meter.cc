#include "formats/codec/codec_meter.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"

namespace weightfs::codec {
namespace {

// The limits of a meter: both methods fail when the limit is exceeded.
class InputLimit {
 public:
  virtual ~InputLimit() = default;
  InputLimit() = default;
  InputLimit(const InputLimit&) = delete;
  InputLimit& operator=(const InputLimit&) = delete;
  virtual Result<void> before_read(size_t bytes) = 0;  ///< of compressed bytes
  virtual Result<void> after_read(std::string_view /*compressed*/) { return {}; }
  virtual Result<void> after_output(size_t bytes) = 0;
};

// The streams of bzip2 that begin in this part of a file. libarchive makes a decoder of megabytes for each.
uint64_t bzip2_heads(std::string_view bytes) {
  uint64_t heads = 0;
  for (size_t at = bytes.find("BZh"); at < bytes.size(); at = bytes.find("BZh", at + 1)) {
    const std::string_view rest = bytes.substr(at + 3, 7);
    if (rest.ends_with("1AY&SY") || rest.ends_with("\x17\x72\x45\x38\x50\x90")) ++heads;
  }
  return heads;
}

class RatioLimit final : public InputLimit {
 public:
  explicit RatioLimit(std::string_view format) : format_(format) {}
  Result<void> before_read(size_t bytes) override {
    if (input_ > kFreeInput && input_ - kFreeInput > kInputPerOutput * output_)
      return failure(Code::corrupt,
                     fmt::format("{}: {} bytes of input decode to only {} bytes; refused", format_, input_, output_));
    input_ += bytes;
    return {};
  }
  Result<void> after_output(size_t bytes) override {
    output_ += bytes;
    return {};
  }

 private:
  std::string_view format_;
  uint64_t input_ = 0, output_ = 0;
};

class ChargedLimit final : public InputLimit {
 public:
  ChargedLimit(DecodeChargePtr charge, uint64_t output_cost) : charge_(std::move(charge)), output_cost_(output_cost) {}
  Result<void> before_read(size_t bytes) override {
    input_ += bytes;
    TRY_VOID(charge_->charge(Cost::input, bytes));
    if (input_ <= output_ + kReadAhead + empty_) return {};
    const uint64_t more = input_ - output_ - kReadAhead - empty_;
    empty_ += more;
    return charge_->charge(Cost::step, steps_of_empty_input(more));
  }
  Result<void> after_read(std::string_view compressed) override {
    constexpr uint64_t kStepsPerStream = 150;  // in a server, whose memory is returned each time
    return charge_->charge(Cost::step, kStepsPerStream * bzip2_heads(compressed));
  }
  Result<void> after_output(size_t bytes) override {
    output_ += bytes;
    return charge_->charge(Cost::output, bytes * output_cost_);
  }

 private:
  // Decoders read a buffer before they give its bytes; blocks of bzip2 hold 900 kB.
  static constexpr uint64_t kReadAhead = 1 << 20;

  DecodeChargePtr charge_;
  uint64_t output_cost_;
  uint64_t input_ = 0, output_ = 0;
  uint64_t empty_ = 0;  // input that was charged as decoded to nothing
};

// The compressed bytes, as a decoder reads them.
class MeteredInput final : public Source {
 public:
  MeteredInput(SourcePtr compressed, InputLimit& rule) : compressed_(std::move(compressed)), limit_(rule) {}
  uint64_t size() const override { return compressed_->size(); }
  std::string identity() const override { return compressed_->identity(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return metered(out, [&] { return compressed_->read(offset, out); });
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    return metered(out, [&] { return compressed_->read_ahead(offset, out, expected); });
  }
  const std::optional<Error>& refusal() const { return refusal_; }

 private:
  template <class Read>
  Result<size_t> metered(std::span<std::byte> out, Read read) const {
    TRY_VOID(noted(limit_.before_read(out.size())));
    const size_t got = TRY(read());
    TRY_VOID(noted(limit_.after_read({reinterpret_cast<const char*>(out.data()), got})));
    return got;
  }
  Result<void> noted(Result<void> allowed) const {
    if (!allowed) refusal_ = allowed.error();
    return allowed;
  }

  SourcePtr compressed_;
  InputLimit& limit_;
  mutable std::optional<Error> refusal_;  // one reader, one thread at a time: Stream's rule
};

class MeteredStream final : public Stream {
 public:
  MeteredStream(SourcePtr compressed, std::unique_ptr<InputLimit> rule)
      : limit_(std::move(rule)), input_(std::make_shared<MeteredInput>(std::move(compressed), *limit_)) {}

  Result<void> start(Decode decode) {
    decoder_ = TRY(decode(input_).map_error([this](const Error& e) { return refused(e); }));
    return {};
  }

  Result<size_t> next(std::span<std::byte> out) override {
    // A library may read any amount of input before it fills `out` and returns.
    constexpr size_t kStep = 256 << 10;
    const auto got = decoder_->next(out.first(std::min(out.size(), kStep)));
    if (!got) return tl::unexpected(refused(got.error()));
    TRY_VOID(limit_->after_output(*got));
    return got;
  }

 private:
  // The message of the limit, not the library's.
  Error refused(const Error& error) const { return input_->refusal().value_or(error); }

  std::unique_ptr<InputLimit> limit_;
  std::shared_ptr<MeteredInput> input_;
  StreamPtr decoder_;  // reads input_
};

Result<StreamPtr> metered(SourcePtr compressed, std::unique_ptr<InputLimit> rule, Decode decode) {
  auto stream = std::make_unique<MeteredStream>(std::move(compressed), std::move(rule));
  TRY_VOID(stream->start(decode));
  return stream;
}

// The cost of the decoder of a short member, with the cached file of its output. Measured, rounded up.
constexpr uint64_t kStepsOfDecoder = 1'000;

}  // namespace

Result<StreamPtr> limit_input(std::string_view format, SourcePtr compressed, Decode decode) {
  return metered(std::move(compressed), std::make_unique<RatioLimit>(format), decode);
}

Result<StreamPtr> charge_decoding(const DecodeChargePtr& charge, SourcePtr compressed, Decode decode,
                                  uint64_t output_cost) {
  TRY_VOID(charge->charge(Cost::step, kStepsOfDecoder));
  return metered(std::move(compressed), std::make_unique<ChargedLimit>(charge, output_cost), decode);
}

}  // namespace weightfs::codec
