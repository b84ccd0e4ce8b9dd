// Which arrays the layers of a Darknet network have: their sizes follow from the configuration alone.
#pragma once

#include <string>
#include <vector>

#include "formats/darknet/config.h"
#include "formats/tensor_list.h"

namespace weightfs::darknet {

/// An array of float32.
struct Array {
  std::string name;  ///< "0.biases": the number of the section after [net], and the field
  Shape shape;
  /// How the elements are stored: in C order; with the rows and columns of the matrix [shape[0], the rest] exchanged.
  enum class Order { c, exchanged } order = Order::c;
};

struct Network {
  std::vector<Array> arrays;  ///< in the order of the file
  std::string stopped;        ///< why no more are known: a section that may have weights; empty if these are all
  Shape input;                ///< of the network: channels, height, width
};

/// The arrays of all sections. `is_transposed`: the weights of connected layers are stored input by input. Fails with
/// corrupt if a size is not between 1 and 2^24, a layer refers to one that is not before it, and as the budget does.
Result<Network> lay_out(const std::vector<Section>& sections, bool is_transposed, Charges& charges);

}  // namespace weightfs::darknet
