#include "cli/findings/duplicates.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/parallel.h"
#include "base/text.h"
#include "cli/console/outcome.h"
#include "cli/console/progress.h"
#include "cli/console/report_error.h"
#include "cli/open_source.h"
#include "fs/tree/listing.h"
#include "report/compare/duplicates.h"
#include "report/compare/select_tensors.h"
#include "report/text/map_of.h"
#include "report/text/table.h"
#include "report/text/words.h"

namespace weightfs::info {
namespace {

constexpr size_t kMaxHashers = 16;

// The models of sources, each with the name that the user knows it by.
struct NamedModels {
  std::vector<std::string> names;
  std::vector<ModelPtr> models;
};

// Adds all models of a source. A model that cannot be read, or is incomplete, is a failure.
void add_models(NamedModels& out, Forest& forest, const std::string& source, Outcome& outcome) {
  const auto name_of = [&](const std::string& path) { return join_path(printable_source(source), path); };
  const auto found = compare::models_in(forest, [&](const std::string& path, const Error& error) {
    outcome.fail({error.code, fmt::format("{}: {}", name_of(path), error.message)});
  });
  if (!found) return outcome.fail(found.error());
  for (const compare::FoundModel& one : *found) {
    outcome.check(*one.model, name_of(one.path));
    out.names.push_back(name_of(one.path));
    out.models.push_back(one.model);
  }
}

std::string digest_text(const Digest& digest) { return fmt::format("sha256:{}", digest.hex()); }

// Terminals show what a group has in common once.
void print_groups(const NamedModels& named, const compare::Duplicates& found) {
  if (found.groups.empty()) return;
  Table table(
      {{"digest"}, {"size", Align::right}, {"cost", Align::right}, {"model"}, {"tensor"}, {"dtype"}, {"shape"}});
  uint64_t cost = 0;
  for (const compare::EqualTensors& group : found.groups) {
    cost += group.cost();
    bool is_first = true;
    for (const compare::TensorPlace& place : group.tensors) {
      const TensorView tensor = named.models[place.model]->tensors[place.index];
      const auto once = [&](const std::string& shown, const std::string& raw) {
        return Cell(is_first ? shown : "", raw);
      };
      table.add({once(group.digest.hex().substr(0, 12), digest_text(group.digest)),
                 once(human_size(group.nbytes), std::to_string(group.nbytes)),
                 once(human_size(group.cost()), std::to_string(group.cost())), named.names[place.model],
                 full_name(tensor), std::string(dtype_text(tensor)), shape_text(tensor.shape)});
      is_first = false;
    }
  }
  table.print();
  if (::isatty(STDOUT_FILENO) == 1)
    std::printf("\n%zu groups of duplicate tensors waste %s\n", found.groups.size(), human_size(cost).c_str());
}

Value duplicates_value(const NamedModels& named, const compare::Duplicates& found) {
  List list;
  for (const compare::EqualTensors& group : found.groups) {
    List tensors;
    for (const compare::TensorPlace& place : group.tensors) {
      const TensorView tensor = named.models[place.model]->tensors[place.index];
      Map entry =
          map_of({{"source", named.names[place.model]}, {"name", full_name(tensor)}, {"dtype", dtype_text(tensor)}});
      List shape;
      for (const uint64_t size : tensor.shape) shape.emplace_back(size);
      entry.append("shape", std::move(shape));
      tensors.emplace_back(std::move(entry));
    }
    Map out = map_of({{"digest", digest_text(group.digest)}, {"nbytes", group.nbytes}, {"cost", group.cost()}});
    out.append("tensors", std::move(tensors));
    list.emplace_back(std::move(out));
  }
  return list;
}

}  // namespace

Exit print_duplicates(const std::vector<std::string>& sources, const std::vector<std::unique_ptr<Forest>>& forests,
                      Output output) {
  NamedModels named;
  Outcome outcome;
  for (size_t i = 0; i < sources.size(); ++i) add_models(named, *forests[i], sources[i], outcome);
  ProgressBar bar;
  const auto found =
      compare::find_duplicates(named.models, processors(kMaxHashers),
                               [&](const char* what, uint64_t done, uint64_t total) { bar.show(done, total, what); });
  bar.clear();
  if (!found) return report_error(found.error());
  if (output == Output::json)
    std::fputs(to_json(duplicates_value(named, *found)).c_str(), stdout);
  else
    print_groups(named, *found);
  for (const compare::Duplicates::Unreadable& one : found->unreadable) {
    const TensorView tensor = named.models[one.place.model]->tensors[one.place.index];
    outcome.fail({one.error.code, fmt::format("{}: tensor {}: {}", named.names[one.place.model],
                                              quoted(full_name(tensor)), one.error.message)});
  }
  return outcome.status();
}

}  // namespace weightfs::info
