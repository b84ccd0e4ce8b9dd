// The metadata of an OpenVINO model, elements in elements with an attribute `value`, as a map.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "base/values/value.h"
#include "formats/openvino/xml.h"

namespace weightfs::openvino {

/// The maximum number of elements and attributes that are kept.
inline constexpr uint64_t kMaxInfo = 65'536;

/// Builds the map. An element with nothing but a `value` is that text; others are maps of their attributes and
/// elements.
class InfoBuilder {
 public:
  explicit InfoBuilder(Budget& budget) : budget_(budget) {}

  Result<void> begin(std::string_view name, const XmlAttributes& attributes);
  void end();

  bool is_full() const { return left_ == 0; }  ///< whether some were left out
  /// The elements that were not in another one.
  Map take();

 private:
  struct Open {
    std::string name;
    Map map;
    bool is_kept;
  };

  Budget& budget_;
  std::vector<Open> open_;
  Map top_;
  uint64_t left_ = kMaxInfo;
};

}  // namespace weightfs::openvino
