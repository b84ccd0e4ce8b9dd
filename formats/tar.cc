// The members of a tar, by libarchive: ustar, PAX, GNU and what came before them (tar(5) of libarchive 3.6). A plain
// tar is gone through once, from header to header; its members are slices of it. A compressed one is decoded once, into
// a blob that is then such a tar.
#include "formats/tar.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <limits>
#include <span>

#include "base/text.h"
#include "formats/archive.h"

namespace weightfs {
namespace {

using namespace tar;

// What is read at once: a few headers, if the members are small.
constexpr size_t kStep = 16 * 1024;

// All headers of one member, its extended ones and a map of its holes: what libarchive may read between two members. It
// takes extended headers of 1 MiB, 32 for each member, and maps without end.
constexpr uint64_t kMostHeaderBytes = 5 * kStep;

constexpr size_t kLongestMemberName = 65'535;

uint64_t padded(uint64_t size) { return (size + kBlock - 1) / kBlock * kBlock; }

// What libarchive reads from: a source, in order.
struct Input {
  SourcePtr source;
  uint64_t at = 0;
  uint64_t left = std::numeric_limits<uint64_t>::max();  // what it may still read
  std::optional<Error> error = {};
  bool headers_only = false;  // then nobody sees that other bytes are changed
  std::string buffer = std::string(kStep + kLongestKey, '\0');

  Result<size_t> next() {
    if (at >= source->size()) return size_t{0};
    if (left < kStep) return failure(Code::corrupt, str("more than ", kMostHeaderBytes, " bytes of headers"));
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(buffer.size(), source->size() - at));
    const size_t got = TRY(source->read(at, std::as_writable_bytes(std::span(buffer).first(wanted))));
    const size_t given = std::min(got, kStep);
    if (headers_only) hide_access_lists(std::span(buffer).first(got), given);
    left -= kStep;
    at += given;
    return given;
  }

  // The callbacks. Nothing is thrown through a C library.
  static la_ssize_t read(archive*, void* self, const void** block) noexcept {
    auto& input = *static_cast<Input*>(self);
    *block = input.buffer.data();
    try {
      const auto got = input.next();
      if (got) return static_cast<la_ssize_t>(*got);
      input.error = got.error();
    } catch (const std::exception& error) {
      input.error = Error{Code::unavailable, error.what()};
    }
    return ARCHIVE_FATAL;
  }

  static la_int64_t skip(archive*, void* self, la_int64_t request) noexcept {
    auto& input = *static_cast<Input*>(self);
    const uint64_t step = std::min(static_cast<uint64_t>(request), input.source->size() - input.at);
    input.at += step;
    return static_cast<la_int64_t>(step);
  }
};

// libarchive at work.
class Reader {
 public:
  static Result<std::unique_ptr<Reader>> of_headers(SourcePtr source) {
    return open({.source = std::move(source), .headers_only = true}, archive_read_support_format_tar);
  }

  static Result<std::unique_ptr<Reader>> of_members(SourcePtr source) {
    return open({std::move(source)}, archive_read_support_format_tar);
  }

  // What a compressed stream holds is one member to libarchive, which has no name and no size.
  static Result<std::unique_ptr<Reader>> of_bzip2(SourcePtr source) {
    auto reader = TRY(open({std::move(source)}, archive_read_support_format_raw, archive_read_support_filter_bzip2));
    const int got = reader->next_header();
    if (got != ARCHIVE_OK && got != ARCHIVE_EOF) return tl::unexpected(reader->error());
    // A filter is applied as often as it fits.
    if (archive_filter_count(reader->get()) > 2) return failure(Code::unsupported, "compressed more than once");
    return reader;
  }

  archive* get() const { return handle_.get(); }
  archive_entry* entry() const { return entry_; }

  int next_header() { return archive_read_next_header(get(), &entry_); }

  int next_tar_header() {
    input_.left = kMostHeaderBytes;
    const int got = next_header();
    input_.left = std::numeric_limits<uint64_t>::max();
    return got;
  }

  // Where the next byte comes from.
  uint64_t position() const { return static_cast<uint64_t>(archive_filter_bytes(get(), 0)); }

  // Why it failed. What the source said comes first.
  Error error() const {
    if (input_.error) return *input_.error;
    if (archive_errno(get()) == ENOMEM) return {Code::unavailable, "out of memory"};
    const char* const said = archive_error_string(get());
    return {Code::corrupt, said == nullptr ? "broken" : to_utf8(said)};
  }

 private:
  explicit Reader(Input input) : input_(std::move(input)) {}

  template <class... Support>
  static Result<std::unique_ptr<Reader>> open(Input input, Support... support) {
    std::unique_ptr<Reader> reader(new Reader(std::move(input)));
    archive* const handle = reader->get();
    if (handle == nullptr) return failure(Code::unavailable, "out of memory");
    // ARCHIVE_WARN: it would run a program.
    if (((support(handle) != ARCHIVE_OK) || ...)) return failure(Code::unsupported, "libarchive was built without it");
    if (archive_read_open2(handle, &reader->input_, nullptr, Input::read, Input::skip, nullptr) != ARCHIVE_OK)
      return tl::unexpected(reader->error());
    return reader;
  }

  struct Free {
    void operator()(archive* handle) const { archive_read_free(handle); }
  };

  Input input_;
  std::unique_ptr<archive, Free> handle_{archive_read_new()};
  archive_entry* entry_ = nullptr;
};

using ReaderPtr = std::unique_ptr<Reader>;

// What a reader of bzip2 gives.
class Unbzip2 final : public Stream {
 public:
  explicit Unbzip2(ReaderPtr reader) : reader_(std::move(reader)) {}

  Result<size_t> next(std::span<std::byte> out) override {
    const la_ssize_t got = archive_read_data(reader_->get(), out.data(), out.size());
    if (got < 0) return tl::unexpected(about(reader_->error()));
    return static_cast<size_t>(got);
  }

  static Error about(const Error& error) {
    return error.code == Code::io ? error : Error{error.code, str("bzip2: ", error.message)};
  }

 private:
  ReaderPtr reader_;
};

// The tar that a compressed container is, as a blob. What holds something else is not decoded to its end.
Result<SourcePtr> unpacked(const Container& container, const Compression& compression) {
  const SourcePtr stored = container.bytes;
  const StreamPtr peek = TRY(compression.undone(stored));
  const std::string block = TRY(first_block(*peek));
  if (block.empty()) return failure(Code::corrupt, str(compression.name, ": 0 bytes, which is no tar"));
  if (!is_header(block) && block.find_first_not_of('\0') != block.npos)
    return failure(Code::unsupported, str(compression.name, " of something that is no tar"));
  Recipe recipe;
  recipe.name = container.name;
  const std::string identity = stored->identity();
  if (!identity.empty()) recipe.key = str(identity, " decoded from ", compression.name);
  recipe.start = [stored, undone = compression.undone] { return undone(stored); };
  return container.blobs->made(std::move(recipe));
}

// A member with holes: libarchive tells where its data lie, between them are zeros.
class Holey final : public Stream {
 public:
  Holey(ReaderPtr reader, uint64_t size) : reader_(std::move(reader)), size_(size) {}

  Result<size_t> next(std::span<std::byte> out) override {
    while (data_.empty() && !ended_) TRY_VOID(find_data());
    const uint64_t zeros = (data_.empty() ? size_ : begin_) - at_;
    const auto count = static_cast<size_t>(std::min<uint64_t>(out.size(), zeros > 0 ? zeros : data_.size()));
    if (count == 0) return count;
    if (zeros > 0) {
      std::fill_n(out.begin(), count, std::byte{0});
    } else {
      std::copy_n(data_.begin(), count, out.begin());
      data_ = data_.subspan(count);
      begin_ += count;
    }
    at_ += count;
    return count;
  }

 private:
  Result<void> find_data() {
    const void* data = nullptr;
    size_t count = 0;
    la_int64_t begin = 0;
    const int got = archive_read_data_block(reader_->get(), &data, &count, &begin);
    ended_ = got == ARCHIVE_EOF;
    if (ended_) return {};
    if (got != ARCHIVE_OK) return tl::unexpected(reader_->error());
    if (count == 0) return {};
    begin_ = static_cast<uint64_t>(begin);
    if (begin < 0 || begin_ < at_ || begin_ > size_ || count > size_ - begin_)
      return failure(Code::corrupt, str(count, " bytes at ", begin, " of a sparse member of ", size_, " do not fit"));
    data_ = {static_cast<const std::byte*>(data), count};
    return {};
  }

  ReaderPtr reader_;
  uint64_t size_;
  uint64_t at_ = 0;                  // the next byte to give
  std::span<const std::byte> data_;  // in libarchive's buffer
  uint64_t begin_ = 0;               // where data_ belongs
  bool ended_ = false;
};

// Reads the member whose headers begin at `header`, as the first of what is left from there on.
Result<StreamPtr> with_holes(const SourcePtr& tar, uint64_t header, uint64_t size) {
  auto rest = std::make_shared<const Slice>(TRY(slice(tar, header, tar->size() - header)));
  auto reader = TRY(Reader::of_members(std::move(rest)));
  const int got = reader->next_tar_header();
  if (got != ARCHIVE_OK && got != ARCHIVE_WARN) return tl::unexpected(reader->error());
  return std::make_unique<Holey>(std::move(reader), size);
}

// Goes through the headers of a tar.
class Listing {
 public:
  Listing(SourcePtr tar, BlobsPtr blobs) : tar_(std::move(tar)), blobs_(std::move(blobs)) {}

  Result<Archive> all() && {
    reader_ = TRY(Reader::of_headers(tar_));
    while (TRY(add_next())) {
    }
    return std::move(builder_).finish();
  }

 private:
  // A member as its headers tell.
  struct Member {
    std::string name;
    uint64_t header;              // where they begin
    uint64_t begin;               // where its bytes begin
    std::optional<uint64_t> end;  // where the padding behind them ends; nothing when the tar ends before
  };

  // Whether there may be another.
  Result<bool> add_next() {
    const int got = reader_->next_tar_header();
    if (got == ARCHIVE_EOF) return false;
    if (got != ARCHIVE_OK && got != ARCHIVE_WARN) return stopped();
    if (++members_ > kMostMembers) return failure(Code::unsupported, str("more than ", kMostMembers, " members"));
    auto member = next_member(got);
    const bool whole = archive_read_data_skip(reader_->get()) == ARCHIVE_OK;
    if (!whole && reader_->error().code != Code::corrupt) return tl::unexpected(reader_->error());
    if (member) {
      if (whole) member->end = reader_->position();
      add(*member);
    }
    return whole;
  }

  // What is broken in the middle ends the list; what is broken from the first byte on is no tar.
  Result<bool> stopped() {
    const Error error = reader_->error();
    if (error.code != Code::corrupt || members_ == 0) return tl::unexpected(error);
    builder_.warnings().add("at byte ", archive_read_header_position(reader_->get()), ", after ", members_,
                            " members: ", error.message, "; what follows is not shown");
    return false;
  }

  // The member whose headers have just been read; nothing when it cannot be named. A name comes in the bytes that it is
  // stored in: weightfs sets no locale, so libarchive finds that a PAX name that is not ASCII cannot be converted, says
  // so with EILSEQ and keeps it as it is.
  std::optional<Member> next_member(int got) {
    archive* const a = reader_->get();
    const char* const name = archive_entry_pathname(reader_->entry());
    Member member{name == nullptr ? "" : name, static_cast<uint64_t>(archive_read_header_position(a)),
                  reader_->position(), std::nullopt};
    if (got == ARCHIVE_WARN && archive_errno(a) != EILSEQ)
      builder_.warnings().add("member ", quoted(member.name), ": ", reader_->error().message);
    if (!member.name.empty() && member.name.size() <= kLongestMemberName) return member;
    builder_.warnings().add("member ", members_, ": left out: its name has ", member.name.size(), " bytes, 1 to ",
                            kLongestMemberName, " are possible");
    return std::nullopt;
  }

  void add(const Member& member) {
    archive_entry* const entry = reader_->entry();
    // A hard link that PAX gave bytes of its own is a file.
    const char* const same = archive_entry_hardlink(entry);
    if (same != nullptr && archive_entry_size(entry) == 0) return builder_.add_same(member.name, same);
    switch (archive_entry_filetype(entry)) {
      case AE_IFREG:
        return add_file(member);
      case AE_IFDIR:
        return builder_.add_directory(member.name);
      case AE_IFLNK: {
        const char* const target = archive_entry_symlink(entry);
        return builder_.add_link(member.name, target == nullptr ? "" : target);
      }
      case AE_IFCHR:
      case AE_IFBLK:
        return leave_out(member, "a device");
      case AE_IFIFO:
        return leave_out(member, "a fifo");
      case AE_IFSOCK:
        return leave_out(member, "a socket");
      default:
        return leave_out(member, "of a type that is not known");
    }
  }

  void leave_out(const Member& member, std::string_view what) {
    builder_.warnings().add("member ", quoted(member.name), ": left out: it is ", what);
  }

  void add_file(const Member& member) {
    archive_entry* const entry = reader_->entry();
    if (archive_entry_size(entry) < 0) return leave_out(member, "of a negative size");
    const auto size = static_cast<uint64_t>(archive_entry_size(entry));
    if (archive_entry_sparse_count(entry) > 0) return add_sparse(member, size);
    auto bytes = slice(tar_, member.begin, size);
    if (!bytes) return refuse(member, size, str("cut by the end of the tar, ", bytes.error().message));
    // The headers of a sparse file may give another size than the bytes that are stored for it.
    if (member.end && padded(size) != *member.end - member.begin)
      return refuse(member, size, str("a size of ", size, ", but ", *member.end - member.begin, " bytes are stored"));
    builder_.add_file(member.name, std::make_shared<const Slice>(*std::move(bytes)));
  }

  // A file that is listed and cannot be read.
  void refuse(const Member& member, uint64_t size, const std::string& why) {
    builder_.warnings().add("member ", quoted(member.name), ": ", why);
    const auto fail = [message = str(quoted(member.name), ": ", why)]() -> Result<SourcePtr> {
      return failure(Code::corrupt, message);
    };
    builder_.add_file(member.name, lazy(size, Later<SourcePtr>(fail)));
  }

  void add_sparse(const Member& member, uint64_t size) {
    if (!member.end) builder_.warnings().add("member ", quoted(member.name), ": cut by the end of the tar");
    Recipe recipe;
    recipe.name = member.name;
    recipe.size = size;
    const std::string identity = tar_->identity();
    if (!identity.empty()) recipe.key = str(identity, " sparse member at ", member.header);
    recipe.start = [tar = tar_, header = member.header, size] { return with_holes(tar, header, size); };
    builder_.add_file(member.name, blobs_->blob(std::move(recipe)));
  }

  SourcePtr tar_;
  BlobsPtr blobs_;
  ReaderPtr reader_;
  uint64_t members_ = 0;
  ArchiveBuilder builder_{Twice::last_wins};
};

}  // namespace

Result<StreamPtr> tar::decompressed_bzip2(SourcePtr compressed) {
  return std::make_unique<Unbzip2>(TRY(Reader::of_bzip2(std::move(compressed)).map_error(Unbzip2::about)));
}

Result<Archive> tar_members(const Container& container) {
  const uint64_t size = container.bytes->size();
  if (size == 0) return failure(Code::corrupt, "0 bytes, which is no tar");
  const std::string head = TRY(read_text(*container.bytes, 0, std::min<uint64_t>(size, kBlock)));
  const Compression* const compression = is_header(head) ? nullptr : compression_of(head);
  SourcePtr tar = compression == nullptr ? container.bytes : TRY(unpacked(container, *compression));
  return Listing(std::move(tar), container.blobs).all();
}

}  // namespace weightfs
