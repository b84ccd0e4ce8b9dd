#include "formats/checksums/checksum.h"

#include <fmt/core.h>

#include <array>
#include <utility>

namespace weightfs {

std::string Crc32::hex() const { return fmt::format("{:08x}", value); }

std::string_view name_of(const Checksum& sum) {
  constexpr std::array<std::string_view, std::variant_size_v<Checksum>> kNames = {"SHA-256", "SHA-1", "Git object id",
                                                                                  "MD5", "CRC-32"};
  return kNames[sum.index()];
}

std::string hex_of(const Checksum& sum) {
  return std::visit([](const auto& each) { return each.hex(); }, sum);
}

FileChecksums::FileChecksums(const FileChecksums& other)
    : first_(other.first_), others_(other.others_ ? std::make_unique<FileChecksums>(*other.others_) : nullptr) {}

FileChecksums& FileChecksums::operator=(FileChecksums other) {
  std::swap(first_, other.first_);
  std::swap(others_, other.others_);
  return *this;
}

void FileChecksums::set(Checksum sum) {
  if (!first_ || first_->index() == sum.index()) {
    first_ = sum;
    return;
  }
  if (sum.index() < first_->index()) std::swap(*first_, sum);
  if (others_ == nullptr) others_ = std::make_unique<FileChecksums>();
  others_->set(sum);
}

std::vector<Checksum> FileChecksums::all() const {
  std::vector<Checksum> out;
  for (const FileChecksums* at = this; at != nullptr && at->first_; at = at->others_.get()) out.push_back(*at->first_);
  return out;
}

}  // namespace weightfs
