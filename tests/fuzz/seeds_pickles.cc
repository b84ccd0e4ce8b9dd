// Seeds for the readers of pickles: every opcode, every way to describe a tensor, and bombs.
#include "tests/builders/dcp_builder.h"
#include "tests/builders/pickle_builder.h"
#include "tests/builders/pt2_builder.h"
#include "tests/builders/python_builder.h"
#include "tests/builders/trees_builder.h"
#include "tests/fuzz/seeds.h"

namespace weightfs::test {
namespace {

const PickleBuilder kFloats = storage("Float", "0", 16);

// An object with every opcode of a group.
void add_opcodes(Seeds& seeds) {
  const auto add = [&](const std::string& name, std::string_view opcodes) {
    seeds["pickle/" + name] = PickleBuilder().raw(opcodes).pickle();
  };
  add("numbers", "(K\1M\1\2J\1\2\3\4\x8A\2\1\2I01\nI7\nL7L\nF0.5\nGABCDEFGH\x88\x89Nt");
  add("big-integer", "\x8A\x0C" + std::string(12, '\xFE'));
  const std::string one = le(1, 4);
  add("texts", "(X" + one + "aU\1aT" + one + "a\x8C\1aC\1aB" + one + "aVa\\u00e9\nS'a'\nt");
  add("long-texts", "(\x8D" + le(1, 8) + "a\x8E" + le(1, 8) + "a\x96" + le(1, 8) + "at");
  add("containers", "(](K\1K\2eK\3a(K\1l}(K\1K\2uK\3K\4s(K\1K\2d\x8F(K\1\x90(K\1\x91)K\1\x85K\1K\2\x86K\1K\2K\3\x87t");
  add("memo", "(Nq\1r" + le(2, 4) + "\x94p7\nh\1j" + le(2, 4) + "g7\n2(10t");
  add("objects", "(ca\nB\n)R}b(K\1ia\nB\n(ca\nB\nK\1ox\x93");
  add("object-items", "ca\nB\n)R(K\1e(K\1K\2uK\1b");
  add("new-objects",
      "(ca\nB\n)\x81"
      "ca\nB\n)}\x92U\1aU\1B\x93t");
  add("persistent", "(K\1QPkey\nt");
  add("frame", "\x95" + le(2, 8) + "N");
}

void add_tensors(Seeds& seeds) {
  const auto add = [&](const std::string& name, const PickleBuilder& tensor) {
    PickleBuilder object = PickleBuilder().raw("}").mark().text("a").add(tensor).text("b").add(tensor).raw("u");
    seeds["pickle/tensor-" + name] = object.pickle();
  };
  const auto call = [](std::string_view name, const PickleBuilder& arguments) {
    return PickleBuilder().call("torch._utils", name, arguments);
  };
  const TensorLayout matrix{{2, 3}, {3, 1}, 1};
  const PickleBuilder given = layout_arguments(kFloats, matrix);
  add("v1", call("_rebuild_tensor", given));
  add("v2", tensor_v2(kFloats, matrix));
  add("transposed", tensor_v2(kFloats, {{3, 2}, {1, 3}}));
  add("expanded", tensor_v2(kFloats, {{3, 2}, {0, 0}}));
  PickleBuilder v3 = layout_arguments(storage("Untyped", "0", 64), matrix);
  add("v3", call("_rebuild_tensor_v3", v3.boolean(false).none().global("torch", "float8_e4m3fn")));
  PickleBuilder flags;
  flags.raw("}").mark().text("conj").boolean(true).text("neg").boolean(true).raw("u");
  add("conjugated", tensor_v2(storage("ComplexFloat", "0", 8), {{2}, {1}}, flags));
  PickleBuilder quantizer = layout_arguments(storage("QInt8", "0", 64), {{2, 2}, {2, 1}});
  quantizer.mark().global("torch", "per_channel_affine").add(tensor_v2(kFloats, {{2}, {1}}));
  add("quantized", call("_rebuild_qtensor", quantizer.add(tensor_v2(kFloats, {{2}, {1}})).integer(0).tuple()));
  PickleBuilder sparse;
  sparse.call("torch.serialization", "_get_layout", PickleBuilder().text("torch.sparse_csr")).mark();
  for (int i = 0; i < 3; ++i) sparse.add(tensor_v2(kFloats, {{2}, {1}}));
  add("sparse", call("_rebuild_sparse_tensor", sparse.integers({2, 2}).tuple()));
  PickleBuilder parameter = tensor_v2(kFloats, matrix);
  add("parameter", call("_rebuild_parameter", parameter.boolean(true).none()));
  PickleBuilder meta;
  add("meta", call("_rebuild_meta_tensor_no_storage", meta.global("torch", "int64").integers({2}).integers({1})));
  add("storage", kFloats);
}

void add_bombs(Seeds& seeds) {
  PickleBuilder laughs = tensor_v2(kFloats, {{1}, {1}});
  for (int i = 0; i < 12; ++i) laughs.raw("2\x86");
  seeds["pickle/bomb-shared"] = laughs.pickle();
  seeds["pickle/bomb-nested"] = std::string(200, ']') + std::string(199, 'a') + ".";
  seeds["pickle/bomb-marks"] = std::string(1001, '(') + ".";
  seeds["pickle/cycle"] = PickleBuilder().raw("]").put(0).get(0).raw("a}").get(0).raw("N0\x86").pickle();
  seeds["pickle/call-of-system"] = PickleBuilder().call("posix", "system", PickleBuilder().text("id")).pickle();
}

// What pickle.dump and joblib.dump write.
void add_objects_of_python(Seeds& seeds) {
  const auto add = [&](const std::string& name, const PickleBuilder& value) {
    seeds["python/" + name] = dict(PickleBuilder().text("a").add(value).text("b").add(array("u1", {1}, "x"))).pickle();
  };
  seeds["python/pipeline"] = small_pipeline();
  add("columns", array_of(dtype("f4", ">"), {2, 2}, PickleBuilder().bytes(std::string(16, 'x')), true));
  add("latin1", array_of(dtype("u1"), {2},
                         PickleBuilder().call("_codecs", "encode", PickleBuilder().text("a\xC3\xBF").text("latin1"))));
  add("string", array_of(dtype("u1"), {3}, PickleBuilder().raw("S'\\x00\\n\\''\n")));
  add("escapes",
      array_of(dtype("u1"), {2},
               PickleBuilder().call("_codecs", "encode", PickleBuilder().raw("V\\u0000a\n").text("latin1"))));
  add("record", array_of(record_dtype({{"n", dtype("i2"), 0}, {"x", dtype("f4"), 4}}, 8), {2},
                         PickleBuilder().bytes("01..abcd23..efgh")));
  add("objects",
      array_of(dtype("O8"), {2}, PickleBuilder().raw("]").mark().text("t").add(array("u1", {1}, "y")).raw("e")));
  add("buffer",
      PickleBuilder().call("numpy.core.numeric", "_frombuffer",
                           PickleBuilder().raw("\x96" + le(4, 8) + "wxyz").add(dtype("u1")).integers({4}).text("C")));
  add("joblib", joblib_array("u1", {3}, ".R."));
  add("eval", PickleBuilder().call(
                  "builtins", "eval",
                  PickleBuilder().text("data").add(dict(PickleBuilder().text("data").add(array("u1", {1}, "p"))))));
  const std::string file = PytorchBuilder::legacy_header() + storage("Float", "0", 2).pickle() +
                           PickleBuilder().raw("]").mark().text("0").raw("e").pickle() + le(2, 8) + "01234567";
  add("torch",
      tensor_v2(PickleBuilder().call("torch.storage", "_load_from_bytes", PickleBuilder().bytes(file)), {{2}, {1}}));
  add("booster", booster_of(trees::small_xgboost_ubjson()));
  add("booster-text",
      object("lightgbm.basic", "Booster", PickleBuilder().text("handle").text(trees::small_lightgbm())));
  add("booster-latin1", object("xgboost.core", "Booster",
                               PickleBuilder().text("handle").call(
                                   "builtins", "bytearray", PickleBuilder().text("binf\xC3\xBF").text("latin-1"))));
  add("companion",
      object("joblib.numpy_pickle", "NDArrayWrapper", PickleBuilder().text("filename").text("beside.npy")));
}

// Checkpoints of several files, and archives of torch.export.
void add_checkpoints(Seeds& seeds) {
  dcp::CheckpointBuilder wrong;
  wrong.tensor("w", "uint8", {4}, {{{0}, {2}}, {{2}, {2}}}).placed("w", dcp::Sizes{0}, "../x", 0, 4);
  wrong.placed("w", dcp::Sizes{2}, "__0_0.distcp", 1, -1).object_entry("x");
  seeds["dcp/wrong"] = with_files(wrong.metadata(), {{"__0_0.distcp", dcp::saved("Byte", 1, {2}, "ab")}});
  dcp::CheckpointBuilder evil;
  evil.object_entry("x").stored("x", std::nullopt, "a/b", dcp::saved(PickleBuilder().call("os", "system", {})));
  seeds["dcp/evil"] = with_files(evil.metadata(), evil.files());
  seeds["pt2/small"] = pt2::small_pt2();
  seeds["pt2/old"] = pt2::small_old_pt2();
  ZipBuilder pickled = pt2::archive(pt2::payload("w", "s", pt2::meta(1, "4", "1"), true) + "," +
                                        pt2::payload("v", "../s", pt2::meta(9, "-1", "1", "-1", 2)),
                                    "big");
  pickled.deflated("m/data/weights/s", dcp::saved("Byte", 1, {4}, "abcd"));
  seeds["pt2/pickled"] = pickled.build();
}

}  // namespace

void add_pickles(Seeds& seeds) {
  add_checkpoints(seeds);
  add_opcodes(seeds);
  add_tensors(seeds);
  add_bombs(seeds);
  add_objects_of_python(seeds);
  seeds["pickle/checkpoint"] = small_checkpoint().object().pickle();
  seeds["pytorch_legacy/checkpoint"] = small_checkpoint().legacy({4, 1, 2});
  seeds["pytorch_legacy/version"] = PytorchBuilder::legacy_header(1002);
}

}  // namespace weightfs::test
