// Seeds of TensorFlow's formats: tables, slices, values in each form, attributes of each kind.
#include "tests/builders/tensorflow_builder.h"
#include "tests/fuzz/seeds.h"

namespace weightfs::test {

using namespace tensorflow;

namespace {

void add_checkpoints(Seeds& seeds) {
  const auto with_data = [](const std::string& index, const std::string& data) {
    return with_files(index, {{"m.data-00000-of-00001", data}});
  };
  seeds["tf_checkpoint/bundle"] = with_data(small_index(), small_data());
  seeds["tf_checkpoint/snappy"] = with_data(snappy_table({{"", header()}, {"w", Entry{.size = 4}.build()}}), "wwww");
  seeds["tf_checkpoint/big-endian"] =
      with_data(table({{"", header(1, 1)}, {"w", Entry{.type = kComplex64, .sizes = {2}, .size = 16}.build()}}),
                std::string(16, 'c'));
  const std::string name("\0w\0\1\1\2", 6);
  seeds["tf_checkpoint/columns"] = with_data(
      table(
          {{"", header()},
           {name + "\x80\x7F\x80\x81", Entry{.type = kUint8, .sizes = {3, 1}, .size = 3}.build()},
           {name + "\x80\x7F\x81\x81", Entry{.type = kUint8, .sizes = {3, 1}, .offset = 3, .size = 3}.build()},
           {"w",
            Entry{.type = kUint8, .sizes = {3, 2}, .slices = {slice_of({{0, -1}, {0, 1}}), slice_of({{0, -1}, {1, 1}})}}
                .build()}}),
      "012345");
  const Message attribute = Message().bytes(1, "VALUE").bytes(2, "dense/kernel").bytes(3, "k");
  const std::string graph = strings({Message().message(1, Message().message(2, attribute)).build()});
  seeds["tf_checkpoint/objects"] = with_data(
      table({{"", header()}, {"_CHECKPOINTABLE_OBJECT_GRAPH", Entry{.type = kString, .size = graph.size()}.build()}}),
      graph);
}

void add_graphs(Seeds& seeds) {
  seeds["tf_graph/meta"] = meta_graph(small_graph()).build();
  const Message list = Message()
                           .bytes(2, "s")
                           .bytes(3, "\1\2")
                           .real(4, 0.5F)
                           .bytes(5, "\1")
                           .number(6, kFloat)
                           .message(7, Message().number(3, 1))
                           .message(8, tensor(kFloat, {}))
                           .message(9, Message().bytes(1, "g"));
  seeds["tf_graph/attributes"] =
      graph({node("n", "N", {"n:1"},
                  {attribute("l", Message().message(1, list)), attribute("p", Message().bytes(9, "p")),
                   attribute("f", Message().message(10, Message().bytes(1, "g"))), attribute("e", Message())})})
          .build();
  seeds["tf_graph/values"] =
      graph({constant("last", tensor(kInt32, {3}).bytes(7, "\1\2")), constant("none", tensor(kDouble, {2})),
             constant("complex", tensor(kComplex64, {2}).bytes(9, "realimag")),
             constant("float8", tensor(kFloat8, {3}).bytes(18, "ab")),
             constant("mixed", tensor(kFloat, {2}).bytes(5, "aaaa").fixed32(5, 1)),
             constant("strings", tensor(kString, {1}).bytes(8, "text"))})
          .build();
  seeds["saved_model/constants"] = saved_model({meta_graph(small_graph()), meta_graph(small_graph(), "gpu")});
}

}  // namespace

void add_tensorflow(Seeds& seeds) {
  add_checkpoints(seeds);
  add_graphs(seeds);
}

}  // namespace weightfs::test
