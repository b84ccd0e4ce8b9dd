// Verifies the models of a source for `weightfs verify`, those in archives included.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/console/outcome.h"
#include "cli/findings/verdict_output.h"
#include "fs/tree/forest.h"

namespace weightfs::verdicts {

/// Verifies each model once: tags that are hard links of one manifest share a model.
class ModelVerifier {
 public:
  enum class Safety { ignored, checked };  ///< whether what may run code is a failure

  ModelVerifier(Forest& forest, Safety safety, VerdictOutput& output)
      : forest_(forest), safety_(safety), output_(output) {}

  /// Verifies every model in a source, which has at least one. Failures are printed on standard error.
  Outcome verify_source(const std::string& name);

  /// Checks the files of a directory on disk that its models do not have.
  Outcome check_other_files(const std::vector<Part>& files, const std::string& name);

 private:
  struct Verified {
    Verdict verdict;
    Outcome outcome;
  };

  Outcome verify_all(Ino directory, const std::string& name);
  Outcome verify_once(const ModelPtr& model, const std::string& name);
  void verify_nested(const ModelPtr& model, const std::string& name, Outcome& outcome);
  bool is_in_model(const std::string& path);
  uint64_t most_nested() const;
  void fail(const std::string& name, const Error& error, Outcome& outcome);

  Forest& forest_;
  const Safety safety_;
  VerdictOutput& output_;
  uint64_t nested_bytes_ = 0;  // that were read of models in models
  std::map<std::weak_ptr<const Model>, Verified, std::owner_less<>> verified_;
};

}  // namespace weightfs::verdicts
