// weightfs verify: compares the files of models with the checksums in their containers.
#include "formats/verify.h"

#include <fmt/core.h>

#include <cstdio>
#include <map>
#include <memory>

#include "base/text.h"
#include "cli/console/progress.h"
#include "cli/open_source.h"
#include "cli/verbs.h"

namespace weightfs {
namespace {

// The result line of a model without errors.
std::string summarize(const Model& model, const Verification& found) {
  if (found.checked == 0)
    return fmt::format("{} has no checksums; structure valid, {} tensors", model.format, model.tensors.size());
  return fmt::format(
      "{}{}",
      found.checked == 1 ? "1 file matches its checksum" : fmt::format("{} files match their checksums", found.checked),
      found.unchecked == 0 ? "" : fmt::format(", {} have none", found.unchecked));
}

Exit verify_model(const Model& model, const std::string& name) {
  ProgressBar bar;
  const Verification found =
      verify(model, [&](const Progress& progress) { bar.show(progress.bytes, progress.total, quoted(progress.path)); });
  bar.clear();
  const auto print = [&](const char* what, const std::string& line) {
    std::printf("%s: %s%s\n", printable(name).c_str(), what, printable(line).c_str());
  };
  for (const std::string& line : found.wrong) print("", line);
  for (const Error& error : found.unreadable) print("", error.message);
  if (found.more > 0) print("", fmt::format("... and {} more", found.more));
  if (!found.wrong.empty()) return Exit::mismatch;
  if (!found.unreadable.empty()) return exit_of(found.unreadable.front().code);
  for (const std::string& warning : model.warnings) print("warning: ", warning);
  print("", summarize(model, found));
  return Exit::ok;
}

// Verifies each model once: tags that are hard links of one manifest share a model.
class Verifier {
 public:
  explicit Verifier(Forest& forest) : forest_(forest) {}

  // Verifies every model in a directory. The first failure is the status.
  Exit verify_all(Ino directory, const std::string& name) {
    const auto all = forest_.list(directory);
    if (!all) return report_error(all.error());
    if (const ModelPtr model = all->tree->model()) return verify_once(model, name);
    Exit status = Exit::ok;
    for (uint32_t i = 0; i < all->count; ++i) {
      const Node node = all->tree->node(all->first + i);
      if (node.kind != NodeKind::tree && node.kind != NodeKind::directory) continue;
      const Exit other = verify_all(all->ino + i, fmt::format("{}/{}", name, node.name()));
      status = status == Exit::ok ? other : status;
    }
    return status;
  }

 private:
  struct Verified {
    std::string name;
    Exit status;
  };

  Exit verify_once(const ModelPtr& model, const std::string& name) {
    if (const auto known = verified_.find(model); known != verified_.end()) {
      std::printf("%s: the same as %s\n", printable(name).c_str(), printable(known->second.name).c_str());
      return known->second.status;
    }
    const Exit status = verify_model(*model, name);
    verified_.emplace(model, Verified{name, status});
    return status;
  }

  Forest& forest_;
  std::map<std::weak_ptr<const Model>, Verified, std::owner_less<>> verified_;
};

// Decodes members again instead of reading cached copies. Blobs that a container only refers to come from the store.
class UncachedBlobs final : public Blobs {
 public:
  explicit UncachedBlobs(BlobsPtr store) : store_(std::move(store)) {}
  SourcePtr blob(BlobProducer recipe) override { return uncached_blobs()->blob(std::move(recipe)); }
  Result<SourcePtr> materialize(BlobProducer recipe) override {
    return uncached_blobs()->materialize(std::move(recipe));
  }
  Result<ResolvedBlob> resolve(const BlobRef& wanted) override { return store_->resolve(wanted); }
  bool is_local(const BlobRef& wanted) override { return store_->is_local(wanted); }

 private:
  BlobsPtr store_;
};

Exit verify_source(SourceInput& input) {
  input.store_flags.recheck = Recheck::full;
  const auto opened =
      open_source(input, [](const BlobStorePtr& store) { return std::make_shared<UncachedBlobs>(store); });
  if (!opened) return report_error(opened.error());
  return Verifier(*opened->forest).verify_all(Forest::kRoot, printable_source(input.source));
}

}  // namespace

Command verify_command() {
  const auto given = std::make_shared<SourceInput>();
  return {"verify",
          "verify every file against the checksum in its container",
          {source_argument(*given)},
          source_options(*given),
          {},
          [given] { return verify_source(*given); }};
}

}  // namespace weightfs
