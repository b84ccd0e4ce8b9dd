#include "formats/zip.h"

#include <zip.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>

#include "base/text.h"
#include "formats/archive.h"
#include "formats/checked.h"
#include "formats/codec.h"
#include "formats/zip_end.h"

namespace weightfs {
namespace {

// A directory of kMostMembers members with names of usual length stays below; libzip holds all of it in memory.
constexpr uint64_t kLongestDirectory = 512ULL << 20;

// As APPNOTE 4.4.5 numbers them.
enum Method : uint16_t { kStored = 0, kDeflate = 8, kZstd = 93 };

// What libzip reads from: a Source with a place where it is.
class Feed {
 public:
  /// `zip`: from its first byte on. The directory lies at [directory, end) of it.
  Feed(SourcePtr zip, uint64_t directory, uint64_t end) : zip_(std::move(zip)), directory_(directory), end_(end) {}

  static zip_int64_t answer(void* self, void* data, zip_uint64_t length, zip_source_cmd_t command) {
    auto& feed = *static_cast<Feed*>(self);
    try {
      return feed.answer(data, length, command);
    } catch (const std::bad_alloc&) {
      zip_error_set(&feed.zip_error_, ZIP_ER_MEMORY, 0);
      return -1;
    }
  }

  /// From now on members are read, not the directory.
  void directory_is_read() {
    opening_ = false;
    error_.reset();
    window_ = {};
  }

  uint64_t last_read() const { return last_read_; }  ///< where the last read began

  /// What went wrong: an error of ours, or what libzip says of the bytes.
  Error error(zip_error_t& libzip) {
    if (error_) return *std::exchange(error_, std::nullopt);
    const Code code = zip_error_code_zip(&libzip) == ZIP_ER_MEMORY ? Code::unavailable : Code::corrupt;
    return {code, str("zip: libzip says \"", zip_error_strerror(&libzip), "\"")};
  }

 private:
  static constexpr size_t kWindow = 64 * 1024;

  zip_int64_t answer(void* data, zip_uint64_t length, zip_source_cmd_t command) {
    switch (command) {
      case ZIP_SOURCE_OPEN:
        at_ = 0;
        return 0;
      case ZIP_SOURCE_READ:
        return read({static_cast<std::byte*>(data), length});
      case ZIP_SOURCE_SEEK: {
        const zip_int64_t to = zip_source_seek_compute_offset(at_, zip_->size(), data, length, &zip_error_);
        if (to >= 0) at_ = static_cast<uint64_t>(to);
        return to < 0 ? -1 : 0;
      }
      case ZIP_SOURCE_TELL:
        return static_cast<zip_int64_t>(at_);
      case ZIP_SOURCE_STAT: {
        auto* stat = static_cast<zip_stat_t*>(data);
        zip_stat_init(stat);
        stat->valid = ZIP_STAT_SIZE;
        stat->size = zip_->size();
        return sizeof(*stat);
      }
      case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&zip_error_, data, length);
      case ZIP_SOURCE_SUPPORTS:
        return ZIP_SOURCE_SUPPORTS_SEEKABLE;
      case ZIP_SOURCE_CLOSE:
      case ZIP_SOURCE_FREE:
        return 0;
      default:
        zip_error_set(&zip_error_, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
  }

  zip_int64_t read(std::span<std::byte> out) {
    last_read_ = at_;
    const auto got = opening_ ? read_directory(out) : zip_->read(at_, out);
    if (!got) {
      error_ = got.error();
      zip_error_set(&zip_error_, ZIP_ER_READ, 0);
      return -1;
    }
    at_ += *got;
    return static_cast<zip_int64_t>(*got);
  }

  // libzip reads a directory in two bites per member; and it takes as an end record whatever looks like one, so that it
  // is shown nothing but the directory and the right one. After a failure it may try on.
  Result<size_t> read_directory(std::span<std::byte> out) {
    if (error_) return tl::unexpected(*error_);
    if (reads_++ > 2 * kMostMembers + 1000)
      return failure(Code::unsupported, str("zip: more than ", kMostMembers, " members"));
    const size_t got = TRY(out.size() < kWindow ? read_window(out) : zip_->read(at_, out));
    const uint64_t shown = std::clamp(directory_, at_, at_ + got);
    const uint64_t hidden = std::clamp(end_, shown, at_ + got);
    std::ranges::fill(out.first(shown - at_), std::byte{0});
    std::ranges::fill(out.first(got).subspan(hidden - at_), std::byte{0});
    return got;
  }

  Result<size_t> read_window(std::span<std::byte> out) {
    const uint64_t wanted = std::min<uint64_t>(out.size(), zip_->size() - std::min(at_, zip_->size()));
    if (at_ < window_at_ || at_ + wanted > window_at_ + window_.size()) {
      window_.resize(kWindow);
      window_.resize(TRY(zip_->read(window_at_ = at_, window_)));
    }
    if (wanted > 0) std::memcpy(out.data(), window_.data() + (at_ - window_at_), wanted);
    return wanted;
  }

  SourcePtr zip_;
  uint64_t directory_, end_;
  uint64_t at_ = 0;
  uint64_t last_read_ = 0;
  bool opening_ = true;
  size_t reads_ = 0;
  std::vector<std::byte> window_;  // while opening: bytes from window_at_ on
  uint64_t window_at_ = 0;
  std::optional<Error> error_;
  zip_error_t zip_error_ = {};  // holds codes only: nothing to free
};

struct Discard {
  void operator()(zip_t* zip) const { zip_discard(zip); }
};

class Zip;

// A member, opened when it is first asked for more than its size. There may be a hundred thousand: it is kept small,
// and lives in its zip, which whoever has the member holds.
class Member final : public Source {
 public:
  Member(Zip& zip, uint64_t size, uint32_t index) : zip_(zip), size_(size), index_(index) {}
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size_) return size_t{0};
    // Of a hundred thousand members that are looked at, none keeps what it takes to read it.
    const bool little = size_ <= kSmallBlob || (offset <= kHeadSize && out.size() <= kHeadSize - offset);
    if (little && opened_.load(std::memory_order_acquire) == nullptr) return TRY(made())->read(offset, out);
    return TRY(opened())->read(offset, out);
  }
  std::optional<Extent> extent() const override {
    const auto source = opened();
    return source ? (*source)->extent() : std::nullopt;
  }
  std::string identity() const override {
    const auto source = opened();
    return source ? (*source)->identity() : "";
  }

  void expect(const Digest& digest) const;

 private:
  Result<SourcePtr> made() const;
  Result<const Source*> opened() const;

  Zip& zip_;
  uint64_t size_;
  uint32_t index_;
  mutable std::atomic<const Source*> opened_ = nullptr;
  mutable SourcePtr source_;                      // written once, before opened_; guarded by the zip's mutex, as is
  mutable std::unique_ptr<const Digest> digest_;  // what its bytes must have
};

// An opened zip. Its members are callable from any thread; libzip is not.
class Zip {
 public:
  static Result<std::shared_ptr<Zip>> open(const Container& container);

  Zip(const Container& container, const ZipEnd& end, SourcePtr from_begin)
      : bytes_(container.bytes),
        blobs_(container.blobs),
        begin_(end.begin),
        feed_(std::move(from_begin), end.directory - end.begin, end.end - end.begin) {}
  Zip(const Zip&) = delete;
  Zip& operator=(const Zip&) = delete;

  // Of the directory; before members are read.
  uint64_t begin() const { return begin_; }
  uint64_t size() const { return static_cast<uint64_t>(zip_get_num_entries(zip_.get(), ZIP_FL_UNCHANGED)); }
  zip_stat_t stat(uint64_t index) const;
  std::string name(uint64_t index) const;
  bool is_link(uint64_t index) const;
  std::optional<Error> refused(const zip_stat_t& stat) const;

  /// Room for a member of it.
  const Member& add(const zip_stat_t& stat) {
    return members_.emplace_back(*this, stat.size, static_cast<uint32_t>(stat.index));
  }

  /// A member's bytes, made by `blobs` where they are compressed. Once members are read, the caller holds mutex().
  Result<SourcePtr> member(uint64_t index, Blobs& blobs, const std::optional<Digest>& digest = {});
  Blobs& blobs() const { return *blobs_; }
  std::mutex& mutex() { return mutex_; }

 private:
  Result<void> open();
  Result<uint64_t> data_offset(uint64_t index);
  Result<Slice> stored_bytes(uint64_t index, const zip_stat_t& stat);

  SourcePtr bytes_;
  BlobsPtr blobs_;
  uint64_t begin_;  // what stands in front of the zip
  std::deque<Member> members_;
  std::mutex mutex_;  // guards what follows
  Feed feed_;
  std::unique_ptr<zip_t, Discard> zip_;  // reads from feed_ until it is gone
};

Result<std::shared_ptr<Zip>> Zip::open(const Container& container) {
  const ZipEnd end = TRY(find_zip_end(*container.bytes));
  // libzip makes room for all members that are claimed, before it looks for the first.
  if (end.members > kMostMembers)
    return failure(Code::unsupported, str("zip: ", end.members, " members, at most ", kMostMembers, " are read"));
  if (end.end - end.directory > kLongestDirectory)
    return failure(Code::unsupported, str("zip: a directory of ", end.end - end.directory, " bytes, at most ",
                                          kLongestDirectory, " are read"));
  const Slice from_begin = TRY(slice(container.bytes, end.begin, container.bytes->size() - end.begin));
  auto zip = std::make_shared<Zip>(container, end, std::make_shared<Slice>(from_begin));
  TRY_VOID(zip->open());
  return zip;
}

Result<void> Zip::open() {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_function_create(Feed::answer, &feed_, &error);
  if (source != nullptr) zip_.reset(zip_open_from_source(source, ZIP_RDONLY, &error));
  const auto problem = zip_ == nullptr ? std::optional(feed_.error(error)) : std::nullopt;
  if (zip_ == nullptr) zip_source_free(source);
  zip_error_fini(&error);
  if (problem) return tl::unexpected(*problem);
  feed_.directory_is_read();
  if (size() > kMostMembers) return failure(Code::unsupported, str("zip: more than ", kMostMembers, " members"));
  return {};
}

zip_stat_t Zip::stat(uint64_t index) const {
  zip_stat_t stat;
  zip_stat_init(&stat);
  zip_stat_index(zip_.get(), index, ZIP_FL_UNCHANGED, &stat);  // fails only for an index that there is not
  return stat;
}

// UTF-8, flag or not, if it can be that, else code page 437. libzip's own guess takes a control character for a sign of
// the latter.
std::string Zip::name(uint64_t index) const {
  const char* raw = zip_get_name(zip_.get(), index, ZIP_FL_UNCHANGED | ZIP_FL_ENC_RAW);
  if (raw != nullptr && is_utf8(raw)) return raw;
  const char* guessed = zip_get_name(zip_.get(), index, ZIP_FL_UNCHANGED | ZIP_FL_ENC_GUESS);
  return guessed == nullptr ? "" : guessed;
}

bool Zip::is_link(uint64_t index) const {
  constexpr uint32_t kType = 0170000, kLink = 0120000;
  zip_uint8_t system = 0;
  zip_uint32_t attributes = 0;
  zip_file_get_external_attributes(zip_.get(), index, ZIP_FL_UNCHANGED, &system, &attributes);
  return system == ZIP_OPSYS_UNIX && (attributes >> 16 & kType) == kLink;
}

// Why a member cannot be read, as far as the directory tells.
std::optional<Error> Zip::refused(const zip_stat_t& stat) const {
  if (stat.encryption_method != ZIP_EM_NONE) return Error{Code::unsupported, "encrypted"};
  if (stat.comp_method != kStored && stat.comp_method != kDeflate && stat.comp_method != kZstd)
    return Error{Code::unsupported,
                 str("compression method ", stat.comp_method, "; stored (0), Deflate (8) and zstd (93) are read")};
  if (stat.comp_method == kStored && stat.comp_size != stat.size)
    return Error{Code::corrupt, str("stored in ", stat.comp_size, " bytes, ", stat.size, " is its size")};
  if (stat.comp_size > bytes_->size())
    return Error{Code::corrupt, str("stored in ", stat.comp_size, " bytes, the zip has ", bytes_->size())};
  return std::nullopt;
}

// libzip does not tell where a member's bytes begin, but it shows when it reads the first.
Result<uint64_t> Zip::data_offset(uint64_t index) {
  zip_file_t* file = zip_fopen_index(zip_.get(), index, ZIP_FL_COMPRESSED | ZIP_FL_UNCHANGED);
  if (file == nullptr) return tl::unexpected(feed_.error(*zip_get_error(zip_.get())));
  char first;
  const bool read = zip_fread(file, &first, 1) == 1;
  auto offset = read ? Result<uint64_t>(feed_.last_read()) : tl::unexpected(feed_.error(*zip_file_get_error(file)));
  zip_fclose(file);
  return offset;
}

Result<Slice> Zip::stored_bytes(uint64_t index, const zip_stat_t& stat) {
  if (auto why = refused(stat)) return tl::unexpected(*why);
  if (stat.comp_size == 0) return slice(bytes_, 0, 0);
  return slice(bytes_, begin_ + TRY(data_offset(index)), stat.comp_size);
}

Result<SourcePtr> Zip::member(uint64_t index, Blobs& blobs, const std::optional<Digest>& digest) {
  const zip_stat_t stat = this->stat(index);
  const std::string name = quoted(this->name(index));
  const Slice stored = TRY(stored_bytes(index, stat).map_error([&](const Error& e) {
    return Error{e.code, str(name, ": ", e.message)};
  }));
  auto bytes = std::make_shared<Slice>(stored);
  if (stat.comp_method == kStored) return bytes;
  Recipe recipe{.name = name, .size = stat.size, .digest = digest, .key = bytes->identity(), .start = nullptr};
  if (!recipe.key.empty()) recipe.key += str(" method ", stat.comp_method, " size ", stat.size, " crc32 ", stat.crc);
  recipe.start = [bytes, name, size = stat.size, crc = stat.crc, method = stat.comp_method]() -> Result<StreamPtr> {
    StreamPtr decoder = TRY(method == kZstd ? decompressed_zstd(bytes) : inflated(bytes));
    return checked(std::move(decoder), name, size, crc);
  };
  return blobs.blob(std::move(recipe));
}

Result<SourcePtr> Member::made() const {
  const std::scoped_lock lock(zip_.mutex());
  return zip_.member(index_, zip_.blobs(), digest_ ? std::optional(*digest_) : std::nullopt);
}

Result<const Source*> Member::opened() const {
  if (const Source* source = opened_.load(std::memory_order_acquire)) return source;
  SourcePtr made = TRY(this->made());
  const std::scoped_lock lock(zip_.mutex());
  if (source_ == nullptr) source_ = std::move(made);
  opened_.store(source_.get(), std::memory_order_release);
  return source_.get();
}

void Member::expect(const Digest& digest) const {
  const std::scoped_lock lock(zip_.mutex());
  digest_ = std::make_unique<const Digest>(digest);
}

// The text of a link; nothing when that cannot be had, because of what the zip holds. It is not worth a blob.
Result<std::optional<std::string>> link_target(Zip& zip, uint64_t index, const zip_stat_t& stat) {
  if (stat.size > kLongestLink) return std::nullopt;
  const auto read = [&]() -> Result<std::string> {
    const SourcePtr source = TRY(zip.member(index, *unstored_blobs()));
    return read_text(*source, 0, source->size());
  };
  auto text = read();
  if (!text && (text.error().code == Code::io || text.error().code == Code::unavailable))
    return tl::unexpected(text.error());
  if (!text || crc32(0, std::as_bytes(std::span(*text))) != stat.crc) return std::nullopt;
  return std::move(*text);
}

Result<void> add_member(ArchiveBuilder& builder, const std::shared_ptr<Zip>& zip, uint64_t index) {
  const std::string name = zip->name(index);
  const zip_stat_t stat = zip->stat(index);
  if (name.ends_with('/')) {
    builder.add_directory(name);
    return {};
  }
  const auto warn = [&](const auto&... parts) { builder.warnings().add("member ", quoted(name), ": ", parts...); };
  // No file has a size that off_t does not hold.
  if (name.empty() || stat.size > INT64_MAX) {
    warn(name.empty() ? str("it is number ", index, " and has no name") : str(stat.size, " bytes"), "; left out");
    return {};
  }
  if (const auto why = zip->refused(stat)) {
    warn(why->message, "; cannot be read");
  } else if (zip->is_link(index)) {
    if (auto target = TRY(link_target(*zip, index, stat))) {
      builder.add_link(name, std::move(*target));
      return {};
    }
    warn("a link whose text is broken or longer than ", kLongestLink, " bytes; shown as a file");
  }
  builder.add_file(name, SourcePtr(zip, &zip->add(stat)), stat.crc);
  return {};
}

}  // namespace

Result<Archive> zip_members(const Container& container) {
  const auto zip = TRY(Zip::open(container));
  ArchiveBuilder builder(Twice::first_wins);
  if (zip->begin() > 0) builder.warnings().add(zip->begin(), " bytes in front of the zip are no part of it");
  const uint64_t members = zip->size();
  builder.reserve(members);
  for (uint64_t i = 0; i < members; ++i) TRY_VOID(add_member(builder, zip, i));
  return std::move(builder).finish();
}

void expect_digest(const Part& part) {
  const auto source = part.source.peek();
  const auto* member = source && part.digest ? dynamic_cast<const Member*>(source->get()) : nullptr;
  if (member != nullptr) member->expect(*part.digest);
}

}  // namespace weightfs
