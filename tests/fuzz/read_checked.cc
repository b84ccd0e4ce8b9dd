#include <string>

#include "base/text.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/target.h"
#include "tests/support/one_line.h"
#include "tests/support/small_disk.h"

namespace weightfs::test {

// Bytes in memory are a model, or are refused in one line because of their content (or, for an index, of missing
// files, or of files of another size). Only decoding may fail for lack of space; linked files are not fetched.
void check_refusal(const Container& container, const Error& error) {
  const bool by_content = error.code == Code::corrupt || error.code == Code::unsupported ||
                          error.code == Code::not_found || error.code == Code::network || error.code == Code::mismatch;
  if (!by_content && !SmallDisk::refused(error)) complain("refused as no bytes can be: " + error.message);
  if (!is_one_line(error.message) || !error.message.starts_with(container.name))
    complain("an error in disorder: " + error.message);
}

void check_model(const Model& model) {
  for (const TensorView& tensor : model.tensors) {
    if (tensor.dtype == nullptr) complain(quoted(tensor.name) + " has no dtype");
    if (tensor.source.refused()) continue;
    const uint64_t whole = tensor.source.whole()->size();
    if (tensor.source.offset() > whole || tensor.nbytes() > whole - tensor.source.offset())
      complain(quoted(tensor.name) + " reaches out of its container");
  }
  for (const std::string& warning : model.warnings)
    if (!is_one_line(warning)) complain("a warning that is not one line: " + quoted(warning));
}

void read_checked(const Container& container, std::string_view format) {
  const auto model = read_model(container, format_named(format));
  if (!model) return check_refusal(container, model.error());
  check_model(*model);
  for (const Document& document : model->documents) {
    const auto source = document.source.get();
    if (!source && !is_about_the_bytes(source.error())) complain(document.path + ": " + source.error().message);
  }
}

}  // namespace weightfs::test
