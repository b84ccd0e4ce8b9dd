// An archive: files under paths, from a zip, a tar or a directory. Formats that live in an archive (archive_formats.h)
// read an Archive and do not depend on its kind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/codec/codec_meter.h"
#include "formats/codec/compared_input.h"
#include "formats/common/warnings.h"
#include "formats/format.h"

namespace weightfs::archive {

/// The members of an archive. Paths are unique, without empty components and `.`.
struct Archive {
  std::vector<Part> parts;               ///< files and links, in the archive's order
  std::vector<std::string> directories;  ///< directories with an entry of their own
  Warnings warnings;                     ///< irregularities of the members
  BudgetPtr budget = {};                 ///< charged for texts that are read; null if nothing is charged
  codec::DecodeChargePtr charge = {};    ///< charged for decoding the archive; null if it is not compressed as a whole
  std::string repeated = {};             ///< a path that several members have, of which one is kept; empty: none has
  std::string respelled = {};            ///< one that they have under different names, such as `a` and `./a`
  std::string relinked = {};             ///< a file that some programs write through a link, and others do not

  /// The part with this path; null if there is none. Links are not followed.
  const Part* find(std::string_view path) const;

  /// The part with this path, or the one that it leads to by links between parts.
  const Part* resolve(std::string_view path) const;

  /// Adds files with paths that are not in the archive yet.
  void append(std::vector<Part> more);

  /// The content of the file at `path`, at most `most` bytes. Fails with corrupt if there is no such file, with
  /// unsupported if it is longer, or as reading it and the budget do; the message begins with the path.
  Result<std::string> text(std::string_view path, uint64_t most) const;

 private:
  friend class Builder;
  void sort();

  std::vector<uint32_t> sorted_;  // indices of `parts`, sorted by path
};

/// Which of two members with the same path is kept.
enum class DuplicatePolicy { first_wins, last_wins };

/// The maximum length of a symbolic link's text, in bytes (PATH_MAX - 1).
inline constexpr uint64_t kMaxLinkLength = 4095;

/// Builds an Archive from members as the container spells them. Names are normalized: empty components, `.` and a
/// leading `/` are dropped. Irregularities become warnings.
class Builder {
 public:
  explicit Builder(DuplicatePolicy twice, BudgetPtr budget = std::make_shared<Budget>(0));

  /// Charges the budget for a member of this name; call it before the member is added. Fails as the budget does.
  Result<void> charge_member(std::string_view name);

  /// Adds a file and returns its path. `source` must have its size without decoding.
  std::string add_file(std::string_view name, SourcePtr source, FileChecksums checksums = {});

  /// Adds a symbolic link. A link that leaves the archive, is empty or is longer than kMaxLinkLength becomes a file
  /// with the link's text.
  void add_link(std::string_view name, std::string target);

  void add_directory(std::string_view name);

  /// Adds a hard link to the member `target`, which may be added before or after.
  void add_hard_link(std::string_view name, std::string_view target);

  size_t size() const { return archive_.parts.size(); }  ///< the number of members added
  Warnings& warnings() { return archive_.warnings; }

  Archive finish() &&;

 private:
  std::string clean(std::string_view name);
  void add(std::string_view name, Part part, bool is_link);
  void note_relinked(const std::vector<uint32_t>& sorted);
  bool is_linked_between(size_t earlier, size_t later) const;
  void keep_one_of_each_path();
  void resolve_hard_links();
  void share(const Part& original, Part& link);
  void warn_of_link(std::string_view name, std::string_view target, std::string_view problem);

  DuplicatePolicy duplicates_;
  Archive archive_;
  std::vector<std::pair<size_t, std::string>>
      hard_links_;  // the index of a part, and the path that it is a hard link to
  std::vector<std::pair<std::string_view, size_t>> linked_;  // the same, sorted by path
  std::vector<bool> is_renamed_, is_link_;  // of each part: its name is not its path; it is a symbolic or hard link
};

/// The members of a zip (zip.cc), of a tar (tar.cc), and of the directory of the container's file. `stated`: what a
/// manifest states of the bytes of the tar. If they are compressed, they are compared while they are decoded; no byte
/// of them is read if an earlier reader has decoded them.
Result<Archive> zip_members(const Container& container);
Result<Archive> tar_members(const Container& container, const std::optional<codec::StatedInput>& stated = {});
Result<Archive> folder_members(const Container& container);

/// Those of the files at these paths in the directory of the container's file that it has. Requests them from a server,
/// several at a time. Fails with unsupported for more than 2,000 paths, and as opening a file does.
Result<Archive> members_at(const Container& container, const std::vector<std::string>& paths);

}  // namespace weightfs::archive
