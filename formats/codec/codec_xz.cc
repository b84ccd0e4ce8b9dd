// xz, by liblzma.
#include <lzma.h>

#include "base/text.h"
#include "formats/codec/codec.h"
#include "formats/codec/codec_input.h"
#include "formats/codec/codec_meter.h"

namespace weightfs {
namespace {

constexpr uint64_t kMostMemory = 80ULL << 20;

class Unxz final : public Stream {
 public:
  explicit Unxz(SourcePtr compressed) : input_(std::move(compressed)) {
    // Without the second flag a check that is not known would not be compared.
    constexpr uint32_t kFlags = LZMA_CONCATENATED | LZMA_TELL_UNSUPPORTED_CHECK;
    if (lzma_stream_decoder(&stream_, kMostMemory, kFlags) != LZMA_OK) throw std::bad_alloc();
  }
  ~Unxz() override { lzma_end(&stream_); }

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
    // Only who says that nothing follows is told that a stream is cut, and that the last one has ended.
    const lzma_ret status = lzma_code(&stream_, input_.is_read() ? LZMA_FINISH : LZMA_RUN);
    input_.consume(given.size() - stream_.avail_in);
    ended_ = status == LZMA_STREAM_END;
    if (ended_ || status == LZMA_OK) return {};
    return refused(status);
  }

  tl::unexpected<Error> refused(lzma_ret status) const {
    const auto before = [&](std::string_view what) { return str("xz: ", what, " before byte ", input_.position()); };
    switch (status) {
      case LZMA_MEM_ERROR:
        return failure(Code::unavailable, "xz: out of memory");
      case LZMA_MEMLIMIT_ERROR:
        return failure(Code::unsupported, str("xz: the dictionary is too large: ", human_size(lzma_memusage(&stream_)),
                                              " of memory needed, at most ", human_size(kMostMemory), " are used"));
      case LZMA_UNSUPPORTED_CHECK:
        return failure(Code::unsupported, before("a check that is not known"));
      case LZMA_OPTIONS_ERROR:
        return failure(Code::unsupported, before("a filter or an option that is not known"));
      case LZMA_BUF_ERROR:
        return failure(Code::corrupt, before("cut short"));
      default:
        return failure(Code::corrupt, before("broken"));
    }
  }

  codec::Input input_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ended_ = false;
};

}  // namespace

Result<StreamPtr> decompressed_xz(SourcePtr compressed) {
  return input_limited("xz", std::move(compressed), codec::decoder_of<Unxz>);
}

}  // namespace weightfs
