#include <array>

#include "fs/views/view.h"

namespace weightfs::views {

extern const View kNpyView;

std::span<const View* const> all() {
  static constexpr std::array<const View*, 2> kViews = {&kTensorsView, &kNpyView};
  return kViews;
}

}  // namespace weightfs::views
