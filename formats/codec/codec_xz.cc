// xz and the older format of LZMA, by liblzma.
#include <fmt/core.h>
#include <lzma.h>

#include "base/text.h"
#include "formats/codec/codec.h"
#include "formats/codec/codec_input.h"
#include "formats/codec/codec_meter.h"

namespace weightfs::codec {
namespace {

constexpr uint64_t kMaxMemory = 80ULL << 20;

// The formats of liblzma.
enum class Form { xz, lzma };

template <Form form>
class LzmaStream final : public Stream {
 public:
  explicit LzmaStream(SourcePtr compressed) : input_(std::move(compressed)) {
    // Without the second flag a check that is not known would not be compared.
    constexpr uint32_t kFlags = LZMA_CONCATENATED | LZMA_TELL_UNSUPPORTED_CHECK;
    const lzma_ret made =
        form == Form::xz ? lzma_stream_decoder(&stream_, kMaxMemory, kFlags) : lzma_alone_decoder(&stream_, kMaxMemory);
    if (made != LZMA_OK) throw std::bad_alloc();
  }
  ~LzmaStream() override { lzma_end(&stream_); }

  Result<size_t> next(std::span<std::byte> out) override {
    stream_.next_out = reinterpret_cast<uint8_t*>(out.data());
    stream_.avail_out = out.size();
    while (stream_.avail_out == out.size() && !ended_) TRY_VOID(step());
    return out.size() - stream_.avail_out;
  }

 private:
  Result<void> step() {
    if (input_.left().empty()) TRY_VOID(input_.fill());
    const auto given = input_.left();
    stream_.next_in = reinterpret_cast<const uint8_t*>(given.data());
    stream_.avail_in = given.size();
    // With LZMA_FINISH liblzma reports truncation and the end of the last stream.
    const lzma_ret status = lzma_code(&stream_, input_.is_read() ? LZMA_FINISH : LZMA_RUN);
    input_.consume(given.size() - stream_.avail_in);
    ended_ = status == LZMA_STREAM_END;
    if (ended_ || status == LZMA_OK) return {};
    return refused(status);
  }

  tl::unexpected<Error> refused(lzma_ret status) const {
    constexpr std::string_view kName = form == Form::xz ? "xz" : "lzma";
    const auto near = [&](std::string_view what) {
      return fmt::format("{}: {} near byte {}", kName, what, input_.position());
    };
    switch (status) {
      case LZMA_MEM_ERROR:
        return failure(Code::resource, fmt::format("{}: out of memory", kName));
      case LZMA_MEMLIMIT_ERROR:
        return failure(Code::unsupported,
                       fmt::format("{}: the dictionary is too large: {} of memory needed, at most {} are used", kName,
                                   human_size(lzma_memusage(&stream_)), human_size(kMaxMemory)));
      case LZMA_UNSUPPORTED_CHECK:
        return failure(Code::unsupported, near("unknown check"));
      case LZMA_OPTIONS_ERROR:
        return failure(Code::unsupported, near("unknown filter or option"));
      case LZMA_BUF_ERROR:
        return failure(Code::corrupt, fmt::format("{}: truncated at byte {}", kName, input_.position()));
      default:
        return failure(Code::corrupt, near("invalid data"));
    }
  }

  Input input_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ended_ = false;
};

}  // namespace

Result<StreamPtr> xz_stream(SourcePtr compressed) {
  return limit_input("xz", std::move(compressed), decoder_of<LzmaStream<Form::xz>>);
}

Result<StreamPtr> lzma_alone_stream(SourcePtr compressed) {
  return limit_input("lzma", std::move(compressed), decoder_of<LzmaStream<Form::lzma>>);
}

}  // namespace weightfs::codec
