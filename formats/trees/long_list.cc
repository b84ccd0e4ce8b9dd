#include "formats/trees/long_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "formats/graphs/graph_writer.h"

namespace weightfs::trees {

Value long_list(Model& model, std::string_view name, const Container& container, EachText each) {
  Map note;
  note.append("path", fmt::format("metadata/{}.json", name));
  const std::string& path = std::get<std::string>(*note.find("path"));
  if (std::ranges::find(model.documents, path, &weightfs::Document::path) != model.documents.end()) return note;
  const auto render = [bytes = container.bytes, budget = container.budget, each]() -> Result<SourcePtr> {
    const auto write = [&](GraphWriter& out) -> Result<void> {
      const TakeText take = [&](std::string_view element) -> Result<void> {
        out.line(1);
        out.text(element);
        return out.check_size();
      };
      out.begin('[');
      TRY_VOID(each(*bytes, take));
      return out.end("\n]");
    };
    std::string text = TRY(graph_document(*budget, write));
    return charged_text(std::move(text), budget);
  };
  model.documents.push_back({path, Later<SourcePtr>(render)});
  return note;
}

}  // namespace weightfs::trees
