// Operators of graphs and functions of TorchScript that do more than compute, or that need a library.
#pragma once

#include <string>
#include <string_view>

#include "formats/code/list.h"

namespace weightfs::code {

/// Whether an operator of TensorFlow reads or writes files, or calls Python: "ReadFile", "PyFunc".
bool is_active_tensorflow(std::string_view op);

/// Adds such an operator.
void add_tensorflow(std::string_view op, std::string_view where, CodeList& out);

/// Whether operators of this domain of ONNX are part of ONNX or ONNX Runtime.
bool is_domain_of_onnx(std::string_view domain);

/// Adds an operator of ONNX that needs a library: "my.domain.Op".
void add_onnx(std::string_view op, CodeList& out);

/// Adds what the source code of a TorchScript module calls besides the operators of torch.
void add_torchscript(std::string_view source, std::string_view file, CodeList& out);

}  // namespace weightfs::code
