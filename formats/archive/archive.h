// What zips, tars and directories have in common: members under paths. The formats that live in them (Carton, TVM Model
// Library Format) read an Archive and do not know which of the three it was.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/codec/codec_meter.h"
#include "formats/common/warnings.h"
#include "formats/format.h"

namespace weightfs {

/// Members, each under a path of its own, without empty components and `.`.
struct Archive {
  std::vector<Part> parts;               ///< files and links, in the container's order
  std::vector<std::string> directories;  ///< those that have an entry of their own
  Warnings warnings;                     ///< what was odd about the members
  BudgetPtr budget = {};                 ///< pays for the texts that are read; null where nothing was counted
  DecodeChargePtr charge = {};           ///< pays for decoding all of it; null where it is not compressed

  /// The part with this path; null when there is none. Links are not followed.
  const Part* find(std::string_view path) const;

  /// The same, following links from part to part.
  const Part* find_followed(std::string_view path) const;

  /// Adds files whose paths it does not have yet.
  void append(std::vector<Part> more);

  /// The text at `path`, which must be a file of at most `most` bytes. Fails with not_found, with unsupported when it
  /// is longer, or as reading it and the budget do; the message begins with the path.
  Result<std::string> text(std::string_view path, uint64_t most) const;

 private:
  friend class ArchiveBuilder;
  void sort();

  std::vector<uint32_t> sorted_;  // places in `parts`, by path
};

/// Which of two members of one path is the archive's.
enum class Twice { first_wins, last_wins };

/// A symbolic link's text is no longer than this, in bytes (PATH_MAX - 1).
inline constexpr uint64_t kLongestLink = 4095;

/// Collects members as their container spells them. Names are cleaned: empty components and `.` are dropped, a `/` at
/// the beginning too. What is odd becomes a warning.
class ArchiveBuilder {
 public:
  explicit ArchiveBuilder(Twice twice, BudgetPtr budget = std::make_shared<Budget>(0));

  /// Charges the budget for a member of this name, which is to be added. Fails as the budget does.
  Result<void> admit(std::string_view name);

  /// A file. `source` tells its size without making its bytes.
  void add_file(std::string_view name, SourcePtr source, std::optional<uint32_t> crc32 = {});

  /// A symbolic link. One that does not stay inside, is empty or is longer than kLongestLink becomes a file that holds
  /// the text.
  void add_link(std::string_view name, std::string target);

  void add_directory(std::string_view name);

  /// Another name for the file that was added as `target`, before or after (a hard link).
  void add_same(std::string_view name, std::string_view target);

  size_t size() const { return archive_.parts.size(); }  ///< how many were added
  Warnings& warnings() { return archive_.warnings; }

  Archive finish() &&;

 private:
  std::string clean(std::string_view name);
  void keep_one_of_each_path();
  void resolve_same();
  void share(const Part& whole, Part& same);
  void warn_of_link(std::string_view name, std::string_view target);

  Twice twice_;
  Archive archive_;
  std::vector<std::pair<size_t, std::string>> same_;  // the place of a part, and the path whose bytes it has
};

/// The members of a zip (formats/archive/zip.cc), of a tar (formats/archive/tar.cc), of the directory that the
/// container lies in.
Result<Archive> zip_members(const Container& container);
Result<Archive> tar_members(const Container& container);
Result<Archive> folder_members(const Container& container);

/// Gives a model the archive's members, files/ and nested/, and its warnings.
void take_members(Model& model, Archive archive, const Container& container);

/// The model of an archive as such: its members in files/, the containers among them in nested/.
Model model_of(Archive archive, const Container& container, std::string format);

/// Cartons (formats/carton/carton.cc), from a zip or a directory.
bool is_carton(const Archive& archive);
Result<Model> carton_of(Archive archive, const Container& container);

/// TVM Model Library Format and the packages of tvmc (formats/tvm/mlf.cc), from a tar or a directory.
Result<bool> is_mlf(const Archive& archive);
Result<bool> is_mlf_metadata(const SourcePtr& metadata);  ///< whether a metadata.json is one of a Model Library Format
Result<Model> mlf_of(Archive archive, const Container& container);

}  // namespace weightfs
