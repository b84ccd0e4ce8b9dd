// The facts of a screen about the files of a model.
#pragma once

#include <string>

#include "report/info/subject.h"
#include "report/text/style.h"

namespace weightfs::info {

/// The number of files, how they are verified, which others could be the model, and what they lack.
struct FilesText {
  std::string text;
  bool is_needed = false;  ///< something is wrong, or there are alternatives
};
FilesText files_text(const Subject& subject);

/// "16 shards", "3 files with weights"; empty for one file, or an archive.
std::string weight_files_text(const Subject& subject);

/// "state of 500 steps, 52.1 MiB: optimizer.pt and 3 others"; empty if there is none.
std::string training_text(const summary::Summary& summary, const Style& style);

/// "org/name at 7ff58115c831"; empty if it is unknown.
std::string repository_text(const Subject& subject);

/// "of 3 files: 1 equal, 0 different, 2 unknown; not verified"; empty if there is none.
std::string signature_text(const Model& model);

/// The warnings themselves if they are few, else how many there are and the command that prints them; none besides
/// those about what the model lacks.
struct WarningsText {
  std::string label;  ///< "warning", "warnings"
  std::string text;
};
std::vector<WarningsText> warnings_texts(const Subject& subject, const Style& style);

/// "verified: whole", "digest in the manifest: not compared yet", "not verified (no digest known)"; empty if it is not
/// known of members of a container.
std::string verification_text(const Subject& subject);

/// How the files of the tensors are verified: the worst of them.
VerifiedBy verification_of(const Model& model);

}  // namespace weightfs::info
