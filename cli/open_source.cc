#include "cli/open_source.h"

#include <fmt/core.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "cli/console/check_spelling.h"
#include "cli/console/report_error.h"
#include "cli/console/source_error.h"
#include "cli/mount/mounted_source.h"
#include "cli/pipeline/stages.h"
#include "report/inspect/models_below.h"
#include "report/text/errors.h"
#include "report/text/words.h"

namespace weightfs {
namespace {

struct ConfinedCommand {
  std::unique_ptr<sandbox::Broker> broker;
  Confined confined;
  std::vector<MountedSource> located;  // what each argument stands for
};

// The sources of the mounts that arguments are in, and the others as they are.
Result<std::vector<MountedSource>> locate(const std::vector<std::string>& sources) {
  std::vector<MountedSource> located;
  for (const std::string& source : sources)
    located.push_back(TRY(mounted_source(source)).value_or(MountedSource{{source}, ""}));
  return located;
}

// Hands the options with the store back to `input`.
Result<ConfinedCommand> confine(const std::vector<std::string>& sources, SourceInput& input, sandbox::Output* output) {
  TRY_VOID(check_spelling(sources));
  std::vector<MountedSource> located = TRY(locate(sources));
  std::vector<std::string> all;
  for (const MountedSource& each : located) all.insert(all.end(), each.sources.begin(), each.sources.end());
  if (all != sources) input.open_options.needed_tensors = nullptr;  // the paths are below a directory of a mount
  Plan plan = Plan::make(std::move(all), input.open_options, input.store_flags, log_to_stderr);
  plan.flags.store.fetching.options.used_up = std::make_shared<http::UsedUp>();
  auto broker = TRY(sandbox::start_command_broker(plan.flags, output));
  Rights rights{.broker = plan.flags.sandbox ? broker.get() : nullptr};
  if (output != nullptr && !output->writable_directory().empty())
    rights.access.files.write.push_back(output->writable_directory());
  Confined confined = TRY(Confined::enter({std::move(plan), std::move(rights)}));
  input.open_options = confined.options;
  return ConfinedCommand{std::move(broker), std::move(confined), std::move(located)};
}

// A model or a directory of models in a forest as a forest of its own, and the path below it.
Result<EnteredModel> enter(std::unique_ptr<Forest> forest, std::string_view inside) {
  Ino at = Forest::kRoot;
  TreePtr tree = TRY(forest->list(at)).tree;
  ModelPtr model = forest->model_of(at);
  const TreePtr root = tree;
  std::string path;
  while (!inside.empty()) {
    const std::string_view name = cut_component(inside);
    at = TRY(forest->lookup(at, name));
    TreePtr below = TRY(forest->list(at)).tree;
    ModelPtr entered = forest->model_of(at);
    const bool is_root = below != tree && (entered == nullptr || entered != model);
    path = is_root ? "" : join_path(path, std::string(name));
    if (is_root) tree = std::move(below);
    model = std::move(entered);
  }
  if (tree != root) forest = std::make_unique<Forest>(std::move(tree));
  return EnteredModel{std::move(forest), std::move(path)};
}

// Opens the source that an argument stands for. `files/` of a mount is the model.
Result<EnteredModel> open_located(const Confined& confined, const MountedSource& located, const std::string& source,
                                  const SourceInput& input) {
  const std::string shown = printable_source(source);
  auto forest = confined.open(located.sources, input.layout);
  if (!forest) return tl::unexpected(error_of_source(source, forest.error()));
  if (located.inside.empty()) return EnteredModel{std::move(*forest), ""};
  auto entered = enter(std::move(*forest), located.inside);
  if (!entered) return failure(error_at(shown, entered.error()));
  if (input.takes_paths || entered->path.empty()) return entered;
  const bool is_in_model = entered->forest->model_of(Forest::kRoot) != nullptr;
  if (!is_in_model)
    return failure(Code::unsupported, fmt::format("{}: is a part of a store; name a model in it, or the mount", shown));
  if (entered->path != "files")
    return failure(Code::unsupported,
                   fmt::format("{}: is the directory {} of a model; name the model", shown, quoted(entered->path)));
  entered->path.clear();
  return entered;
}

}  // namespace

Result<OpenedSource> open_source(SourceInput& input, sandbox::Output* output) {
  ConfinedCommand command = TRY(confine({input.source}, input, output));
  EnteredModel entered = TRY(open_located(command.confined, command.located.front(), input.source, input));
  return OpenedSource{std::move(command.confined.store), std::move(command.broker), std::move(entered.forest),
                      command.located.front().sources.front(), std::move(entered.path)};
}

Result<OpenedSources> open_each_source(const std::vector<std::string>& sources, SourceInput& input,
                                       const OpenEach& how) {
  ConfinedCommand command = TRY(confine(sources, input, how.output));
  Confined& confined = command.confined;
  if (how.blobs_from) input.open_options.blobs = confined.options.blobs = how.blobs_from(confined.store);
  OpenedSources opened{.store = confined.store,
                       .broker = std::move(command.broker),
                       .forests = {},
                       .sources = {},
                       .proof = confined.sandbox.proof};
  for (size_t i = 0; i < sources.size(); ++i) {
    auto entered = open_located(confined, command.located[i], sources[i], input);
    if (!entered && !how.failed) return failure(entered.error());
    if (!entered) how.failed(i, entered.error());
    opened.forests.push_back(entered ? std::move(entered->forest) : nullptr);
    opened.sources.push_back(command.located[i].sources.front());
  }
  return opened;
}

EnteredModel only_model(std::unique_ptr<Forest> forest, const std::string& source) {
  std::error_code error;
  const bool is_store = is_path(source) && std::filesystem::is_directory(source + "/blobs", error);
  if (is_store || forest->model_of(Forest::kRoot) != nullptr) return {std::move(forest), ""};
  const std::vector<std::string> paths = models_below(*forest, Forest::kRoot, "", 2);
  const auto found = paths.size() == 1 ? forest->resolve(paths.front()) : Result<Ino>(failure(Code::not_found, ""));
  const auto all = found ? forest->list(*found) : tl::unexpected(found.error());
  if (!all || all->tree->model() == nullptr) return {std::move(forest), ""};
  return {std::make_unique<Forest>(all->tree), paths.front().substr(0, paths.front().size() - 1)};
}

}  // namespace weightfs
