#include <array>

#include "fs/views/view.h"

namespace weightfs {

extern const View kNpyView;

std::span<const View* const> views() {
  static constexpr std::array<const View*, 2> kViews = {&kTensorsView, &kNpyView};
  return kViews;
}

}  // namespace weightfs
