// Lists the members of a tar by libarchive: ustar, PAX, GNU and older formats (tar(5) of libarchive 3.6). A plain tar
// is read once, from header to header; its members are slices of it. A compressed tar is decoded once, into a blob, and
// read from there.
#include "formats/archive/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <limits>
#include <span>

#include "base/text.h"
#include "formats/archive/archive.h"
#include "formats/archive/tar_sparse.h"
#include "formats/codec/codec_meter.h"
#include "formats/grouped.h"

namespace weightfs::archive {
namespace {

using namespace tar;

// The size of one read: a few headers, if the members are small.
constexpr size_t kStep = 16 * 1024;

// The maximum size of all headers of one member, including extended ones and a map of its holes. libarchive alone
// allows extended headers of 1 MiB, 32 for each member, and unlimited maps.
constexpr uint64_t kMaxHeaderBytes = 5 * kStep;

constexpr size_t kMaxMemberNameLength = 65'535;

// The sparse members of a tar may be larger than this only if they are at most kMaxExpansion times as large as the tar,
// as the datasets of HDF5: programs that read all files must get to an end.
constexpr uint64_t kMaxFreeSize = 1 << 30;
constexpr uint64_t kMaxExpansion = 100;

uint64_t padded(uint64_t size) { return (size + kBlock - 1) / kBlock * kBlock; }

// The input of libarchive: a source, read in order.
struct Input {
  SourcePtr source;
  uint64_t at = 0;
  uint64_t left = std::numeric_limits<uint64_t>::max();  // bytes that it may still read
  std::optional<Error> error = {};
  bool headers_only = false;  // only headers are read, so changed data have no effect
  std::string buffer = std::string(kStep + kMaxKeyLength, '\0');
  size_t given_before = 0;  // the size of the part that libarchive has
  size_t ahead = 0;         // the size of the part read ahead
  std::string passed = {};  // bytes that libarchive has had, from passed_at on
  uint64_t passed_at = 0;
  uint64_t kept_from = 0;  // those from here on stay in `passed`, as far as they are read without a gap

  Result<size_t> next() {
    if (at >= source->size()) return size_t{0};
    if (left < kStep) return failure(Code::corrupt, fmt::format("more than {} bytes of headers", kMaxHeaderBytes));
    // Bytes that were read ahead are not read again: a decoded stream would start over.
    if (ahead > 0) std::memmove(buffer.data(), buffer.data() + given_before, ahead);
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(buffer.size() - ahead, source->size() - at - ahead));
    const size_t got =
        ahead + TRY(source->read(at + ahead, std::as_writable_bytes(std::span(buffer).subspan(ahead, wanted))));
    const size_t given = std::min(got, kStep);
    if (headers_only) hide_access_lists(std::span(buffer).first(got), given);
    if (headers_only) pass(given);
    given_before = given;
    ahead = got - given;
    left -= kStep;
    at += given;
    return given;
  }

  // Adds the beginning of the buffer, which is at `at`, to `passed`.
  void pass(size_t given) {
    if (passed_at + passed.size() != at || kept_from > at) passed.clear();
    if (passed.empty()) passed_at = at;
    if (kept_from > passed_at) {
      passed.erase(0, static_cast<size_t>(kept_from - passed_at));
      passed_at = kept_from;
    }
    passed.append(buffer, 0, given);
  }

  // The callbacks. No exception may pass through a C library.
  static la_ssize_t read(::archive*, void* self, const void** block) noexcept {
    auto& input = *static_cast<Input*>(self);
    *block = input.buffer.data();
    try {
      const auto got = input.next();
      if (got) return static_cast<la_ssize_t>(*got);
      input.error = got.error();
    } catch (const std::exception& error) {
      input.error = Error{Code::resource, error.what()};
    }
    return ARCHIVE_FATAL;
  }

  static la_int64_t skip(::archive*, void* self, la_int64_t request) noexcept {
    auto& input = *static_cast<Input*>(self);
    const uint64_t step = std::min(static_cast<uint64_t>(request), input.source->size() - input.at);
    input.at += step;
    const auto passed = static_cast<size_t>(std::min<uint64_t>(step, input.ahead));
    input.given_before += passed;
    input.ahead -= passed;
    return static_cast<la_int64_t>(step);
  }
};

// A reader of libarchive.
class ArchiveReader {
 public:
  static Result<std::unique_ptr<ArchiveReader>> of_headers(SourcePtr source) {
    return open({.source = std::move(source), .headers_only = true}, archive_read_support_format_tar);
  }

  // For libarchive a compressed stream has one member, without a name and a size.
  static Result<std::unique_ptr<ArchiveReader>> of_compressed(SourcePtr source, int (*filter)(::archive*)) {
    auto reader = TRY(open({std::move(source)}, archive_read_support_format_raw, filter));
    const int got = reader->next_header();
    if (got != ARCHIVE_OK && got != ARCHIVE_EOF) return tl::unexpected(reader->error());
    // libarchive applies a filter repeatedly.
    if (archive_filter_count(reader->get()) > 2) return failure(Code::unsupported, "compressed more than once");
    return reader;
  }

  ::archive* get() const { return handle_.get(); }
  archive_entry* entry() const { return entry_; }

  int next_header() { return archive_read_next_header(get(), &entry_); }

  int next_tar_header() {
    input_.left = kMaxHeaderBytes;
    input_.kept_from = position();
    const int got = next_header();
    input_.left = std::numeric_limits<uint64_t>::max();
    return got;
  }

  // The bytes of headers at these offsets; empty if libarchive went back for them.
  std::string_view headers(uint64_t from, uint64_t to) const {
    if (from < input_.passed_at || to > input_.passed_at + input_.passed.size() || to < from) return {};
    return std::string_view(input_.passed)
        .substr(static_cast<size_t>(from - input_.passed_at), static_cast<size_t>(to - from));
  }

  // The offset of the next byte.
  uint64_t position() const { return static_cast<uint64_t>(archive_filter_bytes(get(), 0)); }

  // The error; one of the source takes precedence.
  Error error() const {
    if (input_.error) return *input_.error;
    if (archive_errno(get()) == ENOMEM) return {Code::resource, "out of memory"};
    const char* const message = archive_error_string(get());
    return {Code::corrupt, message == nullptr ? "broken" : to_utf8(message)};
  }

 private:
  explicit ArchiveReader(Input input) : input_(std::move(input)) {}

  template <class... Support>
  static Result<std::unique_ptr<ArchiveReader>> open(Input input, Support... support) {
    std::unique_ptr<ArchiveReader> reader(new ArchiveReader(std::move(input)));
    ::archive* const handle = reader->get();
    if (handle == nullptr) return failure(Code::resource, "out of memory");
    // ARCHIVE_WARN: it would run a program.
    if (((support(handle) != ARCHIVE_OK) || ...))
      return failure(Code::unsupported, "libarchive was built without support for this format or filter");
    if (archive_read_open2(handle, &reader->input_, nullptr, Input::read, Input::skip, nullptr) != ARCHIVE_OK)
      return tl::unexpected(reader->error());
    return reader;
  }

  struct Free {
    void operator()(::archive* handle) const { archive_read_free(handle); }
  };

  Input input_;
  std::unique_ptr<::archive, Free> handle_{archive_read_new()};
  archive_entry* entry_ = nullptr;
};

using ReaderPtr = std::unique_ptr<ArchiveReader>;

// Decodes what a filter of libarchive decodes.
class FilterStream final : public Stream {
 public:
  FilterStream(std::string_view name, ReaderPtr reader) : name_(name), reader_(std::move(reader)) {}

  static Result<StreamPtr> open(std::string_view name, SourcePtr bytes, int (*filter)(::archive*)) {
    auto reader = ArchiveReader::of_compressed(std::move(bytes), filter);
    if (!reader) return tl::unexpected(about(name, reader.error()));
    return std::make_unique<FilterStream>(name, std::move(*reader));
  }

  Result<size_t> next(std::span<std::byte> out) override {
    const la_ssize_t got = archive_read_data(reader_->get(), out.data(), out.size());
    if (got < 0) return tl::unexpected(about(name_, reader_->error()));
    return static_cast<size_t>(got);
  }

 private:
  static Error about(std::string_view name, const Error& error) {
    return error.code == Code::io ? error : Error{error.code, fmt::format("{}: {}", name, error.message)};
  }

  std::string_view name_;
  ReaderPtr reader_;
};

// Lists the members of a tar by its headers.
class TarLister {
 public:
  TarLister(SourcePtr tar, BudgetPtr budget)
      : tar_(std::move(tar)), budget_(std::move(budget)), builder_(DuplicatePolicy::last_wins, budget_) {}

  Result<Archive> all() && {
    reader_ = TRY(ArchiveReader::of_headers(tar_));
    while (TRY(add_next())) {
    }
    Archive archive = std::move(builder_).finish();
    TRY_VOID(check_names(archive, has_times_as_name_));
    return archive;
  }

 private:
  // A member as described by its headers.
  struct Member {
    std::string name;
    uint64_t header;              // where they begin
    uint64_t begin;               // where its bytes begin
    std::optional<uint64_t> end;  // where the padding behind them ends; nothing when the tar ends before
  };

  // libarchive 3.8 has another number for it, which other warnings have, too.
  static bool is_about_conversion(int number, const char* message) {
    return number == EILSEQ || (message != nullptr && std::strstr(message, "t be converted from") != nullptr);
  }

  uint64_t header_position() const { return static_cast<uint64_t>(archive_read_header_position(reader_->get())); }

  // Whether there may be another member.
  Result<bool> add_next() {
    const uint64_t end = reader_->position();
    const int got = reader_->next_tar_header();
    if (got == ARCHIVE_EOF) {
      TRY_VOID(check_end(end));
      return false;
    }
    if (got != ARCHIVE_OK && got != ARCHIVE_WARN) return stopped();
    if (++members_ > kMaxMembers) return failure(Code::unsupported, fmt::format("more than {} members", kMaxMembers));
    auto member = next_member(got);
    TRY_VOID(budget_->charge(Cost::input, reader_->position() - header_position()));
    const std::string_view headers = reader_->headers(header_position(), reader_->position());
    has_times_as_name_ |= has_times_as_name(headers);
    if (const auto why = contradiction(headers))
      return failure(Code::corrupt, fmt::format("tar: at byte {}: {}: programs differ in the names that they read",
                                                header_position(), *why));
    if (member) TRY_VOID(builder_.charge_member(member->name));
    const bool whole = archive_read_data_skip(reader_->get()) == ARCHIVE_OK;
    if (!whole && reader_->error().code != Code::corrupt) return tl::unexpected(reader_->error());
    if (member) {
      if (whole) member->end = reader_->position();
      TRY_VOID(add(*member));
    }
    return whole;
  }

  // Two blocks of zeros end a tar, and anything may follow them: another tar, a signature. libarchive also stops at a
  // single one, which a header that was overwritten may be.
  Result<void> check_end(uint64_t end) {
    const uint64_t next = reader_->position(), size = tar_->size();
    if (next - end != kBlock || next >= size) return {};
    const std::string block = TRY(read_text(*tar_, next, std::min<uint64_t>(kBlock, size - next)));
    if (block.find_first_not_of('\0') == block.npos) return {};
    builder_.warnings().miss_file(Code::corrupt,
                                  "at byte {}, after {} members: a single block of zeros, and {} behind it; later "
                                  "members are not shown",
                                  end, members_, counted_bytes(size - next));
    return {};
  }

  // An error in the middle ends the list; an error at the first byte means that it is not a tar.
  Result<bool> stopped() {
    const Error error = reader_->error();
    if (error.code != Code::corrupt || members_ == 0) return tl::unexpected(error);
    // libarchive has no position of a header that it could not read.
    const uint64_t at = std::min(header_position(), reader_->position());
    builder_.warnings().miss_file(error.code, "at byte {}, after {} members: {}; later members are not shown", at,
                                  members_, error.message);
    return false;
  }

  // The member of the current headers; nothing if its name cannot be read. A name has the bytes of the tar: weightfs
  // sets no locale, so libarchive fails to convert a non-ASCII PAX name, reports that and keeps the bytes.
  std::optional<Member> next_member(int got) {
    ::archive* const a = reader_->get();
    const char* const name = archive_entry_pathname(reader_->entry());
    Member member{name == nullptr ? "" : name, header_position(), reader_->position(), std::nullopt};
    if (got == ARCHIVE_WARN && !is_about_conversion(archive_errno(a), archive_error_string(a)))
      builder_.warnings().add("member {}: {}", quoted(member.name), reader_->error().message);
    if (!member.name.empty() && member.name.size() <= kMaxMemberNameLength) return member;
    builder_.warnings().miss_file(Code::unsupported, "member {}: omitted: its name has {} bytes, 1 to {} are possible",
                                  members_, member.name.size(), kMaxMemberNameLength);
    return std::nullopt;
  }

  Result<void> add(const Member& member) {
    archive_entry* const entry = reader_->entry();
    // A PAX hard link with bytes of its own is a file.
    const char* const same = archive_entry_hardlink(entry);
    if (same != nullptr && archive_entry_size(entry) == 0) {
      TRY_VOID(budget_->charge(Cost::kept, std::strlen(same)));
      builder_.add_hard_link(member.name, same);
      return {};
    }
    const auto type = archive_entry_filetype(entry);
    if (type == AE_IFREG) return add_file(member);
    if (type == AE_IFDIR) {
      builder_.add_directory(member.name);
    } else if (type == AE_IFLNK) {
      const char* const target = archive_entry_symlink(entry);
      TRY_VOID(budget_->charge(Cost::kept, target == nullptr ? 0 : std::strlen(target)));
      builder_.add_link(member.name, target == nullptr ? "" : target);
    } else {
      leave_out(member, type);
    }
    return {};
  }

  void leave_out(const Member& member, unsigned type) {
    leave_out(member, type == AE_IFCHR || type == AE_IFBLK ? "device"
                      : type == AE_IFIFO                   ? "FIFO"
                      : type == AE_IFSOCK                  ? "socket"
                                                           : "unknown type");
  }

  void leave_out(const Member& member, std::string_view what) {
    builder_.warnings().add("member {}: omitted: {}", quoted(member.name), what);
  }

  Result<void> add_file(const Member& member) {
    archive_entry* const entry = reader_->entry();
    if (archive_entry_size(entry) < 0) {
      builder_.warnings().miss_file(Code::corrupt, "member {}: omitted: negative size", quoted(member.name));
      return {};
    }
    const auto size = static_cast<uint64_t>(archive_entry_size(entry));
    // libarchive 3.8 has no sparse map of a file that is one hole; before, a file without bytes and map is invalid.
    const bool is_hole = archive_version_number() >= 3'008'000 && size > 0 && member.end == member.begin &&
                         archive_entry_hardlink(entry) == nullptr;
    if (is_hole || archive_entry_sparse_count(entry) > 0) return add_sparse(member, size);
    auto bytes = slice(tar_, member.begin, size);
    // The size in the headers of a sparse file may differ from its stored size.
    if (!bytes)
      refuse(member, size,
             fmt::format("cut: the archive ends {} early", exact_size(member.begin + size - tar_->size())));
    else if (member.end && padded(size) != *member.end - member.begin)
      refuse(member, size, fmt::format("a size of {}, but {} bytes are stored", size, *member.end - member.begin));
    else
      builder_.add_file(member.name, std::make_shared<const Slice>(*std::move(bytes)));
    if (bytes && padded(size) > tar_->size() - member.begin)
      builder_.warnings().miss_tensors(0, Code::corrupt, "the archive ends in the padding behind the member {}",
                                       quoted(member.name));
    return {};
  }

  // A file that is listed but cannot be read.
  void refuse(const Member& member, uint64_t size, const std::string& why) {
    builder_.warnings().miss_file(Code::corrupt, "member {}: {}", quoted(member.name), why);
    const auto fail = [message = fmt::format("{}: {}", quoted(member.name), why)]() -> Result<SourcePtr> {
      return failure(Code::corrupt, message);
    };
    builder_.add_file(member.name, lazy(size, Later<SourcePtr>(fail)));
  }

  uint64_t max_sparse_bytes() const {
    return std::max(kMaxFreeSize, std::min(tar_->size(), UINT64_MAX / kMaxExpansion) * kMaxExpansion);
  }

  // The pieces of a sparse file follow each other; libarchive has parsed their map.
  Result<void> add_sparse(const Member& member, uint64_t size) {
    archive_entry* const entry = reader_->entry();
    const auto count = static_cast<size_t>(archive_entry_sparse_reset(entry));
    TRY_VOID(budget_->charge(Cost::kept, count * sizeof(Piece)));
    std::vector<Piece> pieces;
    uint64_t at = member.begin, end = 0;
    la_int64_t begin = 0, length = 0;
    while (archive_entry_sparse_next(entry, &begin, &length) == ARCHIVE_OK) {
      const Piece piece{static_cast<uint64_t>(begin), static_cast<uint64_t>(length), at};
      if (begin < 0 || length < 0 || piece.begin < end || piece.size > size - std::min(piece.begin, size)) break;
      end = piece.begin + piece.size;
      at += piece.size;
      if (piece.size > 0) pieces.push_back(piece);
    }
    if (at > tar_->size() || !member.end) {
      refuse(member, size, "cut by the end of the archive");
    } else if (padded(at - member.begin) != *member.end - member.begin) {
      // libarchive skips pieces that overlap or exceed the end.
      refuse(member, size, "a sparse map that does not match the stored data");
    } else if (max_sparse_bytes() - sparse_bytes_ < size) {
      refuse(
          member, size,
          fmt::format("{} of a sparse file in a tar of {}; all such files may have {}, or {} times the size of the tar",
                      human_size(size), human_size(tar_->size()), human_size(kMaxFreeSize), kMaxExpansion));
    } else {
      sparse_bytes_ += size;
      const std::string identity = tar_->identity();
      builder_.add_file(
          member.name,
          sparse_member(tar_, size, std::move(pieces),
                        identity.empty() ? "" : fmt::format("{} sparse member at {}", identity, member.header)));
    }
    return {};
  }

  SourcePtr tar_;
  BudgetPtr budget_;
  ReaderPtr reader_;
  uint64_t members_ = 0;
  uint64_t sparse_bytes_ = 0;  // of the sparse members that can be read
  bool has_times_as_name_ = false;
  Builder builder_;
};

}  // namespace

Result<StreamPtr> tar::bzip2_stream(SourcePtr compressed) {
  return codec::limit_input("bzip2", std::move(compressed), [](SourcePtr bytes) {
    return FilterStream::open("bzip2", std::move(bytes), archive_read_support_filter_bzip2);
  });
}

Result<StreamPtr> tar::lz4_stream(SourcePtr compressed) {
  return codec::limit_input("lz4", std::move(compressed), [](SourcePtr bytes) {
    return FilterStream::open("lz4", std::move(bytes), archive_read_support_filter_lz4);
  });
}

Result<Archive> tar_members(const Container& container, const std::optional<codec::StatedInput>& stated) {
  if (container.bytes->size() == 0) return failure(Code::corrupt, "0 bytes, not a tar");
  const auto charge = std::make_shared<codec::DecodeCharge>(container.budget);
  const codec::DecodeCharge::Active active(charge);
  SourcePtr tar = TRY(decompressed_tar(container, stated, charge));
  if (tar == nullptr)
    return TarLister(container.bytes, container.budget).all().map_error([&](const Error& error) {
      const bool is_other = stated && !stated->compression.empty();  // perhaps its magic number is wrong
      return is_other ? codec::compared_error(*container.bytes, error) : error;
    });
  // Without a cache the tar is decoded again to be listed, and again for its nested containers.
  Archive archive = TRY(TarLister(std::move(tar), container.budget).all());
  archive.charge = charge;
  return archive;
}

}  // namespace weightfs::archive
