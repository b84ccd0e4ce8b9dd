// Which tensors a GGUF of a repository has, in its order, and of which tensors of the repository each is made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/mapping/repository.h"
#include "formats/names/names.h"

namespace weightfs::mapping {

/// A tensor of the GGUF.
struct Planned {
  std::string name;               ///< "blk.0.attn_q.weight"
  Op op = Op::none;               ///<
  std::vector<uint32_t> tensors;  ///< of the repository, by index; those of Op::expert in their order, the blocks and
                                  ///< the scales of Op::mxfp4
};

/// What is done with a tensor that has no place in the GGUF.
enum class Unplaced {
  refused,
  kept,  ///< under its own name
};

struct Plan {
  std::vector<Planned> tensors;
  size_t unplaced = 0;  ///< how many of them have their own names
  size_t dropped = 0;   ///< tensors of the repository that a GGUF of the text model lacks
};

/// The tensors in the order of llama.cpp's converter: the files of the repository by name, in each the tensors by name;
/// the experts of a block where the last of them is; those of MXFP4 first. Fails with unsupported, in a sentence, if a
/// tensor has no place, if two have the same, or if experts are missing, unless these are kept; and as Budget::charge
/// does.
Result<Plan> plan(Repository& repository, Unplaced unplaced);

}  // namespace weightfs::mapping
