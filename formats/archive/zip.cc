#include "formats/archive/zip.h"

#include <fmt/core.h>
#include <zip.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>

#include "base/download_scope.h"
#include "base/files/leaf.h"
#include "base/os/descriptor.h"
#include "base/text.h"
#include "formats/archive/archive.h"
#include "formats/archive/crc_checked.h"
#include "formats/archive/zip_end.h"
#include "formats/archive/zip_source.h"
#include "formats/codec/codec.h"
#include "formats/codec/codec_meter.h"
#include "formats/grouped.h"

namespace weightfs::archive {
namespace {

using zips::ZipSource;

// The minimum limit of a compressed member's stored size.
constexpr uint64_t kMinInput = 16 * 1024;

// The maximum size of the directory, which libzip keeps in memory; enough for kMaxMembers members with names of usual
// length.
constexpr uint64_t kMaxDirectorySize = 512ULL << 20;

// The memory of libzip per member, and the usual size of a record of the directory, in bytes.
constexpr uint64_t kLibzipEntry = 200;
constexpr uint64_t kUsualRecord = 80;

// The memory of Zip::claims_ per member, in bytes.
constexpr uint64_t kClaim = 100;

struct Discard {
  void operator()(zip_t* zip) const { zip_discard(zip); }
};

class Zip;

// A member, opened at the first access beyond its size. There may be a hundred thousand, so it is small, and it is
// stored in its Zip, which every SourcePtr to a member keeps alive.
class Member final : public Source {
 public:
  Member(Zip& zip, uint64_t size, uint32_t index) : zip_(zip), size_(size), index_(index) {}
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size_) return size_t{0};
    // Short reads (format detection) keep no state, as there may be a hundred thousand members.
    const bool little = size_ <= kSmallBlob || (offset <= kHeadSize && out.size() <= kHeadSize - offset);
    if (little && opened_.load(std::memory_order_acquire) == nullptr) return TRY(made())->read(offset, out);
    return TRY(opened())->read(offset, out);
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    return size_ <= kSmallBlob ? read(offset, out) : TRY(opened())->read_ahead(offset, out, expected);
  }
  Result<void> prefetch(ByteRange range) const override;
  // Small members are decoded by each read.
  Result<CachedBytes> cached(ByteRange range) const override {
    return size_ > kSmallBlob ? TRY(opened())->cached(range) : Result<CachedBytes>();
  }
  Result<Place> place(uint64_t offset, Opens opens) const override;
  std::string identity() const override {
    const auto source = opened();
    return source ? (*source)->identity() : "";
  }
  VerifiedBy verification() const override {
    const Source* const source = opened_.load(std::memory_order_acquire);
    return source == nullptr ? VerifiedBy::unknown : source->verification();
  }
  // The decoding of an open file continues between slow reads.
  std::shared_ptr<const void> keep_cached() const override {
    if (size_ <= kSmallBlob) return nullptr;
    const auto source = opened();
    return source ? (*source)->keep_cached() : nullptr;
  }
  SourcePtr verified_file() const override {
    const Source* const source = opened_.load(std::memory_order_acquire);
    return source == nullptr ? nullptr : source->verified_file();
  }

  void expect(const Digest& digest) const;

  uint16_t method() const;

  /// The stored range.
  Result<StoredRange> stored() const;
  /// A member's bytes for a parser.
  Result<SourcePtr> to_parse(const codec::DecodeChargePtr& charge) const;

 private:
  Result<SourcePtr> made(const codec::DecodeChargePtr& charge = nullptr) const;
  Result<const Source*> opened() const;

  Zip& zip_;
  uint64_t size_;
  uint32_t index_;
  mutable std::atomic<const Source*> opened_ = nullptr;
  mutable SourcePtr source_;                      // written once, before opened_; guarded by the zip's mutex, as is
  mutable std::unique_ptr<const Digest> digest_;  // the expected digest
};

// An opened zip. Its members may be read from any thread; access to libzip is serialized.
class Zip {
 public:
  static Result<std::shared_ptr<Zip>> open(const Container& container);

  Zip(const Container& container, const ZipEnd& end, SourcePtr from_begin)
      : bytes_(container.bytes),
        blobs_(container.blobs),
        depth_(container.depth + 1),
        begin_(end.begin),
        feed_(std::move(from_begin), end.directory - end.begin, end.end - end.begin) {}
  Zip(const Zip&) = delete;
  Zip& operator=(const Zip&) = delete;

  // Access to the directory, before members are read.
  uint64_t begin() const { return begin_; }
  uint64_t size() const { return static_cast<uint64_t>(zip_get_num_entries(zip_.get(), ZIP_FL_UNCHANGED)); }
  zip_stat_t stat(uint64_t index) const;
  std::string name(uint64_t index) const;
  bool is_link(uint64_t index) const;
  std::optional<Error> refused(const zip_stat_t& stat) const;

  /// Storage for a member.
  const Member& add(const zip_stat_t& stat) {
    return members_.emplace_back(*this, stat.size, static_cast<uint32_t>(stat.index));
  }

  /// A member's bytes, decoded if compressed and charged to `charge` unless it is null. After the directory phase the
  /// caller holds mutex(). The same applies to the next method.
  Result<SourcePtr> member(uint64_t index, const std::optional<Digest>& digest, const codec::DecodeChargePtr& charge);
  Result<StoredRange> stored_range(uint64_t index);

  std::mutex& mutex() { return mutex_; }

  bool is_ready() const { return weightfs::is_ready(*bytes_); }

 private:
  Result<void> open(Budget& budget);
  std::optional<Error> open_directory();
  Result<uint64_t> data_offset(uint64_t index);
  Result<Slice> stored_bytes(uint64_t index, const zip_stat_t& stat);
  bool agrees(uint64_t offset, const zip_stat_t& stat);

  SourcePtr bytes_;
  BlobsPtr blobs_;
  int depth_;       // of the members' blobs
  uint64_t begin_;  // the size of the data before the zip
  std::deque<Member> members_;
  std::mutex mutex_;  // guards the members below
  // The claims of compressed members about their bytes, by offset.
  struct Claim {
    uint64_t stored_size, size;
    uint32_t crc;
    uint16_t method;
    bool operator==(const Claim&) const = default;
  };
  std::map<uint64_t, Claim> claims_;  // offsets that collide would slow a hash table
  ZipSource feed_;
  std::unique_ptr<zip_t, Discard> zip_;  // reads from feed_ until it is gone
};

Result<std::shared_ptr<Zip>> Zip::open(const Container& container) {
  const ZipEnd end = TRY(find_zip_end(*container.bytes));
  // libzip allocates memory for all claimed members before it parses the first.
  if (end.members > kMaxMembers)
    return failure(Code::unsupported, fmt::format("zip: {} members, at most {} are read", end.members, kMaxMembers));
  if (end.end - end.directory > kMaxDirectorySize)
    return failure(Code::unsupported, fmt::format("zip: a directory of {} bytes, at most {} are read",
                                                  end.end - end.directory, kMaxDirectorySize));
  // The memory of libzip and claims_. Without zip64 there may be more members than claimed, as the number is modulo
  // 65536.
  TRY_VOID(container.budget->charge(Cost::kept, end.end - end.directory));
  TRY_VOID(container.budget->charge(
      Cost::kept, (kLibzipEntry + kClaim) * std::max<uint64_t>(end.members, (end.end - end.directory) / kUsualRecord)));
  const Slice from_begin = TRY(slice(container.bytes, end.begin, container.bytes->size() - end.begin));
  auto zip = std::make_shared<Zip>(container, end, std::make_shared<Slice>(from_begin));
  TRY_VOID(zip->open(*container.budget));
  return zip;
}

// The error that prevents reading, if any.
std::optional<Error> Zip::open_directory() {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_function_create(ZipSource::answer, &feed_, &error);
  if (source != nullptr) zip_.reset(zip_open_from_source(source, ZIP_RDONLY, &error));
  const auto problem = zip_ == nullptr ? std::optional(feed_.error(error)) : std::nullopt;
  if (zip_ == nullptr) zip_source_free(source);
  zip_error_fini(&error);
  return problem;
}

Result<void> Zip::open(Budget& budget) {
  TRY_VOID(feed_.check_names(budget));
  auto problem = open_directory();
  if (problem && problem->code == Code::corrupt && TRY(feed_.hide_encryption())) problem = open_directory();
  if (problem) return tl::unexpected(*problem);
  feed_.directory_is_read();
  if (size() > kMaxMembers) return failure(Code::unsupported, fmt::format("zip: more than {} members", kMaxMembers));
  return {};
}

zip_stat_t Zip::stat(uint64_t index) const {
  zip_stat_t stat;
  zip_stat_init(&stat);
  zip_stat_index(zip_.get(), index, ZIP_FL_UNCHANGED, &stat);  // fails only for an index that there is not
  return stat;
}

// A name is UTF-8 if it is valid UTF-8, whatever its flag, else code page 437. libzip's own guess treats control
// characters as a sign of the latter.
std::string Zip::name(uint64_t index) const {
  if (const std::string* const cut = feed_.cut_name(index)) return *cut;
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

// The reason why a member cannot be read, from the directory alone.
std::optional<Error> Zip::refused(const zip_stat_t& stat) const {
  if (stat.encryption_method != ZIP_EM_NONE) return Error{Code::unsupported, "encrypted"};
  if (stat.comp_method != kStored && stat.comp_method != kDeflate && stat.comp_method != kZstd)
    return Error{Code::unsupported, fmt::format("compression method {}; stored (0), Deflate (8) and zstd (93) are read",
                                                stat.comp_method == zips::kHiddenMethod ? 99 : stat.comp_method)};
  if (stat.comp_method == kStored && stat.comp_size != stat.size)
    return Error{Code::corrupt, fmt::format("stored size {} differs from size {}", stat.comp_size, stat.size)};
  // No writer's output grows so much: such data decode to almost nothing.
  if (stat.comp_method != kStored && stat.comp_size / 4 > stat.size + kMinInput)
    return Error{Code::corrupt, fmt::format("compressed size {} is too large for size {}", stat.comp_size, stat.size)};
  if (stat.comp_size > bytes_->size())
    return Error{Code::corrupt, fmt::format("stored in {} bytes, the zip has {}", stat.comp_size, bytes_->size())};
  return std::nullopt;
}

// libzip does not expose the offset of a member's bytes; it is the offset of its first read.
Result<uint64_t> Zip::data_offset(uint64_t index) {
  feed_.member_is_opened();
  zip_file_t* file = zip_fopen_index(zip_.get(), index, ZIP_FL_COMPRESSED | ZIP_FL_UNCHANGED);
  if (file == nullptr) return tl::unexpected(feed_.error(*zip_get_error(zip_.get())));
  char first;
  const bool read = zip_fread(file, &first, 1) == 1;
  auto offset = read ? Result<uint64_t>(feed_.last_read()) : tl::unexpected(feed_.error(*zip_file_get_error(file)));
  zip_fclose(file);
  if (offset) TRY_VOID(feed_.check_header());
  return offset;
}

Result<Slice> Zip::stored_bytes(uint64_t index, const zip_stat_t& stat) {
  if (auto why = refused(stat)) return tl::unexpected(*why);
  if (stat.comp_size == 0) return slice(bytes_, 0, 0);
  const uint64_t offset = TRY(data_offset(index));
  if (!agrees(offset, stat))
    return failure(Code::corrupt, "another member has the same bytes, with another size, checksum or method");
  return slice(bytes_, begin_ + offset, stat.comp_size);
}

// Members with the same stored bytes share the decoded blob. If each could claim another size, the bytes would be
// decoded for each; of contradicting claims the first one that is read is used.
bool Zip::agrees(uint64_t offset, const zip_stat_t& stat) {
  if (stat.comp_method == kStored) return true;
  const Claim claim{stat.comp_size, stat.size, stat.crc, stat.comp_method};
  return claims_.try_emplace(offset, claim).first->second == claim;
}

Result<SourcePtr> Zip::member(uint64_t index, const std::optional<Digest>& digest,
                              const codec::DecodeChargePtr& charge) {
  const zip_stat_t stat = this->stat(index);
  const std::string name = quoted(this->name(index));
  const Slice stored = TRY(stored_bytes(index, stat).map_error([&](const Error& e) {
    return Error{e.code, fmt::format("{}: {}", name, e.message)};
  }));
  auto bytes = std::make_shared<Slice>(stored);
  if (stat.comp_method == kStored) return bytes;
  BlobProducer recipe{
      .name = name, .size = stat.size, .digest = digest, .key = bytes->identity(), .start = nullptr, .depth = depth_};
  if (!recipe.key.empty())
    recipe.key += fmt::format(" method {} size {} crc32 {}", stat.comp_method, stat.size, stat.crc);
  recipe.start = [=, size = stat.size, crc = stat.crc, method = stat.comp_method]() -> Result<StreamPtr> {
    const codec::Decode decode = method == kZstd ? codec::zstd_stream : codec::inflate_stream;
    return crc_checked(TRY(charge == nullptr ? decode(bytes) : codec::charge_decoding(charge, bytes, decode)), name,
                       size, crc);
  };
  return blobs_->blob(std::move(recipe));
}

Result<StoredRange> Zip::stored_range(uint64_t index) {
  const zip_stat_t stat = this->stat(index);
  return StoredRange{TRY(stored_bytes(index, stat)), stat.comp_method, stat.size, stat.crc};
}

Result<SourcePtr> Member::made(const codec::DecodeChargePtr& charge) const {
  const std::scoped_lock lock(zip_.mutex());
  return zip_.member(index_, digest_ ? std::optional(*digest_) : std::nullopt, charge);
}

uint16_t Member::method() const {
  const std::scoped_lock lock(zip_.mutex());
  return zip_.stat(index_).comp_method;
}

Result<StoredRange> Member::stored() const {
  const std::scoped_lock lock(zip_.mutex());
  return zip_.stored_range(index_);
}

Result<void> Member::prefetch(ByteRange range) const {
  if (DownloadScope::is_active() && zip_.is_ready()) return {};
  if (size_ > kSmallBlob) return TRY(opened())->prefetch(range);
  return DownloadScope::is_active() ? TRY(made())->prefetch(range) : Source::prefetch(range);
}

// A large compressed member is decoded by its first read.
Result<Place> Member::place(uint64_t offset, Opens opens) const {
  const Source* source = opened_.load(std::memory_order_acquire);
  if (source == nullptr && opens == Opens::files) source = TRY(opened());
  Place place = TRY(source == nullptr ? Source::place(offset, opens) : source->place(offset, opens));
  if (!place.is_ready && (size_ <= kSmallBlob || source == nullptr))
    place.is_ready = zip_.is_ready() && (size_ <= kSmallBlob || method() == kStored);
  return place;
}

Result<SourcePtr> Member::to_parse(const codec::DecodeChargePtr& charge) const { return made(charge); }

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

// The texts of links. A text that several members share is decoded once.
class Links {
 public:
  Links(Zip& zip, BudgetPtr budget) : zip_(zip), budget_(std::move(budget)) {}

  /// Nothing if the zip's content is invalid. Fails as the disk and the budget do.
  Result<std::optional<std::string>> text(uint64_t index, const zip_stat_t& stat) {
    // No compressor doubles the size of a text of that length.
    if (stat.size > kMaxLinkLength || stat.comp_size > 2 * kMaxLinkLength) return std::nullopt;
    const auto range = zip_.stored_range(index);
    if (!range && !fails_alone(range.error())) return tl::unexpected(range.error());
    if (!range) return std::nullopt;
    const Key key{range->bytes.offset(), range->bytes.size(), range->method, range->size};
    auto known = known_.find(key);
    if (known == known_.end()) known = known_.emplace(key, TRY(read(*range))).first;
    const auto& text = known->second;
    if (!text || text->size() != stat.size || crc32(0, std::as_bytes(std::span(*text))) != stat.crc)
      return std::nullopt;
    TRY_VOID(budget_->charge(Cost::kept, text->size()));
    return text;
  }

 private:
  struct Key {
    uint64_t offset, stored_size;
    uint16_t method;
    uint64_t size;
    auto operator<=>(const Key&) const = default;
  };

  static bool fails_alone(const Error& error) { return error.code != Code::io && error.code != Code::resource; }

  Result<std::optional<std::string>> read(const StoredRange& range) {
    HeadCost cost;
    auto text = read_head(range, static_cast<size_t>(range.size) + 1, cost);
    TRY_VOID(charge_head(*budget_, cost));
    TRY_VOID(budget_->charge(Cost::kept, sizeof(Key) + 100 + (text ? text->size() : 0)));
    if (!text && !fails_alone(text.error())) return tl::unexpected(text.error());
    return text ? std::optional(*std::move(text)) : std::nullopt;
  }

  Zip& zip_;
  BudgetPtr budget_;
  std::map<Key, std::optional<std::string>> known_;
};

Result<void> add_member(Builder& builder, const std::shared_ptr<Zip>& zip, Links& links, uint64_t index) {
  const std::string name = zip->name(index);
  const zip_stat_t stat = zip->stat(index);
  TRY_VOID(builder.charge_member(name));
  if (name.ends_with('/')) {
    if (stat.size > 0 && name.find_first_not_of("./") != name.npos)
      builder.warnings().miss_file(Code::corrupt, "member {}: a directory with {}: some programs read it as a file",
                                   quoted(name), counted_bytes(stat.size));
    builder.add_directory(name);
    return {};
  }
  const auto miss = [&](Code code, const std::string& problem) {
    builder.warnings().miss_file(code, "member {}: {}", quoted(name), problem);
  };
  // off_t bounds the size of a file.
  if (name.empty() || stat.size > INT64_MAX) {
    if (name.empty())
      builder.warnings().miss_file(Code::unsupported, "member {}: empty name; omitted", index);
    else
      miss(Code::unsupported, fmt::format("{} bytes; omitted", stat.size));
    return {};
  }
  if (const auto why = zip->refused(stat)) {
    miss(why->code, fmt::format("{}; cannot be read", why->message));
  } else if (zip->is_link(index)) {
    if (auto target = TRY(links.text(index, stat))) {
      builder.add_link(name, std::move(*target));
      return {};
    }
    builder.warnings().add("member {}: a link whose text is broken or longer than {} bytes; shown as a file",
                           quoted(name), kMaxLinkLength);
  }
  builder.add_file(name, SourcePtr(zip, &zip->add(stat)), FileChecksums(Crc32{stat.crc}));
  return {};
}

const Member* member_of(const Source& source) { return dynamic_cast<const Member*>(&source); }

}  // namespace

Result<Archive> zip_members(const Container& container) {
  const auto zip = TRY(Zip::open(container));
  const uint64_t members = zip->size();
  // As Python's zipfile and unzip.
  Builder builder(DuplicatePolicy::last_wins, container.budget);
  Links links(*zip, container.budget);
  if (zip->begin() > 0) builder.warnings().add("{} bytes before the zip are ignored", zip->begin());
  for (uint64_t i = 0; i < members; ++i) TRY_VOID(add_member(builder, zip, links, i));
  Archive archive = std::move(builder).finish();
  if (!archive.respelled.empty())
    return failure(Code::corrupt, fmt::format("zip: several members have the path {} under different names: programs "
                                              "differ in which one they read",
                                              quoted(archive.respelled)));
  return archive;
}

void expect_digest(const Part& part) {
  const auto source = part.source.peek();
  const Digest* const digest = part.checksums.get<Digest>();
  const auto* member = source && digest != nullptr ? member_of(**source) : nullptr;
  if (member != nullptr) member->expect(*digest);
}

std::optional<uint16_t> method_of(const Source& source) {
  const Member* const member = member_of(source);
  return member == nullptr ? std::nullopt : std::optional(member->method());
}

Result<std::optional<StoredRange>> stored_range_of(const Source& source) {
  const Member* const member = member_of(source);
  return member == nullptr ? Result<std::optional<StoredRange>>(std::nullopt) : TRY(member->stored());
}

Result<SourcePtr> bytes_to_parse(const SourcePtr& source, const codec::DecodeChargePtr& charge) {
  const Member* const member = member_of(*source);
  return member == nullptr ? source : member->to_parse(charge);
}

}  // namespace weightfs::archive
