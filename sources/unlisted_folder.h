// The directory of a model file on a server that is not asked for a listing: its files are found by their names.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format.h"

namespace weightfs {

class UnlistedFolder final : public Folder {
 public:
  /// Opens the file at a path below the folder, whose components are file names.
  using Open = std::function<Result<SourcePtr>(std::string_view path)>;

  /// `on_opened` is that of OpenOptions.
  UnlistedFolder(Open open, std::function<void(uint64_t opened, uint64_t total)> on_opened)
      : open_(std::move(open)), on_opened_(std::move(on_opened)) {}

  Result<std::vector<std::string>> names() const override { return std::vector<std::string>{}; }
  Result<std::vector<Part>> parts() const override { return std::vector<Part>{}; }
  Result<SourcePtr> open(std::string_view name) const override;
  Result<SourcePtr> open_below(std::string_view path, std::string_view referrer) const override;
  bool is_storage() const override { return true; }
  bool lists_files() const override { return false; }
  bool needs_every_file() const override { return true; }
  void prepare(const std::vector<std::string>& names, uint64_t (*header_size)(std::string_view head)) const override;

 private:
  Open open_;
  std::function<void(uint64_t opened, uint64_t total)> on_opened_;
  mutable std::mutex mutex_;                 // guards prepared_
  mutable std::vector<SourcePtr> prepared_;  // the store shares a source as long as it is in use
};

}  // namespace weightfs
