#include "formats/detect/probe.h"

#include <algorithm>

namespace weightfs::detect {
namespace {

// A file that begins behind other bytes is found below this size if it has such a name, and up to any size if no other
// format accepts it.
constexpr uint64_t kMaxBefore = 1 << 20;

}  // namespace

Result<ContainerProbe> ContainerProbe::at(const Container& container) {
  ContainerProbe probe;
  probe.name_ = container.name;
  probe.size_ = container.bytes->size();
  probe.head_ = TRY(read_text(*container.bytes, 0, std::min<uint64_t>(probe.size_, kHeadSize)));
  for (const Format& format : formats()) {
    if (format.find_start == nullptr || format.suffix_of(container.name).empty()) continue;
    if (probe.find_sure() == nullptr && TRY(format.find_start(*container.bytes, kHeadSize, kMaxBefore)))
      probe.behind_head_ = &format;
  }
  return probe;
}

Result<ContainerProbe> ContainerProbe::at_both_ends(const Container& container) {
  ContainerProbe probe = TRY(at(container));
  if (probe.find_sure() != nullptr) return probe;
  const uint64_t shown = probe.head_.size();
  probe.tail_ = TRY(read_text(*container.bytes, probe.size_ - shown, shown));
  return probe;
}

const Format* ContainerProbe::find_sure() const {
  const auto all = formats();
  const auto sure = std::ranges::find_if(all, [this](const Format& format) { return match(format) == Match::yes; });
  return sure == all.end() ? nullptr : &*sure;
}

Match ContainerProbe::match(const Format& format) const {
  return &format == behind_head_ ? Match::yes : format.matches({name_, head_, tail_, size_});
}

}  // namespace weightfs::detect
