// weightfs verify: whether a model's bytes are those that its container says it has.
#include "formats/verify.h"

#include <cstdio>
#include <map>
#include <memory>

#include "base/text.h"
#include "cli/console/progress.h"
#include "cli/sandbox/sandbox.h"
#include "cli/verbs.h"
#include "fs/forest.h"

namespace weightfs {
namespace {

// What there is to say of a model whose bytes are right.
std::string praise(const Model& model, const Verification& found) {
  if (found.checked == 0)
    return str(model.format, " carries no checksums; its structure is sound, ", model.tensors.size(), " tensors");
  return str(found.checked == 1 ? "1 file matches its checksum" : str(found.checked, " files match their checksums"),
             found.unchecked == 0 ? "" : str(", ", found.unchecked, " carry none"));
}

Exit verify_model(const Model& model, const std::string& name) {
  ProgressBar bar;
  const Verification found =
      verify(model, [&](const Progress& progress) { bar.show(progress.bytes, progress.whole, quoted(progress.path)); });
  bar.clear();
  const auto say = [&](const char* what, const std::string& line) {
    std::printf("%s: %s%s\n", printable(name).c_str(), what, printable(line).c_str());
  };
  for (const std::string& line : found.wrong) say("", line);
  for (const Error& error : found.unreadable) say("", error.message);
  if (found.more > 0) say("", str("... and ", found.more, " more"));
  if (!found.wrong.empty()) return Exit::mismatch;
  if (!found.unreadable.empty()) return exit_of(found.unreadable.front().code);
  for (const std::string& warning : model.warnings) say("warning: ", warning);
  say("", praise(model, found));
  return Exit::ok;
}

// Verifies each model once: tags that are hard links of one manifest share a model.
class Verifier {
 public:
  explicit Verifier(Forest& forest) : forest_(forest) {}

  // Every model in a directory, to the last; the first failure is the status.
  Exit verify_all(Ino directory, const std::string& name) {
    const auto all = forest_.list(directory);
    if (!all) return complain(all.error());
    if (const ModelPtr model = all->tree->model()) return verify_once(model, name);
    Exit status = Exit::ok;
    for (uint32_t i = 0; i < all->count; ++i) {
      const Node& node = all->tree->node(all->first + i);
      if (node.kind != Kind::tree && node.kind != Kind::directory) continue;
      const Exit other = verify_all(all->ino + i, str(name, "/", node.name()));
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

// What the container holds is looked at itself, not what a cache has of it; what it only names comes from where reads
// have it from.
class Unkept final : public Blobs {
 public:
  explicit Unkept(BlobsPtr store) : store_(std::move(store)) {}
  SourcePtr blob(BlobProducer recipe) override { return uncached_blobs()->blob(std::move(recipe)); }
  Result<SourcePtr> materialize(BlobProducer recipe) override {
    return uncached_blobs()->materialize(std::move(recipe));
  }
  Result<ResolvedBlob> resolve(const BlobRef& wanted) override { return store_->resolve(wanted); }
  bool is_local(const BlobRef& wanted) override { return store_->is_local(wanted); }

 private:
  BlobsPtr store_;
};

Exit verify_source(const std::string& source, OpenOptions opening, Storing storing) {
  storing.recheck = Recheck::full;
  const auto store = use_store(opening, storing, log_to_stderr);
  if (!store) return complain(store.error());
  const auto sandbox = confine_command(source, opening.access, storing, log_to_stderr);
  if (!sandbox) return complain(sandbox.error());
  opening.blobs = std::make_shared<Unkept>(*store);
  auto tree = open_sources({source}, opening);
  if (!tree) return complain(tree.error());
  Forest forest(std::move(*tree));
  return Verifier(forest).verify_all(Forest::kRoot, source);
}

}  // namespace

void add_verify(CLI::App& app, Run& run) {
  auto source = std::make_shared<std::string>();
  auto opening = std::make_shared<OpenOptions>();
  auto storing = std::make_shared<Storing>();
  CLI::App* verb = app.add_subcommand("verify", "compare every file with the checksum that its container has for it");
  verb->add_option("SOURCE", *source,
                   "a model file, a directory of models, an Ollama store, or a name such as ollama:llama3.2")
      ->required();
  add_opening_options(*verb, *opening);
  add_store_options(*verb, *storing);
  verb->callback(
      [&run, source, opening, storing] { run = [=] { return verify_source(*source, *opening, *storing); }; });
}

}  // namespace weightfs
