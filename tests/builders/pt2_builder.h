// Builds archives of torch.export for tests, right or wrong.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

#include "tests/builders/pickle_builder.h"
#include "tests/builders/zip_builder.h"

namespace weightfs::test::pt2 {

/// A list of SymInts: "[{"as_int":2}]" of "2".
inline std::string symbolic(std::string_view numbers) {
  std::string out;
  for (size_t at = 0; at < numbers.size();) {
    const size_t end = std::min(numbers.find(',', at), numbers.size());
    out += fmt::format(R"({}{{"as_int":{}}})", out.empty() ? "" : ",", numbers.substr(at, end - at));
    at = end + 1;
  }
  return "[" + out + "]";
}

/// The meta of a tensor. `sizes` and `strides` are numbers with commas; `offset` and `more` are JSON.
inline std::string meta(int dtype, std::string_view sizes, std::string_view strides, std::string_view offset = "0",
                        int layout = 7) {
  return fmt::format(R"({{"dtype":{},"sizes":{},"strides":{},"storage_offset":{{"as_int":{}}},"layout":{}}})", dtype,
                     symbolic(sizes), symbolic(strides), offset, layout);
}

/// An entry of a configuration: a tensor whose bytes are in this member.
inline std::string payload(std::string_view name, std::string_view path, std::string_view meta,
                           bool use_pickle = false) {
  return fmt::format(R"("{}":{{"path_name":"{}","is_param":true,"use_pickle":{},"tensor_meta":{}}})", name, path,
                     use_pickle, meta);
}

inline std::string config(std::string_view entries) { return fmt::format(R"({{"config":{{{}}}}})", entries); }

/// A program with an input, an output, a parameter and nodes of two operators.
inline constexpr std::string_view kProgram =
    R"({"graph_module":{"graph":{"inputs":[],"nodes":[{"target":"aten.add","inputs":[{"target":"no"}]},)"
    R"({"target":"aten.mm","metadata":{"target":"no"}},{"target":"aten.mm"}],"tensor_values":{"target":"no"}},)"
    R"("signature":{"input_specs":[{"parameter":{"arg":{"name":"p_w"},"parameter_name":"w"}},)"
    R"({"user_input":{"arg":{"as_tensor":{"name":"x"}}}}],"output_specs":[{"user_output":{"arg":{"as_tensor":)"
    R"({"name":"mm"}}}}]},"module_call_graph":[{"fqn":""}]},"opset_version":{"aten":10},"range_constraints":{},)"
    R"("schema_version":{"major":8,"minor":14},"torch_version":"2.9.0"})";

/// The members of an archive of torch 2.8 with these weights, without their bytes.
inline ZipBuilder archive(std::string_view weights, std::string_view byteorder = "little") {
  ZipBuilder zip;
  zip.stored("m/archive_format", "pt2");
  zip.stored("m/archive_version", "0");
  zip.stored("m/byteorder", byteorder);
  zip.stored("m/models/model.json", kProgram);
  zip.stored("m/data/weights/model_weights_config.json", config(weights));
  return zip;
}

/// A matrix, its transpose, a part of the same storage in another type, a constant, and native code.
inline std::string small_pt2() {
  ZipBuilder zip = archive(payload("fc.w", "weight_0", meta(7, "2,1", "1,1")) + "," +
                           payload("fc.t", "weight_1", meta(1, "2,2", "1,2")) + "," +
                           payload("half", "weight_0", meta(6, "2", "1", "1")));
  zip.stored("m/data/weights/weight_0", "wwwwWWWW");
  zip.stored("m/data/weights/weight_1", "1234");
  zip.stored("m/data/constants/model_constants_config.json", config(payload("c", "tensor_0", meta(5, "", ""))));
  zip.stored("m/data/constants/tensor_0", "12345678");
  zip.stored("m/data/aotinductor/model/x.so",
             "\x7F"
             "ELF");
  return zip.build();
}

/// The form before torch 2.8.
inline std::string small_old_pt2() {
  PytorchBuilder state, constants;
  state.tensor("fc.w", "Float", 4, {2}, "wwwwWWWW");
  constants.tensor("c", "Byte", 1, {4}, "cccc");
  ZipBuilder zip;
  zip.stored("serialized_exported_program.json", kProgram);
  zip.stored("serialized_state_dict.pt", state.zip());
  zip.deflated("serialized_constants.pt", constants.zip());
  zip.stored("version", "8.1");
  return zip.build();
}

}  // namespace weightfs::test::pt2
