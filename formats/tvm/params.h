// TVM's parameter files: a list of named arrays, as tvm.runtime.save_param_dict writes it (src/runtime/file_utils.cc).
#pragma once

#include <list>
#include <string>
#include <string_view>

#include "formats/common/warnings.h"
#include "formats/format.h"

namespace weightfs::tvm {

/// The end of the name of a parameter file.
inline constexpr std::string_view kParamsSuffix = ".params";

/// The contents of a .params file, in the file's order.
struct Params {
  TensorList tensors;  ///< their sources are slices of the file; `scope` is empty
  Warnings warnings;
  std::list<std::string> string_pool;  ///< owns their stored_dtype
};

/// Whether `head` begins with the list's magic number, 0xF7E58D4F05049CB7.
bool is_params(std::string_view head);

/// Reads the headers of a .params file, not the data. Tensors and names are charged to `budget`. Fails with corrupt,
/// and as Budget::charge does; then nothing stays charged.
Result<Params> read_params(const SourcePtr& file, Budget& budget);

}  // namespace weightfs::tvm
