// The magnitude of each channel of a tensor: outlier channels make quantisation hard, dead ones do nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/tensor_list.h"
#include "numbers/elements.h"

namespace weightfs::numbers {

/// The elements with the same index on one axis. NaN and infinities count as 0.
struct Channel {
  uint64_t index;
  double rms;
  double max;            ///< of the absolutes
  double outlier_share;  ///< of the elements, those whose absolute is above 6 times the RMS of the tensor
  uint64_t not_finite;   ///< elements that are NaN or infinite
};

/// The maximum number of channels: memory is 4 MB for each thread.
inline constexpr uint64_t kMaxChannels = uint64_t{1} << 18;

/// At most `threads`, and so few that the sums of their channels take 24 MB together.
size_t threads_for_channels(uint64_t channels, size_t threads);

/// The sums of squares and the maxima of each channel of one axis, which can be added up.
class Channels {
 public:
  /// For a tensor of this shape, which has at most kMaxChannels on this axis.
  Channels(ShapeView shape, size_t axis);

  /// Adds the elements from `first` on, in C order.
  void add(uint64_t first, std::span<const float> block);
  void add(uint64_t first, std::span<const double> block);
  void add(const Channels& other);

  size_t size() const { return squares_.size(); }
  double rms(size_t channel) const;
  double max(size_t channel) const { return most_[channel]; }
  double rms_of_all() const;

 private:
  template <class T>
  void add_block(uint64_t first, std::span<const T> block);
  template <class T>
  void add_finite(uint64_t first, std::span<const T> block);

  uint64_t inner_;  // elements that follow each other in one channel
  uint64_t outer_;  // such runs in one channel
  std::vector<double> squares_;
  std::vector<double> most_;
};

/// The channels of an axis, in order. Reads the elements twice. Fails with unsupported for more than kMaxChannels, else
/// as reading fails.
Result<std::vector<Channel>> channels_of(const Elements& elements, ShapeView shape, size_t axis, size_t threads,
                                         const CountBytes& count_bytes);

}  // namespace weightfs::numbers
