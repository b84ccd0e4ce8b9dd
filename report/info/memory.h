// Whether a model fits into memory: the answer as values, as JSON and as text, for the terminal and the page. The
// formula is that of formats/summary/memory.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/summary/memory.h"
#include "report/info/subject.h"
#include "report/text/style.h"

namespace weightfs::info {

/// What a person chooses. Without a number of layers as many are on the GPU as fit, and all if its size is not given.
struct MemoryQuestion {
  std::optional<uint64_t> context = {};  ///< tokens; default: 8,192, or as many as the model has
  std::string kv_type = "f16";
  uint64_t batch = summary::kUsualBatch;
  std::optional<uint64_t> gpu_layers = {};  ///< more than the model has are all
  std::optional<uint64_t> gpu_bytes = {};
};

struct MemoryAnswer {
  summary::MemoryChoice choice;
  uint64_t layers = 0;      ///< that can be on the GPU
  uint64_t gpu_layers = 0;  ///< that are there
  summary::MemoryUse use;
  summary::Number context;            ///< of the model
  std::optional<uint64_t> gpu_bytes;  ///< of the GPU
  summary::MemoryFit fit;             ///< only with the size of the GPU
  std::vector<std::string> warnings;

  bool fits() const { return gpu_layers > 0 && use.gpu.total() <= gpu_bytes.value_or(UINT64_MAX); }
};

/// Fails as MemoryModel::use does. `question.kv_type` is one of summary::kv_types().
Result<MemoryAnswer> answer_of(const summary::MemoryModel& model, const MemoryQuestion& question);

/// The object `memory` (docs/summary.md); for a model whose memory is not known the bytes of the weights and the
/// reason.
Map memory_map(const Subject& subject, const MemoryQuestion& question);

/// "fits in 24.0 GiB: all 33 layers, 18.4 GiB left; …"
std::string sentence_of(const MemoryAnswer& answer);

/// The answer for a terminal: a table, a sentence, warnings.
std::vector<std::string> memory_lines(const Subject& subject, const MemoryQuestion& question, const Style& style);

}  // namespace weightfs::info
