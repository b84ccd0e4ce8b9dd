// The memory that a model needs: its weights, its keys and values, and the buffers of a computation, on a GPU and on
// the host, as llama.cpp places them. docs/summary.md has the formula, what it leaves out, and how near it is to what
// llama.cpp reports.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "formats/summary/summary.h"

namespace weightfs::summary {

/// The types of keys and values, as llama.cpp names them; f16, the default, is the first.
std::span<const std::string_view> kv_types();

inline constexpr uint64_t kUsualTokens = 8192;  ///< of a conversation: the context, unless one is chosen
inline constexpr uint64_t kUsualBatch = 512;    ///< llama.cpp's --ubatch-size
inline constexpr uint64_t kMostTokens = uint64_t{1} << 30;
inline constexpr uint64_t kMostBatch = uint64_t{1} << 20;

/// What is kept and computed.
struct MemoryChoice {
  uint64_t context = kUsualTokens;   ///< tokens, from 1 to kMostTokens
  std::string_view kv_type = "f16";  ///< one of kv_types()
  uint64_t batch = kUsualBatch;      ///< tokens that are computed at once, from 1 to kMostBatch
};

/// The bytes of one place. Those of the buffers are an estimate.
struct MemoryPart {
  uint64_t weights = 0, cache = 0, compute = 0;

  uint64_t total() const { return weights + cache + compute; }
};

struct MemoryUse {
  MemoryPart gpu, host;
};

/// How a model fits into a GPU.
struct MemoryFit {
  uint64_t layers = 0;     ///< the most that fit; 0: the GPU is too small for one
  Number largest_context;  ///< with which all layers fit, up to the model's; nothing if there is none, or no model's
};

/// Whether a model generates text, so that it keeps keys and values.
bool generates_text(const Summary& summary);

struct MemoryParts;

/// The memory of one model, as a function of what is chosen. Callable from any thread.
class MemoryModel {
 public:
  /// Refuses with unsupported, and the reason, a model of another kind than one that generates text, and one whose
  /// tensors, keys and values or widths are not known.
  static Result<MemoryModel> of(const Model& model, const Summary& summary, std::span<const Counted> counted);

  /// The layers that can be on a GPU: the blocks and the output.
  uint64_t layers() const;
  /// The tokens that the model was made for, if it is known.
  Number context() const;

  /// What is needed with the last `gpu_layers` (at most layers()) on the GPU. Refuses with unsupported a type in whose
  /// blocks the heads do not fit, and more bytes than a number has.
  Result<MemoryUse> use(const MemoryChoice& choice, uint64_t gpu_layers) const;

  /// How the model fits into `bytes` of a GPU. Fails as use() does.
  Result<MemoryFit> fit(const MemoryChoice& choice, uint64_t bytes) const;

 private:
  explicit MemoryModel(std::shared_ptr<const MemoryParts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<const MemoryParts> parts_;
};

}  // namespace weightfs::summary
