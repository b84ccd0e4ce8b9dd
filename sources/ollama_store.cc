// A directory with manifests/ and blobs/: the store of Ollama, or of Docker Model Runner.
#include <functional>
#include <map>
#include <mutex>

#include "base/digest.h"
#include "base/text.h"
#include "formats/ollama/store.h"
#include "sources/disk/model_runner.h"
#include "sources/kinds.h"

namespace weightfs {
namespace {

// Models by the identity of their manifest file. Tags that are hard links of one file share a model while it is in
// memory.
class SharedModels {
 public:
  Result<ModelPtr> get(const std::string& identity, const std::function<Result<Model>()>& read) {
    if (identity.empty()) return std::make_shared<Model>(TRY(read()));
    {
      const std::scoped_lock lock(mutex_);
      if (auto model = models_[identity].lock()) return model;
    }
    const auto model = std::make_shared<const Model>(TRY(read()));
    const std::scoped_lock lock(mutex_);
    models_[identity] = model;
    return model;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const Model>> models_;
};

Result<Opened> open_store(const Location& store, Time time, const std::shared_ptr<const OpenOptions>& shared_options) {
  const OpenOptions& options = *shared_options;
  const Location manifests = store / "manifests";
  auto directories = directories_below(manifests);
  const auto blobs = std::make_shared<DiskFolder>(store / "blobs");
  const OllamaStoreListing stored = TRY(read_ollama_store(DiskFolder(manifests), blobs, options.blobs));
  const auto models = std::make_shared<SharedModels>();
  Listing listing{{}, time, 0};
  for (const StoredModel& entry : stored.models) {
    const Location file = manifests / entry.path;
    const auto found = file.examine();
    const Time file_time = found ? modified(*found) : time;
    const Format* const format = options.forced == nullptr ? format_named("ollama") : options.forced;
    const auto open = [=, entry = entry]() -> Result<Opened> {
      const auto read = [&] { return read_model(entry.container, format); };
      return OpenedModel{TRY(models->get(entry.identity, read)), file.path(), file_time};
    };
    listing.entries.push_back({entry.path, file_time, 0, open, found ? version_of(*found) : ""});
  }
  // Entering one reports the error.
  const auto options_of_manifest = std::make_shared<OpenOptions>(options);
  options_of_manifest->forced = options.forced == nullptr ? format_named("ollama") : options.forced;
  for (const std::string& path : stored.damaged) {
    const Location file = manifests / path;
    const auto found = file.examine();
    const Time file_time = found ? modified(*found) : time;
    const auto open = [=] { return open_container(file, file_time, *options_of_manifest); };
    listing.entries.push_back({path, file_time, 0, open, found ? version_of(*found) : ""});
  }
  if (!stored.warnings.empty()) {
    std::string text;
    for (const std::string& line : stored.warnings) text += printable(line) + "\n";
    const std::string version = sha256(text).hex();
    listing.entries.push_back({"warnings.txt", time, 0, in_memory(std::move(text)), version});
  }
  listing.directories = std::move(directories);
  listing.again = [=](Directories) -> Result<Opened> {
    return open_store(store, modified(TRY(store.examine())), shared_options);
  };
  return listing;
}

Result<Opened> open_model_runner(const Location& store, Time time, const std::shared_ptr<const OpenOptions>& options) {
  const auto blobs = std::make_shared<DiskFolder>(store / "blobs/sha256");
  Listing listing{{}, time, 0};
  if (auto directory = watched(store)) listing.directories.push_back(std::move(*directory));
  for (WatchedDirectory& directory : directories_below(store / "manifests"))
    listing.directories.push_back(std::move(directory));
  for (const TaggedModel& model : TRY(read_model_runner_store(store))) {
    const Location file = model.manifest;
    const auto found = file.examine();
    const Time file_time = found ? modified(*found) : time;
    const Format* const format = options->forced == nullptr ? format_named("oci") : options->forced;
    const auto open = [=, name = model.path.substr(model.path.rfind('/') + 1)]() -> Result<Opened> {
      const SourcePtr bytes = TRY(file.open());
      const Container manifest{.name = name, .bytes = bytes, .folder = blobs, .blobs = options->blobs};
      return OpenedModel{std::make_shared<Model>(TRY(read_model(manifest, format))), file.path(), file_time};
    };
    listing.entries.push_back({model.path, file_time, 0, open, found ? version_of(*found) : ""});
  }
  listing.again = [=](Directories) -> Result<Opened> {
    return open_model_runner(store, modified(TRY(store.examine())), options);
  };
  return listing;
}

}  // namespace

Result<Opened> open_model_runner_store(const Location& store, Time time, const OpenOptions& options) {
  return open_model_runner(store, time, std::make_shared<const OpenOptions>(options));
}

Result<Opened> open_ollama_store(const Location& store, Time time, const OpenOptions& options) {
  return open_store(store, time, std::make_shared<const OpenOptions>(options));
}

}  // namespace weightfs
