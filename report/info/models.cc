#include "report/info/models.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "formats/summary/summary.h"
#include "fs/tree/listing.h"
#include "report/info/subject.h"
#include "report/inspect/single_model.h"
#include "report/text/errors.h"
#include "report/text/map_of.h"
#include "report/text/table.h"

namespace weightfs::info {
namespace {

DirectoryItem inspect_entry(Forest& forest, Ino ino, const Node& node, const std::string& name) {
  DirectoryItem found{name, nullptr, node.kind == NodeKind::file ? "file" : "directory", {}};
  if (node.kind == NodeKind::file) return found;
  const auto inside = forest.list(ino);
  if (!inside) found.error = inside.error();
  if (!inside || inside->count == 0) return found;
  const ModelPtr model = inside->tree->model();
  if (model == nullptr) return found;
  auto known = with_lazy_parts(model);
  if (known)
    found.model = std::move(*known);
  else
    found.error = known.error();
  return found;
}

Result<std::vector<DirectoryItem>> find_below(Forest& forest, Ino directory, const std::string& path) {
  const auto all = TRY(forest.list(directory));
  std::vector<DirectoryItem> out;
  for (uint32_t i = 0; i < all.count; ++i) {
    const Node node = all.tree->node(all.first + i);
    const std::string name = fmt::format("{}{}{}", path, path.empty() ? "" : "/", node.name());
    if (node.kind == NodeKind::directory) {
      auto below = TRY(find_below(forest, all.ino_of(i), name));
      std::move(below.begin(), below.end(), std::back_inserter(out));
    } else {
      out.push_back(inspect_entry(forest, all.ino_of(i), node, name));
    }
  }
  return out;
}

std::vector<Cell> cells_of(const DirectoryItem& found) {
  if (!found.model) {
    std::vector<Cell> row(9, "");
    row[0] = found.name;
    if (found.error)
      row[4] = problem_of(found);
    else
      row[1] = found.type;
    return row;
  }
  const summary::Summary summary = summary::summarise(*found.model).summary;
  const auto number = [](const summary::Number& n) { return n ? std::to_string(*n) : ""; };
  const auto bits = [](std::optional<double> n) { return n ? fmt::format("{:.2f}", *n) : ""; };
  const std::string lack = lack_of(*found.model);
  return {found.name,
          found.model->format,
          std::to_string(found.model->tensors.size()),
          std::to_string(listed_bytes(*found.model)),
          lack.empty() ? summary.kind : lack,
          number(summary.parameters),
          summary.quantisation ? summary.quantisation->name : "",
          bits(summary.bits_per_weight),
          code_text(*found.model)};
}

}  // namespace

std::string problem_of(const DirectoryItem& found) { return without_name(found.name, found.error->message); }

Result<std::vector<DirectoryItem>> find_models(Forest& forest) { return find_below(forest, Forest::kRoot, ""); }

List to_list(const std::vector<DirectoryItem>& items) {
  List out;
  for (const DirectoryItem& found : items) {
    if (found.model) {
      out.emplace_back(metadata_of(*found.model, found.name));
    } else if (found.error) {
      out.emplace_back(failed_source(found.name, *found.error));
    } else {
      Map entry = map_of({{"source", found.name}, {"type", found.type}});
      out.emplace_back(std::move(entry));
    }
  }
  return out;
}

void print_rows(const std::vector<DirectoryItem>& items) {
  Table table({{"name"},
               {"format"},
               {"tensors"},
               {"bytes"},
               {"kind"},
               {"parameters"},
               {"quantisation"},
               {"bits_per_weight"},
               {"code"}});
  for (const DirectoryItem& found : items) table.add(cells_of(found));
  table.print({TableStyle::tabs, TableStyle::uncolored, {}});
}

}  // namespace weightfs::info
