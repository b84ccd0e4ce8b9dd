// Where `weightfs verify` prints its verdicts: a line for each model as soon as it is compared, or a document at the
// end.
#pragma once

#include <string>

#include "report/verdicts/documents.h"
#include "report/verdicts/text.h"

namespace weightfs::verdicts {

class VerdictOutput {
 public:
  enum class Form { text, json, sarif };
  enum class Sources { one, several };

  VerdictOutput(Form form, Detail detail, Sources sources) : form_(form), detail_(detail), sources_(sources) {}

  void add(Verdict verdict);
  /// A source that cannot be opened. If it is the only one, standard error has the line.
  void add_unopened(const std::string& name, const Error& error);
  /// What may run code beside the models, in a file at this path.
  void add_beside(Problem problem);

  /// Prints the sum of several sources, or of a directory of models, or the document.
  void end(bool is_directory) const;

 private:
  const Form form_;
  const Detail detail_;
  const Sources sources_;
  Sum sum_;
  Report report_;  // of a document
};

}  // namespace weightfs::verdicts
