// Metadata and members of TVM's Model Library Format for tests, as the exporter of each version wrote them.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "base/text.h"
#include "tests/builders/params_builder.h"
#include "tests/support/memory_folder.h"

namespace weightfs::test {

/// The declared sizes of `x` and `p0` in the graph executor's storage.
inline std::string mlf_storage(uint64_t p0) {
  return fmt::format("{}{}{}{}", R"([{"storage_id": 0, "size_bytes": 32, "input_binding": "x"}, )",
                     R"({"storage_id": 1, "size_bytes": )", p0,
                     R"(, "input_binding": "p0"}, {"storage_id": 2, "size_bytes": 16}])");
}

inline constexpr std::string_view kMlfMain =
    R"([{"device": 1, "workspace_size_bytes": 176, "constants_size_bytes": 160, "io_size_bytes": 48}])";

/// metadata.json of a model `mlp` by the exporter of that version.
inline std::string mlf_metadata(int version, uint64_t p0 = 8) {
  const std::string memory = version == 1 ? mlf_storage(p0)
                                          : fmt::format("{}{}{}{}{}}}", R"({"functions": {"main": )", kMlfMain,
                                                        R"(, "operator_functions": [{"function_name": "f", )",
                                                        R"("workspace": []}]}, "sids": )", mlf_storage(p0));
  const std::string fields =
      fmt::format("{}{}{}{}{}{}{}{}", version < 5 ? R"("runtimes")" : R"("executors")", R"(: ["graph"], )",
                  R"("export_datetime": "2026-11-20 02:13:56Z", "memory": )", memory, R"(, "model_name": "mlp", )",
                  version < 4 ? "" : R"("style": "full-model", )", R"("target": )",
                  version < 6 ? R"({"1": "c -keys=cpu "})" : R"(["c -keys=cpu "])");
  return version < 7 ? fmt::format("{{{}{}{}}}\n", fields, R"(, "version": )", version)
                     : fmt::format("{}{}{}{}}}\n", R"({"modules": {"mlp": {)", fields, R"(}}, "version": )", version);
}

/// metadata.json of an operator, which versions 4 to 7 wrote alike but for the targets.
inline std::string mlf_operator_metadata(int version) {
  return fmt::format("{}{}{}{}{}{}{}", R"({"version": )", version,
                     R"(, "model_name": "add", "export_datetime": "2026-11-20 02:13:56Z", )",
                     R"("memory": {"add": [{"size_bytes": 4, "shape": [4], "dtype": "int8", "input_binding": "A"}]}, )",
                     R"("target": )", version < 6 ? R"({"1": "c -keys=cpu "})" : R"(["c -keys=cpu "])",
                     R"(, "executors": [], "style": "operator"})");
}

/// `p0`, a float32 of shape [2].
inline std::string mlf_parameters() { return ParamsBuilder().array("p0", kTvmFloat32, {2}, "00001111").build(); }

/// The members of a library of that version.
inline Files mlf_files(int version, uint64_t p0 = 8) {
  return {{"metadata.json", mlf_metadata(version, p0)},
          {"parameters/mlp.params", mlf_parameters()},
          {"codegen/host/src/lib0.c", "int main;"},
          {version < 4 ? "relay.txt" : "src/relay.txt", "def @main"}};
}

}  // namespace weightfs::test
