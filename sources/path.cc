// A SOURCE that is a path: a container file, or a directory.
#include <fmt/core.h>
#include <sys/stat.h>

#include "formats/ollama/store.h"
#include "sources/disk/model_runner.h"
#include "sources/disk/stated_digests.h"
#include "sources/kinds.h"

namespace weightfs {
namespace {

// The directory for a container's relative names: its own directory, or blobs/ of the store for a manifest.
std::shared_ptr<const Folder> folder_of(const Location& container) {
  if (auto blobs = blobs_of_model_runner(container)) return std::make_shared<DiskFolder>(std::move(*blobs));
  Location top = container;
  for (int up = 0; up < 4 && !top.name.empty(); ++up) top = top.parent();
  const bool is_below_manifests = !top.name.empty() && top.file_name() == "manifests";
  if (is_below_manifests && is_store(top.parent()) && is_manifest_path(container.name.substr(top.name.size() + 1)))
    return std::make_shared<DiskFolder>(top.parent() / "blobs");
  return std::make_shared<DiskFolder>(container.parent());
}

// A named file must be a model; files in a directory need not be models.
Result<void> check_is_model(const Location& location, const OpenOptions& options) {
  const Container container = TRY(container_at(location, options));
  if (options.forced == nullptr && !TRY(is_model(container))) TRY(read_model(container));
  return {};
}

}  // namespace

Result<Container> container_at(const Location& file, const OpenOptions& options) {
  SourcePtr bytes = TRY(file.open());
  return Container{.name = file.file_name(),
                   .bytes = std::move(bytes),
                   .folder = folder_of(file),
                   .blobs = options.blobs,
                   .file = options.file,
                   .lists_tried = options.lists_tried};
}

Result<Opened> open_container(const Location& file, Time modified, const OpenOptions& options,
                              const std::shared_ptr<const StatedDigests>& stated) {
  const Container container = TRY(container_at(file, options));
  Model model = TRY(read_model(container, options.forced));
  add_stated_checks(model, stated != nullptr ? *stated : *StatedDigests::beside(file.parent()), container.name,
                    container.bytes);
  return OpenedModel{std::make_shared<Model>(std::move(model)), file.path(), modified};
}

Result<SourceEntry> find_path(const std::string& path, const OpenOptions& options, Check check) {
  const Location location = TRY(locate_source(path, options.access));
  const struct stat found = TRY(location.examine());
  const Time time = modified(found);
  if (S_ISDIR(found.st_mode))
    return SourceEntry{location.file_name(), time, 0, [=] { return open_directory(location, options); },
                       version_of(found)};
  if (S_ISREG(found.st_mode) && check == Check::model) TRY_VOID(check_is_model(location, options));
  return SourceEntry{location.file_name(), time, S_ISREG(found.st_mode) ? static_cast<uint64_t>(found.st_size) : 0,
                     [=] { return open_container(location, time, options); }, version_of(found)};
}

Result<std::vector<Part>> files_of_directory(const std::string& source, const OpenOptions& options, MayOpen) {
  if (!is_path(source)) return std::vector<Part>();
  Location location = TRY(locate_source(source, options.access));
  const struct stat found = TRY(location.examine());
  if (!S_ISDIR(found.st_mode)) return std::vector<Part>();
  return DiskFolder(std::move(location)).parts();
}

Result<SourcePtr> open_path_file(const std::string& path, const OpenOptions& options) {
  const Location location = TRY(locate_source(path, options.access));
  const struct stat found = TRY(location.examine());
  if (S_ISDIR(found.st_mode)) return failure(Code::unsupported, fmt::format("{}: is a directory", path));
  return location.open();
}

}  // namespace weightfs
