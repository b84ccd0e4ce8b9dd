// What detection sees of a container.
#pragma once

#include <string>

#include "formats/format.h"

namespace weightfs::detect {

/// The name, head and tail of a container.
class ContainerProbe {
 public:
  /// Reads the head. A file of HDF5 may begin behind it: then also the places where it may, if it has such a name.
  static Result<ContainerProbe> at(const Container& container);

  /// Reads the head, and the tail unless the head identifies the format: on a cold disk each read takes equally long.
  static Result<ContainerProbe> at_both_ends(const Container& container);

  const std::string& head() const { return head_; }

  /// The first format that matches with `yes`; null if there is none.
  const Format* find_sure() const;

  /// `format`: a row of formats().
  Match match(const Format& format) const;

 private:
  std::string name_, head_, tail_;
  uint64_t size_ = 0;
  const Format* behind_head_ = nullptr;  // the format of a file that begins behind the head
};

}  // namespace weightfs::detect
