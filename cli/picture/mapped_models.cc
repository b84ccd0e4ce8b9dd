#include "cli/picture/mapped_models.h"

#include "cli/console/report_error.h"
#include "report/compare/contents.h"
#include "report/compare/names.h"
#include "sources/source.h"

namespace weightfs {

Result<std::pair<ModelPtr, ModelPtr>> mapped_models(const std::vector<std::unique_ptr<Forest>>& forests,
                                                    const std::vector<std::string>& sources) {
  std::pair<ModelPtr, ModelPtr> mapped;
  if (forests.size() < 2) return mapped;
  const auto ignore = [](const std::string&, const Error&) {};
  const auto a = TRY(compare::models_in(*forests[0], ignore)), b = TRY(compare::models_in(*forests[1], ignore));
  if (a.size() != 1 || b.size() != 1) return mapped;
  const auto names = TRY(compare::mapped_names(a.front().model, b.front().model));
  const std::string line = compare::names_sentence(names, printable_source(sources[0]), printable_source(sources[1]));
  if (!line.empty()) log_to_stderr(line);
  if (names.mapped) (names.mapped->side == compare::Side::a ? mapped.first : mapped.second) = names.mapped->model;
  return mapped;
}

}  // namespace weightfs
