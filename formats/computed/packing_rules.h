// How the modules of a repository are packed, by the files beside its tensors.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "formats/computed/gptq.h"
#include "formats/computed/scaled.h"
#include "formats/summary/small_files.h"
#include "formats/summary/tensors/stated.h"

namespace weightfs::computed {

class PackingRules {
 public:
  /// Reads config.json, or the file that has the description in its place.
  static PackingRules read(summary::SmallFiles& files);

  /// Whether a known method is stated.
  bool are_known() const { return !std::holds_alternative<std::monostate>(rules_); }

  /// The end of the name of the tensor that has the weights of the module; empty if the method packs no such module.
  std::string_view weight_of(const ModulePieces& pieces) const;

  /// The weight of the module. Fails with unsupported if it is not known how to compute it.
  Result<MatrixPtr> matrix(ModulePieces& pieces) const;

 private:
  struct Gptq {
    Result<std::vector<GptqRules>> rules;
  };
  struct Awq {
    Result<uint64_t> group_size;
  };
  struct Scaled {
    Result<ScaledRules> rules;
  };
  struct Mxfp4 {};
  struct Compressed {
    std::vector<summary::StatedPacking::Group> targets;
    std::vector<Result<CompressedRules>> groups;  // of each of them
  };
  Result<MatrixPtr> compressed(const Compressed& method, ModulePieces& pieces) const;
  void set_compressed(const summary::Fields& quantisation);

  std::variant<std::monostate, Gptq, Awq, Scaled, Mxfp4, Compressed> rules_;
};

}  // namespace weightfs::computed
