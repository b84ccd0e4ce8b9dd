// Reads tars for tests: members as lines, warnings, errors; and doubles of the disk and the blobs.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "formats/archive/archive.h"
#include "formats/flat_formats.h"
#include "tests/builders/tar_builder.h"
#include "tests/support/reading.h"

namespace weightfs::test::tars {

// Records the producers; produces blobs without storing them.
class RecordingBlobs final : public Blobs {
 public:
  SourcePtr blob(BlobProducer recipe) override {
    recipes.push_back(recipe);
    return uncached_blobs()->blob(std::move(recipe));
  }
  Result<SourcePtr> materialize(BlobProducer recipe) override {
    recipes.push_back(recipe);
    return uncached_blobs()->materialize(std::move(recipe));
  }
  std::vector<BlobProducer> recipes;
};

// Bytes with an identity. Can fail from an offset on, counts reads, and fails the test at reads beyond the end.
class Disk final : public Source {
 public:
  explicit Disk(std::string bytes, uint64_t broken_from = std::numeric_limits<uint64_t>::max())
      : bytes_(in_memory(std::move(bytes))), broken_from_(broken_from) {}
  uint64_t size() const override { return bytes_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    ++reads;
    EXPECT_LE(out.size(), size() - std::min(offset, size()));
    if (offset + out.size() > broken_from_ && size() > broken_from_) return failure(Code::io, "the disk is on fire");
    return bytes_->read(offset, out);
  }
  std::string identity() const override { return "disk 7"; }
  mutable size_t reads = 0;

 private:
  SourcePtr bytes_;
  uint64_t broken_from_;
};

inline Result<archive::Archive> members(SourcePtr bytes, BlobsPtr blobs = uncached_blobs()) {
  return archive::tar_members(Container{"m.tar", std::move(bytes), nullptr, std::move(blobs)});
}
inline Result<archive::Archive> members(std::string bytes) { return members(in_memory(std::move(bytes))); }

// One line per part: its path, then its bytes or its link or why it cannot be read.
inline std::vector<std::string> listing(const archive::Archive& archive) {
  std::vector<std::string> lines;
  for (const Part& part : archive.parts) {
    const SourcePtr source = *part.source.get();
    const auto bytes = read_text(*source, 0, std::min<uint64_t>(source->size(), 1 << 20));
    lines.push_back(part.path + (!part.link_target.empty() ? " -> " + part.link_target
                                 : bytes                   ? " = " + *bytes
                                                           : " ! " + bytes.error().message));
  }
  return lines;
}

// The members, or none and a failed test.
inline archive::Archive read_well(std::string bytes) { return well(members(std::move(bytes))); }

inline std::vector<std::string> listing_of(std::string bytes) { return listing(read_well(std::move(bytes))); }
inline std::vector<std::string> warnings_of(const archive::Archive& archive) { return archive.warnings.lines(); }
inline std::vector<std::string> warnings_of(std::string bytes) { return warnings_of(read_well(std::move(bytes))); }

inline std::string error_of(const Result<archive::Archive>& archive) {
  return archive
             ? "no error"
             : fmt::format("{}{}", archive.error().code == Code::corrupt ? "corrupt: " : "", archive.error().message);
}
inline std::string error_of(std::string bytes) { return error_of(members(std::move(bytes))); }

inline Match match(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, kHeadSize);
  return matches_tar({"m", head, bytes.substr(bytes.size() - head.size()), bytes.size()});
}

// Whatever has been done to it, it is refused or read: every member then has bytes or an error.
inline void read_or_refuse(const std::string& bytes) {
  match(bytes);
  if (const auto archive = members(bytes)) listing(*archive);
}

}  // namespace weightfs::test::tars
