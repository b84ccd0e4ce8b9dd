#include "sources/objects/stored.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "sources/remote_model.h"
#include "sources/unlisted_folder.h"

namespace weightfs {

Result<SourceEntry> entry_of_file(StoredFile file, const OpenOptions& options, Check check) {
  const Container container{.name = std::move(file.name),
                            .bytes = std::move(file.bytes),
                            .folder = std::make_shared<UnlistedFolder>(std::move(file.open_beside), options.on_opened),
                            .blobs = options.blobs,
                            .file = options.file,
                            .lists_tried = options.lists_tried};
  if (check == Check::model && options.forced == nullptr && !TRY(is_model(container))) TRY(read_model(container));
  const Time time = file.modified != 0 ? file.modified : time_now();
  return SourceEntry{
      container.name, time, 0,
      [=, forced = options.forced, shown = std::move(file.shown)]() -> Result<Opened> {
        return OpenedModel{std::make_shared<Model>(TRY(read_remote_model(container, forced))), shown, time};
      },
      version_on_server(*container.bytes)};
}

Result<void> ObjectsBelow::add(StoredObject object) {
  const uint64_t size = object.entry.bytes->size();
  const Time modified = object.entry.modified;
  const bool is_marker = size == 0 && (object.name.ends_with('/') || object.name == prefix_);
  if (is_marker) return {};
  is_empty_ = false;
  modified_ = std::max(modified_, modified);
  const std::string line = fmt::format("{}/{}/{}/{}\n", object.name, size, object.version, modified);
  version_.update(std::as_bytes(std::span(line)));
  return files_.add(object.name.substr(prefix_.size()), std::move(object.entry));
}

Result<SourceEntry> ObjectsBelow::finish(const std::string& label, std::string shown, const OpenOptions& options) && {
  if (is_empty_) return failure(Code::not_found, fmt::format("{}: no objects below it", shown));
  std::string_view path = prefix_;
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::string name = path.empty() ? label : std::string(path.substr(path.rfind('/') + 1));
  if (shown.ends_with('/')) shown.pop_back();
  const Time modified = modified_ != 0 ? modified_ : time_now();
  SourceEntry entry = listed_source({std::move(files_).finish(), name, std::move(shown), modified}, options);
  entry.version = version_.finish().hex();
  return entry;
}

}  // namespace weightfs
