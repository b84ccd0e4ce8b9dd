// Which of a model's metadata a file of another format cannot hold.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model.h"

namespace weightfs::views {

/// The keys of Model::metadata that are left out, without the facts about the container, which are true of that only.
struct LeftOutKeys {
  size_t all = 0;                  ///< keys that the model has
  std::vector<std::string> names;  ///< of those that are left out
  std::string_view reason;         ///< "safetensors holds strings only"

  /// "safetensors holds strings only: 3 of 40 keys are left out: a, b, c"; at most ten names. Empty if none is left
  /// out.
  std::string to_sentence() const;
};

/// Those of which `holds` is false.
LeftOutKeys left_out_keys(const Model& model, std::string_view reason,
                          const std::function<bool(std::string_view key, const Value& value)>& holds);

/// All of them.
LeftOutKeys all_keys_left_out(const Model& model, std::string_view reason);

}  // namespace weightfs::views
