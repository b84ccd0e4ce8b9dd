// OpenVINO's intermediate representation (IR): the structure in NAME.xml, the constants in NAME.bin beside it.
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "formats/format.h"
#include "formats/openvino/structure.h"
#include "formats/openvino/tensors.h"

namespace weightfs {
namespace openvino {
namespace {

Result<Model> read(const Container& container) {
  Model model;
  Warnings warnings;
  Tensors tensors = TRY(Tensors::open(container, model));
  TRY_VOID(read_structure(container, tensors, model, warnings));
  model.format = "openvino";
  model.parts.push_back(
      {.path = container.name, .source = Later<SourcePtr>::of(container.bytes), .is_structure = true});
  tensors.finish();
  std::move(warnings).move_to(model);
  return model;
}

// `text` without a construct that begins and ends like this; nothing if it does not begin so, or does not end here.
std::optional<std::string_view> without(std::string_view text, std::string_view begin, std::string_view end) {
  if (!text.starts_with(begin)) return std::nullopt;
  const size_t at = text.find(end, begin.size());
  return at == text.npos ? std::nullopt : std::optional(text.substr(at + end.size()));
}

// `text` from its first element on.
std::string_view first_element(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    auto rest = without(text, "<?", "?>");
    if (!rest) rest = without(text, "<!--", "-->");
    if (!rest) rest = without(text, "<!DOCTYPE", ">");
    if (!rest) return text;
    text = *rest;
  }
}

}  // namespace
}  // namespace openvino

// Other XML has this root element, too: the networks of traffic simulators.
Match matches_openvino(const Probe& probe) {
  const std::string_view element = openvino::first_element(probe.head);
  if (!element.starts_with("<net") || element.find_first_of(" \t\r\n/>") != 4) return Match::no;
  return element.find("<layers") == element.npos ? Match::maybe : Match::yes;
}

Result<Model> read_openvino(const Container& container) { return openvino::read(container); }

}  // namespace weightfs
