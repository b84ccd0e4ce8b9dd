// What the files of a directory or an archive say about code: configurations, templates, source code, libraries.
#pragma once

#include <string>
#include <vector>

#include "formats/code/hub.h"

namespace weightfs::code {

/// Examines the files of one model. The model, the list and `not_examined` outlive this object.
class FileExaminer {
 public:
  FileExaminer(const Model& model, CodeList& out, std::vector<std::string>& not_examined)
      : model_(model), out_(out), not_examined_(not_examined), paths_(model) {}

  void examine();

 private:
  void examine_name(const Part& part);
  Result<void> examine_content(const Part& part);
  void examine_yaml(const std::string& text, const std::string& path);
  Result<void> examine_keras(const Source& file, const std::string& path);
  Result<std::string> text_of(const Part& part);
  bool is_wanted(const std::string& path) const;

  const Model& model_;
  CodeList& out_;
  std::vector<std::string>& not_examined_;
  Paths paths_;
  uint64_t bytes_ = 0;  // that were read
};

}  // namespace weightfs::code
