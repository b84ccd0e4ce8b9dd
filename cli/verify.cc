// weightfs verify: compares the files of models with the checksums in their containers, and writes block lists.
#include "formats/verify.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <vector>

#include "base/text.h"
#include "base/verity/block_list.h"
#include "cli/console/outcome.h"
#include "cli/console/progress.h"
#include "cli/console/report_error.h"
#include "cli/open_source.h"
#include "cli/verbs.h"
#include "report/inspect/safety.h"
#include "report/inspect/verified.h"
#include "report/text/errors.h"
#include "report/text/words.h"

namespace weightfs {
namespace {

bool is_alternative(const Model& model, const std::string& part) {
  return std::ranges::any_of(model.chosen->alternatives, [&](const auto& other) { return other.path == part; });
}

// With what is only known when its blobs are there.
Result<ModelPtr> whole(const Result<ModelPtr>& model) {
  return model && (*model)->complete_model != nullptr ? (*model)->complete_model->get() : model;
}

// Adds the number of bytes that were read to `read`.
Outcome verify_model(const Model& model, const std::string& name, uint64_t& read) {
  ProgressBar bar;
  uint64_t so_far = 0;
  const Verification found = verify(model, [&](const Progress& progress) {
    so_far = progress.bytes;
    bar.show(progress.bytes, progress.total, quoted(progress.path));
  });
  read += so_far;
  bar.clear();
  const auto print = [&](const char* what, const std::string& line) {
    std::printf("%s: %s%s\n", printable(name).c_str(), what, printable(line).c_str());
  };
  for (const std::string& line : found.wrong) print("", line);
  for (const Error& error : found.unreadable) print("", error.message);
  if (found.more > 0) print("", fmt::format("... and {} more", found.more));
  const auto is_printed = [&](const std::string& warning) {
    return std::ranges::any_of(found.unreadable, [&](const Error& error) { return error.message == warning; });
  };
  for (const std::string& line : found.edited) print("warning: ", line);
  for (const std::string& warning : model.warnings)
    if (!is_printed(warning)) print("warning: ", warning);
  Outcome outcome;
  const std::string subject = printable(name);
  const char* const more = found.more > 0 ? " at least" : "";
  if (!found.wrong.empty()) outcome.fail({Code::mismatch, fmt::format("{}: {}{}", subject, count_wrong(found), more)});
  for (const Error& error : found.unreadable) outcome.note(error);
  if (!found.unreadable.empty())
    outcome.fail({found.unreadable.front().code,
                  fmt::format("{}: {} cannot be read{}", subject, count_unreadable(model, found), more)});
  outcome.check(model, name);
  if (outcome.status() == Exit::ok) print("", summarize(model, found));
  return outcome;
}

ReportError failing(Outcome& outcome) {
  return [&](const Error& error) { outcome.fail(error); };
}

// Verifies each model once: tags that are hard links of one manifest share a model.
class Verifier {
 public:
  Verifier(Forest& forest, bool is_safe) : forest_(forest), is_safe_(is_safe) {}

  // Verifies every model in a source, which has at least one.
  Outcome verify_source(const std::string& name) {
    Outcome outcome = verify_all(Forest::kRoot, name);
    if (verified_.empty() && outcome.status() == Exit::ok)
      outcome.fail({Code::unsupported, fmt::format("{}: no supported model in this directory", printable(name))});
    return outcome;
  }

  // Checks the files of a directory on disk that its models do not have.
  Outcome check_other_files(const std::vector<Part>& files, const std::string& name) {
    Outcome outcome;
    const auto fail = failing(outcome);
    const auto root = forest_.list(Forest::kRoot);
    const ModelPtr model = root ? root->tree->model() : nullptr;
    if (model != nullptr && (model->chosen.is_set() || model->has_members)) return outcome;  // were checked
    std::vector<Part> others;
    for (const Part& file : files)
      if (model != nullptr || !is_in_model(file.path)) others.push_back(file);
    for (const Part& file : others)
      if (file.link_target.empty()) check_safety(file, name, fail);
    check_code(std::move(others), name, fail);
    return outcome;
  }

 private:
  // Verifies every model in a directory.
  Outcome verify_all(Ino directory, const std::string& name) {
    Outcome outcome;
    const auto all = forest_.list(directory);
    if (!all) {
      outcome.fail(error_at(name, all.error()));
      return outcome;
    }
    if (const ModelPtr model = all->tree->model()) return verify_once(model, name);
    for (uint32_t i = 0; i < all->count; ++i) {
      const Node node = all->tree->node(all->first + i);
      if (node.kind == NodeKind::tree || node.kind == NodeKind::directory)
        outcome.add(verify_all(all->ino_of(i), join_path(name, node.name())));
    }
    return outcome;
  }

  // Whether a path below a directory of models is a model, or leads into one.
  bool is_in_model(const std::string& path) {
    for (size_t slash = path.find('/'); true; slash = path.find('/', slash + 1)) {
      const auto found = forest_.resolve(path.substr(0, slash));
      const auto all = found ? forest_.list(*found) : tl::unexpected(found.error());
      if (!all) return false;
      if (all->tree->model() != nullptr) return true;
      if (slash == path.npos) return false;
    }
  }

  struct Verified {
    std::string name;
    Outcome outcome;
  };

  // What verify_once() reads of models in models at most: members of a zip may share bytes, also through shards.
  uint64_t most_nested() const {
    constexpr uint64_t kFactor = 1'000, kFree = 1'000'000'000;
    const uint64_t bytes = forest_.container_bytes();
    return bytes > (UINT64_MAX - kFree) / kFactor ? UINT64_MAX : kFactor * bytes + kFree;
  }

  // The models in a model, such as the files of an archive, and those in them. Those of the same bytes are one model.
  void verify_nested(const ModelPtr& model, const std::string& name, Outcome& outcome) {
    const auto nested = model->nested ? model->nested(model) : std::vector<Nested>();
    if (!nested) return outcome.fail(error_at(name, nested.error()));
    std::set<const Model*> verified;
    for (const Nested& inner : *nested) {
      const std::string& part = model->parts[inner.part].path;
      if (is_alternative(*model, part)) continue;
      const std::string path = join_path(name, fmt::format("nested/{}", part));
      const auto read = whole(inner.model.get());
      if (!read) {
        outcome.fail(error_at(path, read.error()));
        continue;
      }
      if (!verified.insert(read->get()).second) continue;
      if (nested_bytes_ > most_nested()) {
        outcome.fail({Code::unsupported,
                      fmt::format("{}: not verified: the models in the source share too many bytes", printable(path))});
        return;
      }
      outcome.add(verify_model(**read, path, nested_bytes_));
      verify_nested(*read, path, outcome);
    }
  }

  Outcome verify_once(const ModelPtr& model, const std::string& name) {
    if (const auto known = verified_.find(model); known != verified_.end()) {
      std::printf("%s: the same as %s\n", printable(name).c_str(), printable(known->second.name).c_str());
      return known->second.outcome;
    }
    uint64_t read = 0;
    Outcome outcome = verify_model(*model, name, read);
    verify_nested(model, name, outcome);
    if (is_safe_) check_safety(model, name, failing(outcome));
    verified_.emplace(model, Verified{name, outcome});
    return outcome;
  }

  Forest& forest_;
  bool is_safe_;               // no pickle may run code
  uint64_t nested_bytes_ = 0;  // that were read of models in models
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
  void drop_unverified() override { store_->drop_unverified(); }

 private:
  BlobsPtr store_;
};

struct VerifyArguments {
  SourceInput input;
  std::string tree;    // the file to write; empty: none
  bool force = false;  // replace it
  bool safe = false;
};

// The file that --tree describes. The forest is open already, so this is the file that is verified.
Result<SourcePtr> open_single_file(const SourceInput& input, const OpenedSource& opened) {
  const auto refused = [](const std::string& reason) {
    return Error{Code::unsupported, fmt::format("{}; --tree needs one file", reason)};
  };
  SourcePtr file =
      TRY(open_source_file(input.source, input.open_options, opened.proof).map_error([&](const Error& error) {
        return error.code == Code::unsupported ? refused(error.message) : error;
      }));
  if (!is_registry_name(input.source) && file->size() != opened.forest->container_bytes())
    return failure(
        refused(fmt::format("{}: is one of several files of a model, with {} of {} bytes",
                            printable_source(input.source), file->size(), opened.forest->container_bytes())));
  return file;
}

// Returns the fs-verity digest of the file. The list of a cached blob is saved beside it.
Result<Digest> write_block_list(const Source& file, const std::string& name, BlobStore& store,
                                sandbox::OutputFile& output) {
  const auto write = [&](uint64_t offset, std::span<const std::byte> bytes) { return output.write(offset, bytes); };
  TRY_VOID(file.prefetch({0, file.size()}));  // all bytes were read: it is published at most
  if (const auto saved = TRY(store.copy_block_list(file, write))) {
    TRY_VOID(output.publish());
    return *saved;
  }
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

Exit verify_source(VerifyArguments& arguments) {
  SourceInput& input = arguments.input;
  const std::string name = printable_source(input.source);
  std::unique_ptr<sandbox::OutputFile> output;
  if (!arguments.tree.empty()) {
    std::error_code absent;
    if (is_path(input.source) && std::filesystem::equivalent(input.source, arguments.tree, absent))
      return report_error({Code::io, fmt::format("--tree {}: is SOURCE itself", arguments.tree)}, Exit::usage);
    auto created = sandbox::OutputFile::create(arguments.tree,
                                               arguments.force ? sandbox::Existing::replaced : sandbox::Existing::kept);
    if (!created) return report_error(created.error());
    output = std::move(*created);
  }
  input.store_flags.store.recheck = Recheck::full;
  const auto opened = open_source(
      input, [](const BlobStorePtr& store) { return std::make_shared<UncachedBlobs>(store); }, output.get());
  if (!opened) return report_error(opened.error());
  SourcePtr file;
  if (output != nullptr) {
    auto single = open_single_file(input, *opened);
    if (!single) return report_error(single.error());
    file = std::move(*single);
  }
  Verifier verifier(*opened->forest, arguments.safe);
  Outcome outcome = verifier.verify_source(name);
  if (arguments.safe) {
    const auto files = files_of_directory(input.source, input.open_options, opened->proof);
    if (files)
      outcome.add(verifier.check_other_files(*files, name));
    else
      outcome.fail(files.error());
  }
  const Exit status = outcome.status();
  if (status != Exit::ok || file == nullptr) return status;
  const auto digest = write_block_list(*file, name, *opened->store, *output);
  if (!digest) return report_error(digest.error());
  std::printf("sha256:%s %s\n", digest->hex().c_str(), printable(name).c_str());
  return Exit::ok;
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
      {source_argument(given->input)},
      source_options(given->input, {{"tree", "FILE",
                                     "write the block list of SOURCE in the format of fs-verity, if it is one file, "
                                     "and print its fs-verity digest (default: no block list)",
                                     take_tree},
                                    flag("safe", "fail with status 4 if loading a pickle would run code", given->safe),
                                    flag("force", "replace the FILE of --tree if it exists", given->force)}),
      {},
      [given] { return verify_source(*given); }};
}

}  // namespace weightfs
