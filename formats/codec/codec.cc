#include "formats/codec/codec.h"

#include <fmt/core.h>
#include <isa-l/igzip_lib.h>
#define ZSTD_STATIC_LINKING_ONLY  // for ZSTD_customMem
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "base/digest.h"
#include "base/os/tmpfile.h"
#include "base/text.h"
#include "formats/codec/codec_input.h"
#include "formats/codec/codec_meter.h"

namespace weightfs::codec {
namespace {

// Deflate data, decoded by isa-l.
class Deflate {
 public:
  /// `format`: for messages. `behind`: ISAL_DEFLATE, ISAL_ZLIB (with a header and a checksum), or ISAL_GZIP_NO_HDR_VER
  /// for the sums that gzip has behind the data.
  Deflate(Input& input, std::string_view format, uint32_t behind) : input_(input), format_(format) {
    isal_inflate_init(&state_);
    state_.crc_flag = behind;
  }

  /// As Stream's.
  Result<size_t> next(std::span<std::byte> out) {
    const auto wanted = static_cast<uint32_t>(std::min<size_t>(out.size(), std::numeric_limits<uint32_t>::max()));
    state_.next_out = reinterpret_cast<uint8_t*>(out.data());
    state_.avail_out = wanted;
    while (state_.avail_out == wanted && state_.block_state != ISAL_BLOCK_FINISH) TRY_VOID(step());
    return wanted - state_.avail_out;
  }

  /// Continues with other data.
  void begin() { isal_inflate_reset(&state_); }

 private:
  Result<void> step() {
    if (input_.left().empty()) TRY_VOID(input_.fill());
    const auto given = input_.left();
    const uint32_t room = state_.avail_out;
    state_.next_in = reinterpret_cast<uint8_t*>(given.data());
    state_.avail_in = static_cast<uint32_t>(given.size());
    const int status = isal_inflate(&state_);
    const size_t taken = given.size() - state_.avail_in;
    input_.consume(taken);
    if (status == ISAL_INCORRECT_CHECKSUM) return broken("CRC-32 or size mismatch");
    if (status != ISAL_DECOMP_OK) return broken(status == ISAL_INVALID_LOOKBACK ? "invalid distance" : "invalid code");
    // Without input it may still have had bits to decode, or bytes to give.
    if (taken == 0 && state_.avail_out == room && state_.block_state != ISAL_BLOCK_FINISH)
      return failure(Code::corrupt, fmt::format("{}: truncated at byte {}", format_, input_.position()));
    return {};
  }

  Result<void> broken(std::string_view what) const {
    return failure(Code::corrupt, fmt::format("{}: {} near byte {}", format_, what, input_.position()));
  }

  Input& input_;
  std::string_view format_;
  inflate_state state_;
};

class InflateStream final : public Stream {
 public:
  explicit InflateStream(SourcePtr compressed) : input_(std::move(compressed)) {}
  Result<size_t> next(std::span<std::byte> out) override { return deflate_.next(out); }

 private:
  Input input_;
  Deflate deflate_{input_, "deflate", ISAL_DEFLATE};
};

class ZlibStream final : public Stream {
 public:
  explicit ZlibStream(SourcePtr compressed) : input_(std::move(compressed)) {}
  Result<size_t> next(std::span<std::byte> out) override { return deflate_.next(out); }

 private:
  Input input_;
  Deflate deflate_{input_, "zlib", ISAL_ZLIB};
};

uint16_t number_at(std::string_view bytes, size_t at) {
  return static_cast<uint16_t>(static_cast<uint8_t>(bytes[at]) | static_cast<uint8_t>(bytes[at + 1]) << 8);
}

// The length of the header (RFC 1952 section 2.3) that `bytes` begin with; 0 when they end before it does.
Result<size_t> gzip_header(std::string_view bytes) {
  constexpr unsigned kChecksum = 2, kExtra = 4, kName = 8, kComment = 16, kReserved = 0xE0;
  constexpr size_t kFixed = 10;
  if (bytes.size() < kFixed) return size_t{0};
  const auto method = static_cast<unsigned>(static_cast<uint8_t>(bytes[2]));
  const auto flags = static_cast<unsigned>(static_cast<uint8_t>(bytes[3]));
  if (method != 8)
    return failure(Code::unsupported, fmt::format("compression method {}, only Deflate (8) is read", method));
  if ((flags & kReserved) != 0) return failure(Code::unsupported, fmt::format("reserved flags in {}", flags));
  size_t at = kFixed;
  if ((flags & kExtra) != 0) {
    if (bytes.size() < at + 2) return size_t{0};
    at += 2U + number_at(bytes, at);
  }
  for (const unsigned text : {kName, kComment}) {
    if ((flags & text) == 0) continue;
    const size_t end = bytes.find('\0', at);
    if (end == bytes.npos) return size_t{0};
    at = end + 1;
  }
  if ((flags & kChecksum) == 0) return at <= bytes.size() ? at : 0;
  if (at + 2 > bytes.size()) return size_t{0};
  if (number_at(bytes, at) != (crc32(0, std::as_bytes(std::span(bytes.substr(0, at)))) & 0xFFFF))
    return failure(Code::corrupt, "a header that does not match its checksum");
  return at + 2;
}

class GunzipStream final : public Stream {
 public:
  explicit GunzipStream(SourcePtr compressed) : input_(std::move(compressed)) {}

  Result<size_t> next(std::span<std::byte> out) override {
    for (;;) {
      if (between_members_ && !TRY(begins_member())) return size_t{0};
      const size_t got = TRY(deflate_.next(out));
      if (got > 0) return got;
      between_members_ = true;
    }
  }

 private:
  // Continues after the header of the next member, if there is one.
  Result<bool> begins_member() {
    constexpr std::string_view kMagic = "\x1F\x8B";
    if (input_.left().size() < kMagic.size()) TRY_VOID(input_.fill());
    const std::string_view magic = left().substr(0, kMagic.size());
    if (!first_ && (magic.empty() || !kMagic.starts_with(magic))) return false;
    if (!kMagic.starts_with(magic)) return failure(Code::corrupt, "gzip: no member at byte 0");
    input_.consume(TRY(header()));
    deflate_.begin();
    first_ = between_members_ = false;
    return true;
  }

  Result<size_t> header() {
    const auto about = [&](const Error& e) {
      return Error{e.code, fmt::format("gzip: {} at byte {}", e.message, input_.position())};
    };
    if (const size_t length = TRY(gzip_header(left()).map_error(about))) return length;
    TRY_VOID(input_.fill());
    if (const size_t length = TRY(gzip_header(left()).map_error(about))) return length;
    if (!input_.is_read())
      return failure(Code::unsupported,
                     fmt::format("gzip: a header of more than {} bytes at byte {}", Input::kBuffer, input_.position()));
    return failure(Code::corrupt, fmt::format("gzip: truncated header at byte {}", input_.position()));
  }

  std::string_view left() {
    const auto left = input_.left();
    return {reinterpret_cast<const char*>(left.data()), left.size()};
  }

  Input input_;
  Deflate deflate_{input_, "gzip", ISAL_GZIP_NO_HDR_VER};
  bool between_members_ = true;
  bool first_ = true;  // no member was seen yet
};

constexpr int kMaxWindowLog = 27;

// A window is allocated with room for some blocks; an allocation larger than this is not of one up to 8 MiB.
constexpr size_t kMaxInMemory = (8U << 20) + (1U << 20);

// The memory of one decoder. A window of 128 MiB for each open member could exhaust the machine's memory; the kernel
// can write pages of a file to disk.
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  ZSTD_customMem functions() { return {allocate, release, this}; }

  /// The error of the last large allocation.
  const std::optional<Error>& problem() const { return problem_; }

 private:
  // In front of each allocation; as long as the strictest alignment, so that what follows is aligned.
  struct alignas(std::max_align_t) Prefix {
    ScratchFile* file;  // it is in, or null
  };

  static void* allocate(void* self, size_t size) {
    if (size > std::numeric_limits<size_t>::max() - sizeof(Prefix)) return nullptr;
    const size_t whole = size + sizeof(Prefix);
    if (whole <= kMaxInMemory) {
      void* memory = std::malloc(whole);
      return memory == nullptr ? nullptr : new (memory) Prefix{nullptr} + 1;
    }
    ScratchFile* const file = static_cast<Workspace*>(self)->file_of(whole).release();
    return file == nullptr ? nullptr : new (file->data()) Prefix{file} + 1;
  }

  // A file is kept for the next window: frames may alternate between needing one and not, and creating a file is slow.
  static void release(void* self, void* address) {
    if (address == nullptr) return;
    Prefix* const prefix = static_cast<Prefix*>(address) - 1;
    if (prefix->file == nullptr) return std::free(prefix);
    std::unique_ptr<ScratchFile> file(prefix->file);
    auto& spare = static_cast<Workspace*>(self)->spare_;
    if (spare == nullptr || spare->size() < file->size()) std::swap(spare, file);
  }

  std::unique_ptr<ScratchFile> file_of(size_t size) {
    if (spare_ != nullptr && spare_->size() >= size) return std::move(spare_);
    size = std::bit_ceil(size);  // or windows that grow little by little would take a file each
    auto file = ScratchFile::create(size);
    const auto grown = file ? (*file)->grow(size) : tl::unexpected(file.error());
    if (grown) return *std::move(file);
    problem_ = grown.error();
    return nullptr;
  }

  std::optional<Error> problem_;
  std::unique_ptr<ScratchFile> spare_;  // that is free
};

class ZstdStream final : public Stream {
 public:
  explicit ZstdStream(SourcePtr compressed)
      : input_(std::move(compressed)), decoder_(ZSTD_createDCtx_advanced(workspace_.functions()), ZSTD_freeDCtx) {
    if (decoder_ == nullptr) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(decoder_.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  }

  Result<size_t> next(std::span<std::byte> out) override {
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    while (to.pos == 0) {
      if (between_frames_ && !TRY(has_frame())) return size_t{0};
      TRY_VOID(step(to));
    }
    return to.pos;
  }

 private:
  // Checked here, as libzstd would also decode legacy formats, with memory that it does not request from our allocator.
  Result<bool> has_frame() {
    constexpr uint32_t kFrame = 0xFD2FB528, kSkippable = 0x184D2A50, kSkippableMask = 0xFFFFFFF0;
    if (input_.left().size() < sizeof(uint32_t)) TRY_VOID(input_.fill());
    const auto left = input_.left();
    if (left.empty()) return false;
    uint32_t magic = 0;
    for (size_t i = std::min(left.size(), sizeof(magic)); i-- > 0;)
      magic = magic << 8 | std::to_integer<uint32_t>(left[i]);
    if (magic == kFrame || (magic & kSkippableMask) == kSkippable) return true;
    return failure(Code::corrupt, fmt::format("zstd: no frame at byte {}", input_.position()));
  }

  Result<void> step(ZSTD_outBuffer& to) {
    if (input_.left().empty()) TRY_VOID(input_.fill());
    const auto given = input_.left();
    ZSTD_inBuffer from{given.data(), given.size(), 0};
    const size_t status = ZSTD_decompressStream(decoder_.get(), &to, &from);
    input_.consume(from.pos);
    if (ZSTD_isError(status) != 0) return refused(ZSTD_getErrorCode(status));
    if (from.pos == 0 && to.pos == 0)
      return failure(Code::corrupt, fmt::format("zstd: truncated at byte {}", input_.position()));
    between_frames_ = status == 0;
    return {};
  }

  Result<void> refused(ZSTD_ErrorCode code) const {
    if (code == ZSTD_error_memory_allocation) {
      const Error problem = workspace_.problem().value_or(Error{Code::resource, "out of memory"});
      return failure(problem.code, fmt::format("zstd: {}", problem.message));
    }
    const std::string message = fmt::format("zstd: {} near byte {}", ZSTD_getErrorString(code), input_.position());
    if (code == ZSTD_error_frameParameter_windowTooLarge)
      return failure(Code::unsupported, fmt::format("{}; windows of up to 128 MiB are read", message));
    return failure(code == ZSTD_error_dictionary_wrong ? Code::unsupported : Code::corrupt, message);
  }

  Input input_;
  bool between_frames_ = true;
  Workspace workspace_;
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> decoder_;
};

}  // namespace

Result<StreamPtr> inflate_stream(SourcePtr compressed) {
  return limit_input("deflate", std::move(compressed), decoder_of<InflateStream>);
}

Result<StreamPtr> zlib_stream(SourcePtr compressed) {
  return limit_input("zlib", std::move(compressed), decoder_of<ZlibStream>);
}

Result<StreamPtr> gunzip_stream(SourcePtr compressed) {
  return limit_input("gzip", std::move(compressed), decoder_of<GunzipStream>);
}

Result<StreamPtr> zstd_stream(SourcePtr compressed) {
  return limit_input("zstd", std::move(compressed), decoder_of<ZstdStream>);
}

}  // namespace weightfs::codec
