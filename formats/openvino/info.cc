#include "formats/openvino/info.h"

#include <utility>

namespace weightfs::openvino {

Result<void> InfoBuilder::begin(std::string_view name, const XmlAttributes& attributes) {
  Open open{std::string(name), {}, left_ > 0};
  Result<void> charged;
  const auto keep = [&](std::string_view key, std::string_view value) {
    if (left_ == 0 || !charged) return false;
    --left_;
    charged = budget_.charge(Cost::value, 2);
    if (charged) charged = budget_.charge(Cost::kept, key.size() + value.size());
    return charged.has_value();
  };
  if (open.is_kept) keep(name, "");
  attributes.for_each([&](std::string_view key, std::string_view value) {
    if (open.is_kept && keep(key, value)) open.map.append(std::string(key), value);
  });
  TRY_VOID(charged);
  open_.push_back(std::move(open));
  return {};
}

void InfoBuilder::end() {
  Open ended = std::move(open_.back());
  open_.pop_back();
  if (!ended.is_kept) return;
  ended.map.keep_last_of_each_key();
  Map& parent = open_.empty() ? top_ : open_.back().map;
  const Value* const only = ended.map.size() == 1 ? ended.map.find("value") : nullptr;
  if (only != nullptr)
    parent.append(std::move(ended.name), *only);
  else
    parent.append(std::move(ended.name), std::move(ended.map));
}

Map InfoBuilder::take() {
  top_.keep_last_of_each_key();
  return std::move(top_);
}

}  // namespace weightfs::openvino
