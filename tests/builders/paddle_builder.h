// Builds Paddle's .pdiparams and .pdmodel files for tests, right or wrong.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/builders/params_builder.h"
#include "tests/builders/protobuf_builder.h"

namespace weightfs::test::paddle {

inline constexpr uint64_t kFloat32 = 5, kUint8 = 20;

inline std::string description(uint64_t type, const std::vector<uint64_t>& dims) {
  ProtobufBuilder out;
  out.number(1, type);
  for (const uint64_t size : dims) out.number(2, size);
  return out.build();
}

/// A tensor without levels of detail.
inline std::string record(const std::string& description, std::string_view data) {
  return little(0, 4) + little(0) + little(0, 4) + little(description.size(), 4) + description + std::string(data);
}

inline std::string tensor(uint64_t type, const std::vector<uint64_t>& dims, std::string_view data) {
  return record(description(type, dims), data);
}

inline ProtobufBuilder variable(std::string_view name, uint64_t type = 7, bool persistable = true) {
  ProtobufBuilder out;
  out.bytes(1, name).message(2, ProtobufBuilder().number(1, type));
  return persistable ? out.number(3, 1) : out;
}

/// A program of one block.
inline std::string program(const std::vector<ProtobufBuilder>& variables) {
  ProtobufBuilder block;
  block.number(1, 0);
  for (const ProtobufBuilder& each : variables) block.message(3, each);
  return ProtobufBuilder().message(1, block).build();
}

/// A program in JSON, as Paddle 3 writes it, with these parameters.
inline std::string json_program(const std::vector<std::string>& names) {
  std::string operations;
  for (const std::string& name : names)
    operations += fmt::format("{}{}{}", R"({"#":"p","A":[0,1,1,")", name,
                              R"("],"O":{"%":1,"TT":{"#":"0.t_dtensor","D":[{"#":"0.t_f32"},[30],"NCHW",[],0]}}},)");
  return R"({"base_code":{"magic":"pir","version":1},"program":{"regions":[{"#":"region_0","blocks":[{"#":"block_0",)"
         R"("args":[],"ops":[)" +
         operations + R"({"#":"1.data","A":[{"N":"name"},{"D":"A"},1,"no name"]}]}]}]}})";
}

inline std::string small_paddle() {
  return tensor(kFloat32, {2}, "01234567") + tensor(kUint8, {}, "x") + tensor(kUint8, {3, 0}, "");
}

inline std::string small_program() {
  return program({variable("w"), variable("feed", 9), variable("b"), variable("x", 7, false), variable("e/f")});
}

}  // namespace weightfs::test::paddle
