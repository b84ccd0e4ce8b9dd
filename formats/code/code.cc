#include "formats/code/code.h"

#include <algorithm>

#include "formats/code/files.h"
#include "formats/code/template.h"

namespace weightfs {
namespace {

// The file that the items of a parser are in: the pickle of a checkpoint, or the model's own file.
std::string own_file(const Model& model) {
  const auto pickle =
      std::ranges::find_if(model.parts, [](const Part& part) { return part.path.ends_with("data.pkl"); });
  if (model.has_members && pickle != model.parts.end()) return pickle->path;
  return model.parts.empty() ? "" : model.parts.front().path;
}

}  // namespace

FoundCode code_of(const Model& model) {
  CodeList list;
  list.append(model.common, own_file(model));
  code::add_templates(model, own_file(model), list);
  FoundCode found;
  code::FileExaminer(model, list, found.not_examined).examine();
  found.items = list.items();
  return found;
}

}  // namespace weightfs
