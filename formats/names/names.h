// The one table of names: which tensor of a repository is which tensor of a GGUF, which part of a model it is, and what
// happens to its values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "formats/names/architecture.h"

namespace weightfs::mapping {

/// Which part of a model a tensor is. What only few architectures have is `other`.
enum class TensorPart : uint8_t {
  other,
  embedding,        ///< the matrix of the tokens, at the input
  lookup,           ///< of what else is looked up there: positions, types, tokens for each layer
  head,             ///< a score for each token, at the output
  norm,             ///< except a query_norm
  query_norm,       ///< of the queries of one head
  attention,        ///< except keys and latent
  keys,             ///< the matrix of the keys of all heads
  latent,           ///< the matrix of what keys and values are compressed to
  feed_forward,     ///< except feed_forward_in
  feed_forward_in,  ///< a matrix with a row for each feature of the network
  expert,           ///< one of which only some are used for a token, or all of them in one tensor
  shared_expert,    ///< used for every token
  router,           ///< chooses experts, or weighs shared ones
};

/// What happens to the values on the way from the repository to the GGUF.
enum class Op : uint8_t {
  none,
  norm,             ///< the weight of a norm: 1 is added in some architectures
  query_heads,      ///< rows are permuted in some architectures
  key_heads,        ///< the same, with the number of heads of the keys
  expert,           ///< one of the experts that a GGUF has in one tensor, in their order
  first_half,       ///< of the rows of each expert
  second_half,      ///<
  mxfp4,            ///< blocks and scales are put together
  mxfp4_even,       ///< the same of the even rows of each expert
  mxfp4_odd,        ///<
  even,             ///< every second number of a row
  odd,              ///<
  transposed,       ///< of each expert
  transposed_even,  ///< every second column of each expert becomes a row
  transposed_odd,   ///<
  mla_keys,         ///< the first rows of each head, transposed
  mla_values,       ///< the other rows of each head
  value_heads,      ///< the rows of value heads are put in the order of llama.cpp
  value_head_rows,  ///< the same of the rows behind those of queries and keys
  value_columns,    ///< the same of columns
  value_channels,   ///< the same of the channels of a convolution
  value_numbers,    ///< the same of a number for each head
  value_decays,     ///< the same of exponents: -e^x
  drop,             ///< no program needs it
};

/// A row of the table. `{}` in a name is the number of a block, `{x}` that of an expert, and `.*` at the end `.weight`
/// or `.bias`.
struct NameRow {
  uint32_t architectures;  ///< bit 1 << Arch
  std::string_view hub;
  std::string_view gguf;
  TensorPart part = TensorPart::other;
  Op op = Op::none;
};

constexpr uint32_t bit(Arch arch) { return uint32_t{1} << static_cast<unsigned>(arch); }

/// The rows, in the order in which a GGUF has the tensors that are made of several at the same time.
std::span<const NameRow> name_rows();

/// The numbers in a name that fits a pattern.
struct Numbers {
  uint64_t block = 0;
  uint64_t expert = 0;
  std::string_view suffix = {};  ///< ".weight" or ".bias", of a pattern with `.*`
};

/// The numbers in `name` if it fits the pattern. Numbers have at most six digits, and no leading zeros.
std::optional<Numbers> fit(std::string_view pattern, std::string_view name);

/// The name by a pattern.
std::string fill(std::string_view pattern, const Numbers& numbers);

}  // namespace weightfs::mapping
