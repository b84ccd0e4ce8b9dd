// graph.json of .pte files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/values/json.h"
#include "formats/format.h"
#include "tests/builders/executorch_builder.h"
#include "tests/support/reading.h"

namespace weightfs::executorch_graph_test {
namespace {

using namespace test::executorch;
using test::error_in;
using testing::HasSubstr;
using testing::StartsWith;

Result<Model> read(std::string bytes) { return read_as("executorch", Container{"m.pte", in_memory(std::move(bytes))}); }

std::string graph_of(std::string bytes) {
  const Model model = test::well(read(std::move(bytes)));
  for (const Document& document : model.documents) {
    if (document.path != "graph.json") continue;
    const auto text = document.source.get();
    if (!text) return text.error().message;
    EXPECT_TRUE(parse_json(**text, 0, (*text)->size()).has_value());
    return read_text(**text, 0, (*text)->size()).value();
  }
  return "missing";
}

Ref op(std::string_view name, std::string_view overload) { return table({{0, text(name)}, {1, text(overload)}}); }

// What the only value has after its id.
std::string value_shown(Ref value) {
  const std::string graph = graph_of(pte({method("f", {std::move(value)})}, {}, ""));
  const std::string before = "{\"id\":0,";
  const size_t begin = graph.find(before);
  if (begin == graph.npos) return graph;
  return graph.substr(begin + before.size(), graph.find("}],\"chains\"") - begin - before.size());
}

// What the only instruction has after its id, in a method with one operator and one delegate.
std::string instruction_shown(Ref instruction) {
  const Ref delegate = table({{0, text("Xnnpack")}, {1, table({{0, scalar(int8_t{1})}})}});
  const std::map<int, Slot> slots = {
      {5, tables({chain({std::move(instruction)})})}, {6, tables({op("aten::add", "out")})}, {7, tables({delegate})}};
  const std::string graph = graph_of(pte({method("f", {}, slots)}, {}, ""));
  const std::string before = "{\"id\":0,";
  const size_t begin = graph.find(before);
  if (begin == graph.npos) return graph;
  return graph.substr(begin + before.size(), graph.find("}]}]}") - begin - before.size());
}

TEST(ExecutorchGraph, HasALineForEachValueAndInstruction) {
  EXPECT_EQ(graph_of(small_pte()),
            R"({"methods":[
{"name":"forward","inputs":[0],"outputs":[0],"non_const_buffer_sizes":[],"values":[
{"id":0,"kind":"Tensor","dtype":"float32","stored_dtype":"FLOAT","shape":[2],"dim_order":[0]},
{"id":1,"kind":"Tensor","name":"constant_1","dtype":"int8","stored_dtype":"CHAR","shape":[2,2],"dim_order":[0,1],"constant":true,"data_buffer_idx":1},
{"id":2,"kind":"Tensor","name":"state","dtype":"int8","stored_dtype":"CHAR","shape":[2],"dim_order":[0],"mutable":true,"data_buffer_idx":1,"allocation":{"memory_id":1,"offset":0}},
{"id":3,"kind":"Int","value":7}],"chains":[{"inputs":[],"outputs":[],"instructions":[
{"id":0,"call":"KernelCall","op":"aten::add.out","op_index":0,"args":[0,1,3,0]},
{"id":1,"call":"DelegateCall","delegate":"Xnnpack","delegate_index":0,"args":[0,2]}]}]}]}
)");
}

TEST(ExecutorchGraph, EveryKindOfValueIsShown) {
  EXPECT_EQ(value_shown(member(1, {})), R"("kind":"Null")");
  EXPECT_EQ(value_shown(member(2, {{0, scalar(int64_t{-9'000'000'000})}})), R"("kind":"Int","value":-9000000000)");
  EXPECT_EQ(value_shown(member(3, {{0, scalar(uint8_t{1})}})), R"("kind":"Bool","value":true)");
  EXPECT_EQ(value_shown(member(3, {})), R"("kind":"Bool","value":false)");
  EXPECT_EQ(value_shown(member(4, {{0, scalar(0.5)}})), R"("kind":"Double","value":0.5)");
  EXPECT_EQ(value_shown(member(6, {{0, text("a\"b")}})), R"("kind":"String","value":"a\"b")");
  EXPECT_THAT(value_shown(member(6, {{0, text(std::string(65'536, 't'))}})),
              testing::MatchesRegex(R"re("kind":"String","value":."offset":[0-9]+,"nbytes":65536.)re"));
  EXPECT_EQ(value_shown(member(7, {{0, list<int64_t>({1, -2})}})), R"("kind":"IntList","items":[1,-2])");
  EXPECT_EQ(value_shown(member(8, {{0, list<double>({0.25})}})), R"("kind":"DoubleList","items":[0.25])");
  EXPECT_EQ(value_shown(member(9, {{0, list<uint8_t>({0, 1})}})), R"("kind":"BoolList","items":[false,true])");
  EXPECT_EQ(value_shown(member(10, {{0, list<int32_t>({3, 4})}})), R"("kind":"TensorList","items":[3,4])");
  EXPECT_EQ(value_shown(member(11, {{0, list<int32_t>({-1})}})), R"("kind":"OptionalTensorList","items":[-1])");
  EXPECT_EQ(value_shown(member(12, {{0, scalar(1)}})), R"("kind":12)");
  EXPECT_EQ(value_shown(table({})), R"("kind":0)");
}

TEST(ExecutorchGraph, TensorsThatAreExternalOrOfUnknownTypeAreShown) {
  const Ref external = table({{1, text("w")}, {2, scalar(int8_t{1})}});
  EXPECT_EQ(value_shown(value(kFloat, {2}, {0}, 3, {{9, external}})),
            R"("kind":"Tensor","name":"w","dtype":"float32","stored_dtype":"FLOAT","shape":[2],"dim_order":[0],)"
            R"("external":true)");
  const Ref allocation = table({{0, scalar(2U)}, {1, scalar(16U)}, {2, scalar(1U)}});
  EXPECT_EQ(value_shown(value(99, {-1}, {}, 0, {{6, allocation}})),
            R"("kind":"Tensor","dtype":"unknown","stored_dtype":99,"shape":[-1],"dim_order":[],)"
            R"("allocation":{"memory_id":2,"offset":4294967312})");
}

TEST(ExecutorchGraph, EveryKindOfInstructionIsShown) {
  EXPECT_EQ(instruction_shown(kernel_call(0, {1, 2})),
            R"("call":"KernelCall","op":"aten::add.out","op_index":0,"args":[1,2])");
  EXPECT_EQ(instruction_shown(delegate_call(0, {})),
            R"("call":"DelegateCall","delegate":"Xnnpack","delegate_index":0,"args":[])");
  EXPECT_EQ(instruction_shown(member(3, {{0, scalar(4)}, {1, scalar(5)}})),
            R"("call":"MoveCall","move_from":4,"move_to":5)");
  EXPECT_EQ(instruction_shown(member(4, {{0, scalar(6)}, {1, scalar(1)}})),
            R"("call":"JumpFalseCall","cond_value_index":6,"destination_instruction":1)");
  EXPECT_EQ(instruction_shown(member(5, {{0, scalar(7)}})), R"("call":"FreeCall","value_index":7)");
  EXPECT_EQ(instruction_shown(member(6, {})), R"("call":6)");
  EXPECT_EQ(instruction_shown(table({})), R"("call":0)");
}

TEST(ExecutorchGraph, CallsOfMissingOperatorsHaveOnlyTheIndex) {
  EXPECT_EQ(instruction_shown(kernel_call(1, {})), R"("call":"KernelCall","op_index":1,"args":[])");
  EXPECT_EQ(instruction_shown(kernel_call(-1, {})), R"("call":"KernelCall","op_index":-1,"args":[])");
  EXPECT_EQ(instruction_shown(delegate_call(9, {})), R"("call":"DelegateCall","delegate_index":9,"args":[])");
}

TEST(ExecutorchGraph, SeveralMethodsAndChainsAreShown) {
  const Ref empty = table({{0, list<int32_t>({1})}, {1, list<int32_t>({2})}});
  const std::string graph = graph_of(
      pte({method("a", {}, {{5, tables({empty, empty})}, {8, list<int64_t>({0, 4096})}}), method("b", {})}, {}, ""));
  EXPECT_EQ(graph,
            R"({"methods":[
{"name":"a","inputs":[],"outputs":[],"non_const_buffer_sizes":[0,4096],"values":[],"chains":[{"inputs":[1],"outputs":[2],"instructions":[]},{"inputs":[1],"outputs":[2],"instructions":[]}]},
{"name":"b","inputs":[],"outputs":[],"non_const_buffer_sizes":[],"values":[],"chains":[]}]}
)");
}

TEST(ExecutorchGraph, DataFilesHaveNone) { EXPECT_EQ(graph_of(small_ptd()), "missing"); }

// A small file of tables and lists that many others share would have a graph of megabytes.
TEST(ExecutorchGraph, SharedTablesAreCountedAtEachUse) {
  const auto error_of = [](std::map<int, Slot> slots, std::vector<Ref> values = {}) {
    return error_in(read(pte({method("f", std::move(values), std::move(slots))}, {}, "")));
  };
  const Ref call = kernel_call(0, std::vector<int32_t>(1000, 1));
  EXPECT_EQ(error_of({{5, tables({chain(std::vector<Ref>(10, call))})}}), "no error");
  EXPECT_THAT(error_of({{5, tables({chain(std::vector<Ref>(100, call))})}}), HasSubstr("counted at each use"));
  const Ref one = chain(std::vector<Ref>(200, member(5, {})));
  EXPECT_THAT(error_of({{5, tables(std::vector<Ref>(200, one))}}), HasSubstr("counted at each use"));
  EXPECT_THAT(error_of({}, std::vector<Ref>(100, member(7, {{0, list(std::vector<int64_t>(500, 1))}}))),
              HasSubstr("counted at each use"));
  EXPECT_THAT(error_of({{5, tables({chain(std::vector<Ref>(10, kernel_call(0, {})))})},
                        {6, tables({op(std::string(60'000, 'o'), "")})}}),
              HasSubstr("counted at each use"));
}

// All that the graph shows is read before the file is mounted, also numbers: their place is in the table's vtable.
TEST(ExecutorchGraph, NumbersOutsideOfTheFileAreRefused) {
  for (const Ref& inner :
       {member(2, {{0, scalar(int64_t{0x7777777777777777})}}), member(4, {{0, scalar(int64_t{0x7777777777777777})}}),
        value(kFloat, {}, {}, 0, {{6, table({{2, scalar(0x77777777U)}})}})}) {
    const std::string file = pte({method("f", {inner})}, {}, "");
    const size_t number = file.find("wwww");
    ASSERT_NE(number, file.npos);
    EXPECT_EQ(error_in(read(file)), "no error");
    size_t refused = 0;
    for (size_t at = 0; at < file.size(); ++at) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x7F);
      if (const auto model = read(damaged); !model)
        ++refused;
      else
        EXPECT_THAT(graph_of(damaged), StartsWith("{\"methods\":[")) << "byte " << at;
    }
    EXPECT_GT(refused, 0U);
  }
}

TEST(ExecutorchGraph, ListsOutsideOfTheFileAreRefused) {
  const std::string file = pte({method("f", {}, {{5, tables({chain({kernel_call(0, {7, 7, 7})})})}})}, {}, "");
  const size_t args = file.find(std::string("\3\0\0\0\7\0\0\0", 8));
  ASSERT_NE(args, file.npos);
  std::string damaged = file;
  damaged[args + 3] = '\x7F';
  EXPECT_THAT(graph_of(file), HasSubstr("\"args\":[7,7,7]"));
  EXPECT_THAT(error_in(read(damaged)), StartsWith("executorch: the list at"));
}

}  // namespace
}  // namespace weightfs::executorch_graph_test
