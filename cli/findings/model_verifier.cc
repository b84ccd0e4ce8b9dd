#include "cli/findings/model_verifier.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"
#include "cli/console/progress.h"
#include "formats/verify.h"
#include "report/inspect/safety.h"
#include "report/inspect/verified.h"
#include "report/text/errors.h"
#include "report/text/words.h"

namespace weightfs::verdicts {
namespace {

bool is_alternative(const Model& model, const std::string& part) {
  return std::ranges::any_of(model.chosen->alternatives, [&](const auto& other) { return other.path == part; });
}

// With what is only known when its blobs are there.
Result<ModelPtr> whole(const Result<ModelPtr>& model) {
  return model && (*model)->complete_model != nullptr ? (*model)->complete_model->get() : model;
}

// Adds the number of bytes that were read to `read`.
std::pair<Verdict, Outcome> verify_model(const Model& model, const std::string& name, uint64_t& read) {
  ProgressBar bar;
  uint64_t so_far = 0;
  const Verification found = verify(model, [&](const Progress& progress) {
    so_far = progress.bytes;
    bar.show(progress.bytes, progress.total, quoted(progress.path));
  });
  read += so_far;
  bar.clear();
  Outcome outcome;
  const std::string subject = printable(name);
  const char* const more = found.more > 0 ? " at least" : "";
  if (!found.wrong.empty()) outcome.fail({Code::mismatch, fmt::format("{}: {}{}", subject, count_wrong(found), more)});
  for (const Error& error : found.unreadable) outcome.note(error);
  if (!found.unreadable.empty())
    outcome.fail({found.unreadable.front().code,
                  fmt::format("{}: {} cannot be read{}", subject, count_unreadable(model, found), more)});
  outcome.check(model, name);
  return {judge(model, found, name), outcome};
}

}  // namespace

Outcome ModelVerifier::verify_source(const std::string& name) {
  Outcome outcome = verify_all(Forest::kRoot, name);
  if (verified_.empty() && outcome.status() == Exit::ok) {
    const Error error{Code::unsupported, fmt::format("{}: no supported model in this directory", printable(name))};
    outcome.fail(error);
    output_.add_unopened(name, error);
  }
  return outcome;
}

Outcome ModelVerifier::check_other_files(const std::vector<Part>& files, const std::string& name) {
  Outcome outcome;
  const auto report = [&](const Error& error) {
    outcome.fail(error);
    output_.add_beside(problem_of_code(error));
  };
  const auto root = forest_.list(Forest::kRoot);
  const ModelPtr model = root ? root->tree->model() : nullptr;
  if (model != nullptr && (model->chosen.is_set() || model->has_members)) return outcome;  // were checked
  std::vector<Part> others;
  for (const Part& file : files)
    if (model != nullptr || !is_in_model(file.path)) others.push_back(file);
  for (const Part& file : others)
    if (file.link_target.empty()) check_safety(file, name, report);
  check_code(std::move(others), name, report);
  return outcome;
}

void ModelVerifier::fail(const std::string& name, const Error& error, Outcome& outcome) {
  outcome.fail(error);
  output_.add(failed(name, error));
}

// Verifies every model in a directory.
Outcome ModelVerifier::verify_all(Ino directory, const std::string& name) {
  Outcome outcome;
  const auto all = forest_.list(directory);
  if (!all) {
    fail(name, error_at(name, all.error()), outcome);
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
bool ModelVerifier::is_in_model(const std::string& path) {
  for (size_t slash = path.find('/'); true; slash = path.find('/', slash + 1)) {
    const auto found = forest_.resolve(path.substr(0, slash));
    const auto all = found ? forest_.list(*found) : tl::unexpected(found.error());
    if (!all) return false;
    if (all->tree->model() != nullptr) return true;
    if (slash == path.npos) return false;
  }
}

// What verify_once() reads of models in models at most: members of a zip may share bytes, also through shards.
uint64_t ModelVerifier::most_nested() const {
  constexpr uint64_t kFactor = 1'000, kFree = 1'000'000'000;
  const uint64_t bytes = forest_.container_bytes();
  return bytes > (UINT64_MAX - kFree) / kFactor ? UINT64_MAX : kFactor * bytes + kFree;
}

// The models in a model, such as the files of an archive, and those in them. Those of the same bytes are one model.
void ModelVerifier::verify_nested(const ModelPtr& model, const std::string& name, Outcome& outcome) {
  const auto nested = model->nested ? model->nested(model) : std::vector<Nested>();
  if (!nested) return fail(name, error_at(name, nested.error()), outcome);
  std::set<const Model*> verified;
  for (const Nested& inner : *nested) {
    const std::string& part = model->parts[inner.part].path;
    if (is_alternative(*model, part)) continue;
    const std::string path = join_path(name, fmt::format("nested/{}", part));
    const auto read = whole(inner.model.get());
    if (!read) {
      fail(path, error_at(path, read.error()), outcome);
      continue;
    }
    if (!verified.insert(read->get()).second) continue;
    if (nested_bytes_ > most_nested()) {
      const Error error{
          Code::unsupported,
          fmt::format("{}: not verified: the models in the source share too many bytes", printable(path))};
      return fail(path, error, outcome);
    }
    auto [verdict, compared] = verify_model(**read, path, nested_bytes_);
    output_.add(std::move(verdict));
    outcome.add(compared);
    verify_nested(*read, path, outcome);
  }
}

Outcome ModelVerifier::verify_once(const ModelPtr& model, const std::string& name) {
  if (const auto known = verified_.find(model); known != verified_.end()) {
    Verdict verdict = known->second.verdict;
    verdict.text = fmt::format("the same as {}", verdict.name);
    verdict.name = name;
    verdict.warnings.clear();
    output_.add(std::move(verdict));
    return known->second.outcome;
  }
  uint64_t read = 0;
  auto [verdict, outcome] = verify_model(*model, name, read);
  if (safety_ == Safety::checked)
    check_safety(model, name, [&found = verdict, &result = outcome](const Error& error) {
      result.fail(error);
      add_code(found, error);
    });
  output_.add(verdict);
  verify_nested(model, name, outcome);
  verified_.emplace(model, Verified{std::move(verdict), outcome});
  return outcome;
}

}  // namespace weightfs::verdicts
