// Seeds with graphs and programs: operators with options, instructions, parameters of programs in JSON.
#include <array>

#include "tests/builders/executorch_builder.h"
#include "tests/builders/paddle_builder.h"
#include "tests/builders/tflite_builder.h"
#include "tests/fuzz/seeds.h"

namespace weightfs::test {

// Options of every operator: those of a few with values, those of the others as empty tables.
void add_tflite_options(Seeds& seeds) {
  using namespace tflite;
  const auto with_options = [](int slot, uint8_t number, std::map<int, Slot> fields) {
    return table({{slot, scalar(number)}, {slot + 1, table(std::move(fields))}});
  };
  const Ref sizes = list<int64_t>({1, -2});
  std::vector<Ref> calls = {
      with_options(3, 1, {{0, scalar(int8_t{1})}, {1, scalar(2)}, {3, scalar(int8_t{9})}, {6, scalar(int8_t{2})}}),
      with_options(3, 17, {{0, list<int32_t>({1, -1})}}),
      with_options(3, 111, {{0, text("c")}, {1, text("shared")}}),
      with_options(3, 115, {{0, list<float>({0.5F, 1e30F})}}),
      with_options(11, 4, {{0, sizes}, {4, list<uint8_t>({1, 0})}, {16, list<uint32_t>({2, 9})}}),
      with_options(11, 5, {{0, text("t")}, {4, list<int32_t>({1})}, {5, bytes_list("attributes")}}),
      table({{5, bytes_list("custom")}}),
      table({{9, scalar(uint64_t{8})}, {10, scalar(uint64_t{4})}})};
  for (uint8_t number = 2; number < 129; ++number) calls.push_back(with_options(3, number, {}));
  for (uint8_t number = 1; number < 26; ++number) calls.push_back(with_options(11, number, {}));
  seeds["tflite-options"] = file_of(model({subgraph({}, {{3, tables(calls)}})}, {empty_buffer()}));
}

// Every kind of value and of instruction.
void add_executorch(Seeds& seeds) {
  using namespace executorch;
  std::vector<Ref> values = {value(kFloat, {2, 3}, {1, 0}, 1, {{6, table({{1, scalar(64U)}})}}),
                             member(2, {{0, scalar(int64_t{-7})}}),
                             member(4, {{0, scalar(1e300)}}),
                             member(6, {{0, text("text")}}),
                             member(8, {{0, list<double>({0.5})}}),
                             member(9, {{0, list<uint8_t>({1, 0})}})};
  for (const uint8_t kind : std::to_array<uint8_t>({7, 10, 11}))
    values.push_back(member(kind, {{0, list<int32_t>({1, 0})}}));
  for (const uint8_t kind : std::to_array<uint8_t>({1, 3, 12})) values.push_back(member(kind, {}));
  const Ref calls = chain({kernel_call(0, {0, 1}), kernel_call(9, {}), delegate_call(-1, {2}),
                           member(3, {{0, scalar(1)}, {1, scalar(2)}}), member(4, {{0, scalar(1)}, {1, scalar(-1)}}),
                           member(5, {{0, scalar(3)}}), member(6, {})});
  const Ref add = table({{0, text("aten::add")}, {1, text("out")}});
  const Ref forward =
      method("f", values, {{5, tables({calls, calls})}, {6, tables({add})}, {8, list<int64_t>({0, 9})}});
  seeds["executorch-graph"] = pte({forward, forward}, {{4, tables({segment(0, 8)})}}, "segments");
}

// Programs in JSON beside the parameters.
void add_paddle(Seeds& seeds) {
  using namespace paddle;
  const auto beside = [](const std::string& program) { return with_files(small_paddle(), {{"m.json", program}}); };
  seeds["paddle/json"] = beside(json_program({"w", "b", "e/f"}));
  seeds["paddle/json-too-few"] = beside(json_program({"w", ""}));
  seeds["paddle/json-truncated"] = beside(json_program({"w", "b", "e/f"}).substr(0, 150));
  seeds["paddle/json-odd"] = beside(
      R"({"program":{"A":[{"A":[0,1,1,"x"],"#":"p"},[[0,1,1,"y"]],{"#":"p","A":[0,1,{"#":"p","A":[[],{},null,"z"]},"w"]},)"
      R"({"#":"p","#":"q","A":[0,1,1,7],"A":[0,1,1,"\ud800"]}]},"base_code":{"magic":"pir","magic":"other"}})");
  seeds["paddle/json-other"] = beside(R"([{"#":"p","A":[0,1,1,"x"]}])");
}

}  // namespace weightfs::test
