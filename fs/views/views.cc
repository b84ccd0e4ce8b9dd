#include <array>

#include "fs/views/view.h"

namespace weightfs::views {

extern const View kNpyView;

std::span<const View* const> all() {
  static constexpr auto kViews = std::to_array<const View*>({&kTensorsView, &kNpyView, &kFloat32View});
  return kViews;
}

}  // namespace weightfs::views
