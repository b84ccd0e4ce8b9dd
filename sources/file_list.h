// Files that a server or an index lists, with their sizes: a repository, an artifact, the objects below a prefix. They
// are shown like a directory on disk: one model, or models under names.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sources/source.h"

namespace weightfs {

/// A file of a list.
struct ListedEntry {
  SourcePtr bytes;  ///< of known size; nothing is requested before its first read
  Time modified = 0;
  std::optional<Checksum> checksum = {};  ///< if the list has one
};

/// The files by their paths: components joined by `/`.
using FileList = std::map<std::string, ListedEntry, std::less<>>;
using FileListPtr = std::shared_ptr<const FileList>;

/// Collects the files of a listing, which is hostile. Paths with an empty component, `.`, `..`, or a NUL, and paths
/// below another file, are left out, with a warning for each of the first ones.
class FileListBuilder {
 public:
  /// Adds a file; the second with the same path is called `NAME-2`. Fails with unsupported beyond kMaxMembers files or
  /// kMaxText bytes of paths.
  Result<void> add(std::string_view path, ListedEntry entry);

  /// The files, and the lines about those that were left out.
  struct Finished {
    FileListPtr files;
    std::vector<std::string> warnings;
  };
  Finished finish() &&;

  static constexpr uint64_t kMaxText = 256 << 20;

 private:
  void warn(std::string_view path, std::string_view problem);

  FileList files_;
  std::map<std::string, uint64_t> copies_;  // the number of the last copy of a path that is listed repeatedly
  uint64_t text_ = 0;
  std::vector<std::string> warnings_;
  uint64_t left_out_ = 0;
};

/// A list, and what the source says about itself.
struct ListedSource {
  FileListBuilder::Finished list;
  std::string name;  ///< the last component of the source's name: "Llama-3.2-1B"
  std::string
      source;  ///< for metadata and messages, without secrets: "hf://org/repo@COMMIT"; paths are appended after `/`
  Time modified;
  /// Added to the fields that models have in common, unless the model has the field: "license", "commit".
  Map facts = {};
  /// The path of a file that alone is the model, whatever its name; its folder is its directory. Empty: as below.
  std::string file = {};
};

/// One model by the rule of formats/one_model.h, or the file OpenOptions::file; its other files are parts of the model.
/// Else the models and directories at the top, and with OpenOptions::all_files the other files.
/// Files are recognized by their names, without a request; a model is read when it is entered.
SourceEntry listed_source(ListedSource listed, const OpenOptions& options);

/// Requests the first bytes of files of one model, up to eight at a time: as many of each as `header_size` computes
/// from its first kHeadSize bytes. Errors are left to the reader, which reads the same bytes again. Calls `on_opened`
/// with the number of opened files, by one thread at a time. Returns the open files, which keep these bytes.
std::vector<SourcePtr> request_headers(const std::vector<std::string>& names,
                                       const std::function<Result<SourcePtr>(const std::string& name)>& open,
                                       uint64_t (*header_size)(std::string_view head),
                                       const std::function<void(uint64_t opened, uint64_t total)>& on_opened);

}  // namespace weightfs
