#include "formats/archive/zip_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "base/digest.h"
#include "base/text.h"
#include "formats/format.h"

namespace weightfs::archive::zips {
namespace {

constexpr uint64_t kRecord = 46;  // the fixed part of a record of the directory

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<int8_t>(c) >= 0; });
}

uint16_t number_at(std::string_view record, size_t at) {
  return static_cast<uint16_t>(static_cast<uint8_t>(record[at]) | static_cast<uint8_t>(record[at + 1]) << 8);
}

// lib/zip_hash.c of libzip, up to version 1.11.
uint32_t libzip_hash(std::string_view name) {
  uint32_t hash = 5381;
  for (const char c : name) hash = 33 * hash + static_cast<uint8_t>(c);
  return hash;
}

// Fails if an extra field of a record has another name for its member (APPNOTE 4.6.9): unzip, libzip and Python since
// 3.13 take that name, other programs the one of the record. Writers add it to names that are not ASCII.
Result<void> check_unicode_path(std::string_view name, std::string_view extra) {
  constexpr uint16_t kUnicodePath = 0x7075;
  constexpr size_t kHead = 4, kBeforePath = 5;  // the identifier and size of a field; version and checksum of the name
  while (extra.size() >= kHead) {
    const uint16_t id = number_at(extra, 0);
    const std::string_view field = extra.substr(kHead, number_at(extra, 2));
    extra.remove_prefix(kHead + field.size());
    if (id != kUnicodePath || field.size() < kBeforePath || field.front() != 1) continue;
    const std::string_view path = field.substr(kBeforePath);
    const uint32_t sum = number_at(field, 1) | static_cast<uint32_t>(number_at(field, 3)) << 16;
    if (path == name || sum != crc32(0, std::as_bytes(std::span(name))) || (!is_ascii(name) && !is_ascii(path)))
      continue;
    return failure(Code::corrupt,
                   fmt::format("zip: a member is called {}, and {} in its extra field: programs differ in which name "
                               "they read",
                               quoted(name), quoted(path)));
  }
  return {};
}

uint64_t pairs(uint64_t count) { return count * (count - std::min<uint64_t>(count, 1)) / 2; }

// The pairs of hashes that are in one bucket of the table that libzip makes for them: of a power of two, at most three
// quarters full.
uint64_t colliding_pairs(const std::vector<uint32_t>& hashes) {
  constexpr size_t kMinSize = 256;
  std::vector<uint32_t> buckets(std::bit_ceil(std::max(kMinSize, hashes.size() * 4 / 3)));
  uint64_t pairs = 0;
  for (const uint32_t hash : hashes) pairs += buckets[hash % buckets.size()]++;
  return pairs;
}

}  // namespace

zip_int64_t ZipSource::answer(void* self, void* data, zip_uint64_t length, zip_source_cmd_t command) {
  auto& feed = *static_cast<ZipSource*>(self);
  try {
    return feed.answer(data, length, command);
  } catch (const std::bad_alloc&) {
    zip_error_set(&feed.zip_error_, ZIP_ER_MEMORY, 0);
    return -1;
  }
}

// Calls `visit` with the fixed part of each record of the directory and its offset.
template <class Visit>
Result<void> ZipSource::each_record(const Visit& visit) {
  std::array<char, kRecord> bytes;
  const std::string_view record(bytes.data(), bytes.size());
  for (uint64_t at = directory_; at + kRecord <= end_;) {
    at_ = at;
    bytes = {};
    TRY_VOID(read_window(std::as_writable_bytes(std::span(bytes))));
    if (!record.starts_with("PK\1\2")) break;
    TRY_VOID(visit(record, at));
    at += kRecord + number_at(record, 28) + number_at(record, 30) + number_at(record, 32);
  }
  return {};
}

// Up to `size` bytes.
Result<std::string> ZipSource::read_text_at(uint64_t offset, size_t size) {
  std::string text(size, '\0');
  at_ = offset;
  text.resize(TRY(read_opening(std::as_writable_bytes(std::span(text)))));
  return text;
}

Result<void> ZipSource::check_names(Budget& budget) {
  constexpr uint64_t kPerStep = 100;  // comparisons in a microsecond
  constexpr uint64_t kCutName = 100;  // the memory of an entry of cut_names_
  uint64_t index = 0;
  std::vector<uint32_t> hashes;
  uint64_t converted = 0;
  std::string name, before;
  const auto add = [&](std::string_view record, uint64_t at) -> Result<void> {
    name = TRY(read_text_at(at + kRecord, number_at(record, 28)));
    const uint64_t behind = at + kRecord + name.size();
    if (const size_t zero = name.find('\0'); zero != name.npos) {
      TRY_VOID(budget.charge(Cost::kept, kCutName + zero));
      cut_names_.emplace(index, name.substr(0, zero));
    }
    ++index;
    const std::string extra = TRY(read_text_at(behind, number_at(record, 30)));
    TRY_VOID(check_unicode_path(name, extra));
    if (std::exchange(before, name) == name && !hashes.empty()) return {};
    // libzip hashes what it converts such names to.
    const bool has_control = std::ranges::any_of(name, [](char c) { return static_cast<uint8_t>(c) < 0x20; });
    if (has_control || !is_utf8(name))
      ++converted;
    else
      hashes.push_back(libzip_hash(name));
    return {};
  };
  TRY_VOID(each_record(add));
  const uint64_t comparisons = pairs(converted) + colliding_pairs(hashes);
  return budget.charge(Cost::step, comparisons / kPerStep).map_error([](const Error& error) {
    return Error{error.code, fmt::format("zip: names that collide in the table of libzip: {}", error.message)};
  });
}

Result<bool> ZipSource::hide_encryption() {
  constexpr uint16_t kAes = 99;
  error_.reset();
  TRY_VOID(each_record([&](std::string_view record, uint64_t at) -> Result<void> {
    if (number_at(record, 10) == kAes) hidden_.push_back(at + 11);
    return {};
  }));
  return !hidden_.empty();
}

const std::string* ZipSource::cut_name(uint64_t index) const {
  const auto found = cut_names_.find(index);
  return found == cut_names_.end() ? nullptr : &found->second;
}

void ZipSource::directory_is_read() {
  opening_ = false;
  error_.reset();
  window_ = {};
}

Result<void> ZipSource::check_header() const {
  constexpr uint64_t kSkipped = 26;  // by libzip, which reads only the lengths of the name and of the extra field
  constexpr std::string_view kSignature = "PK\3\4";
  for (const uint64_t before : {kSkipped, uint64_t{0}}) {
    if (!first_read_ || *first_read_ < before) continue;
    std::string found(kSignature.size(), '\0');
    const size_t got = TRY(zip_->read(*first_read_ - before, std::as_writable_bytes(std::span(found))));
    if (found.substr(0, got) == kSignature) return {};
  }
  return failure(Code::corrupt, "no header where the directory has the member");
}

Error ZipSource::error(zip_error_t& libzip) {
  if (error_) return *std::exchange(error_, std::nullopt);
  const int number = zip_error_code_zip(&libzip);
  if (number == ZIP_ER_NOZIP)
    return {Code::corrupt, fmt::format("zip: no directory that can be read at byte {}", directory_)};
  const Code code = number == ZIP_ER_MEMORY ? Code::resource : Code::corrupt;
  return {code, fmt::format("zip: libzip: \"{}\"", zip_error_strerror(&libzip))};
}

zip_int64_t ZipSource::answer(void* data, zip_uint64_t length, zip_source_cmd_t command) {
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

zip_int64_t ZipSource::read(std::span<std::byte> out) {
  last_read_ = at_;
  if (!first_read_) first_read_ = at_;
  const auto got = opening_ ? read_directory(out) : zip_->read(at_, out);
  if (!got) {
    error_ = got.error();
    zip_error_set(&zip_error_, ZIP_ER_READ, 0);
    return -1;
  }
  at_ += *got;
  return static_cast<zip_int64_t>(*got);
}

// libzip reads a directory in two small reads per member, and accepts any data that resemble an end record. So it sees
// only the directory and the right record. After a failure it may retry.
Result<size_t> ZipSource::read_directory(std::span<std::byte> out) {
  if (error_) return tl::unexpected(*error_);
  if (reads_++ > 2 * kMaxMembers + 1000)
    return failure(Code::unsupported, fmt::format("zip: more than {} members", kMaxMembers));
  const size_t got = TRY(read_opening(out));
  const uint64_t shown = std::clamp(directory_, at_, at_ + got);
  const uint64_t hidden = std::clamp(end_, shown, at_ + got);
  std::ranges::fill(out.first(shown - at_), std::byte{0});
  std::ranges::fill(out.first(got).subspan(hidden - at_), std::byte{0});
  for (auto at = std::ranges::lower_bound(hidden_, at_); at != hidden_.end() && *at < at_ + got; ++at)
    out[*at - at_] = std::byte{kHiddenMethod >> 8};
  return got;
}

Result<size_t> ZipSource::read_opening(std::span<std::byte> out) {
  return out.size() < kWindow ? read_window(out) : zip_->read(at_, out);
}

// Some versions of libzip read a small zip to and fro, or a large one backwards.
Result<size_t> ZipSource::read_window(std::span<std::byte> out) {
  const uint64_t size = zip_->size(), wanted = std::min<uint64_t>(out.size(), size - std::min(at_, size));
  if (wanted == 0) return size_t{0};
  if (at_ < window_at_ || at_ + wanted > window_at_ + window_.size()) {
    const uint64_t end = at_ + wanted;
    const uint64_t begin = at_ < window_at_ ? end - std::min<uint64_t>(end, kWindow) : at_;
    window_at_ = size <= kWindow ? 0 : begin;
    window_.resize(kWindow);
    window_.resize(TRY(zip_->read(window_at_, window_)));
    if (end > window_at_ + window_.size()) return failure(Code::io, "zip: fewer bytes than its size");
  }
  std::memcpy(out.data(), window_.data() + (at_ - window_at_), wanted);
  return wanted;
}

}  // namespace weightfs::archive::zips
