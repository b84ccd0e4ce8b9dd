// weightfs verify: compares the files of models with the checksums in their containers, and writes block lists.
#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <vector>

#include "base/text.h"
#include "base/verity/block_list.h"
#include "cli/console/progress.h"
#include "cli/console/report_error.h"
#include "cli/findings/model_verifier.h"
#include "cli/open_source.h"
#include "cli/verbs.h"

namespace weightfs {
namespace {

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
  void drop_unverified() override { store_->drop_unverified(); }

 private:
  BlobsPtr store_;
};

using verdicts::ModelVerifier;
using verdicts::VerdictOutput;

struct VerifyArguments {
  SourceInput input;
  std::vector<std::string> sources;
  std::string tree;    // the file to write; empty: none
  bool force = false;  // replace it
  bool safe = false;
  bool json = false;
  bool sarif = false;
  bool verbose = false;

  VerdictOutput output() const {
    using Sources = VerdictOutput::Sources;
    return {json    ? VerdictOutput::Form::json
            : sarif ? VerdictOutput::Form::sarif
                    : VerdictOutput::Form::text,
            verbose ? verdicts::Detail::all : verdicts::Detail::one_line,
            sources.size() == 1 ? Sources::one : Sources::several};
  }
};

Result<void> check(const VerifyArguments& arguments) {
  if (arguments.json && arguments.sarif) return failure(Code::unsupported, "--json and --sarif exclude each other");
  if (arguments.tree.empty()) return {};
  if (arguments.json || arguments.sarif) return failure(Code::unsupported, "--tree excludes --json and --sarif");
  if (arguments.sources.size() > 1) return failure(Code::unsupported, "--tree needs one SOURCE");
  std::error_code absent;
  const std::string& source = arguments.sources.front();
  if (is_path(source) && std::filesystem::equivalent(source, arguments.tree, absent))
    return failure(Code::unsupported, fmt::format("--tree {}: is SOURCE itself", arguments.tree));
  return {};
}

// The file that --tree describes. The forest is open already, so this is the file that is verified.
Result<SourcePtr> open_single_file(const SourceInput& input, const OpenedSources& opened) {
  const std::string& source = opened.sources.front();
  const auto refused = [](const std::string& reason) {
    return Error{Code::unsupported, fmt::format("{}; --tree needs one file", reason)};
  };
  SourcePtr file = TRY(open_source_file(source, input.open_options, opened.proof).map_error([&](const Error& error) {
    return error.code == Code::unsupported ? refused(error.message) : error;
  }));
  const uint64_t all_bytes = opened.forests.front()->container_bytes();
  if (!is_registry_name(source) && file->size() != all_bytes)
    return failure(refused(fmt::format("{}: is one of several files of a model, with {} of {} bytes",
                                       printable_source(source), file->size(), all_bytes)));
  return file;
}

// Returns the fs-verity digest of the file.
Result<Digest> write_block_list(const Source& file, const std::string& name, sandbox::OutputFile& output) {
  const auto write = [&](uint64_t offset, std::span<const std::byte> bytes) { return output.write(offset, bytes); };
  ProgressBar bar;
  BlockListBuilder builder(file.size(), write);
  std::vector<std::byte> buffer(size_t{1} << 20);
  for (uint64_t offset = 0; offset < file.size();) {
    bar.show(offset, file.size(), quoted(name));
    const size_t got = TRY(file.read_ahead(offset, buffer, {0, file.size()}));
    if (got == 0) return failure(Code::io, fmt::format("{}: the file ended before its size", name));
    TRY_VOID(builder.add(std::span(buffer).first(got)));
    offset += got;
  }
  const Digest digest = TRY(builder.finish());
  TRY_VOID(output.publish());
  return digest;
}

// Writes the block list of the only source, which was verified.
Exit write_list_of(const SourcePtr& file, const std::string& name, sandbox::OutputFile& output) {
  const auto digest = write_block_list(*file, name, output);
  if (!digest) return report_error(digest.error());
  std::printf("sha256:%s %s\n", digest->hex().c_str(), printable(name).c_str());
  return Exit::ok;
}

// Verifies one source, which is freed then.
Outcome verify_source(const VerifyArguments& arguments, OpenedSources& opened, size_t source, VerdictOutput& output) {
  const std::string name = printable_source(arguments.sources[source]);
  const std::unique_ptr<Forest> forest = std::move(opened.forests[source]);
  const auto safety = arguments.safe ? ModelVerifier::Safety::checked : ModelVerifier::Safety::ignored;
  ModelVerifier verifier(*forest, safety, output);
  Outcome outcome = verifier.verify_source(name);
  if (!arguments.safe) return outcome;
  const auto files = files_of_directory(opened.sources[source], arguments.input.open_options, opened.proof);
  if (files)
    outcome.add(verifier.check_other_files(*files, name));
  else
    outcome.fail(files.error());
  return outcome;
}

Result<std::unique_ptr<sandbox::OutputFile>> open_list(const VerifyArguments& arguments) {
  if (arguments.tree.empty()) return nullptr;
  return sandbox::OutputFile::create(arguments.tree,
                                     arguments.force ? sandbox::Existing::replaced : sandbox::Existing::kept);
}

Exit verify_sources(VerifyArguments& arguments) {
  if (const auto checked = check(arguments); !checked) return report_error(checked.error(), Exit::usage);
  auto list = open_list(arguments);
  if (!list) return report_error(list.error());
  arguments.input.store_flags.store.compares_digests = true;
  arguments.input.open_options.lists_tried = arguments.verbose;
  std::map<size_t, Error> unopened;
  auto opened =
      open_each_source(arguments.sources, arguments.input,
                       {.failed = [&](size_t source, const Error& error) { unopened.emplace(source, error); },
                        .blobs_from = [](const BlobStorePtr& store) { return std::make_shared<UncachedBlobs>(store); },
                        .output = list->get()});
  if (!opened) return report_error(opened.error());
  SourcePtr file;
  if (*list != nullptr && unopened.empty()) {
    auto single = open_single_file(arguments.input, *opened);
    if (!single) return report_error(single.error());
    file = std::move(*single);
  }
  VerdictOutput output = arguments.output();
  Outcome outcome;
  bool is_directory = false;
  for (size_t i = 0; i < arguments.sources.size(); ++i) {
    if (const auto failed = unopened.find(i); failed != unopened.end()) {
      outcome.fail(failed->second);
      output.add_unopened(printable_source(arguments.sources[i]), failed->second);
      continue;
    }
    is_directory = is_directory || opened->forests[i]->model_of(Forest::kRoot) == nullptr;
    outcome.add(verify_source(arguments, *opened, i, output));
  }
  output.end(is_directory);
  if (outcome.status() != Exit::ok || file == nullptr) return outcome.status();
  return write_list_of(file, printable_source(arguments.sources.front()), **list);
}

}  // namespace

Command verify_command() {
  const auto given = std::make_shared<VerifyArguments>();
  const auto take_tree = [given](const std::string& value) -> Result<void> {
    if (value.empty()) return failure(Code::unsupported, "not a file name");
    given->tree = value;
    return {};
  };
  return {
      "verify",
      "verify every file against the checksum in its container",
      {arguments("SOURCE", source_argument(given->input).help, given->sources, Argument::Count::some)},
      source_options(given->input,
                     {{"tree", "FILE",
                       "write the block list of SOURCE in the format of fs-verity, if it is one file, and print its "
                       "fs-verity digest (default: no block list)",
                       take_tree},
                      flag("safe", "fail with status 4 if loading a pickle would run code", given->safe),
                      flag("json", "print a JSON object: the verdict about each model", given->json),
                      flag("sarif", "print a SARIF 2.1.0 log, for services that show results of checks", given->sarif),
                      flag("force", "replace the FILE of --tree if it exists", given->force),
                      flag('v', "verbose",
                           "print each problem and each warning, not one line for a model; and the formats that were "
                           "tried, if a file is not a model",
                           given->verbose)}),
      {},
      [given] { return verify_sources(*given); }};
}

}  // namespace weightfs
