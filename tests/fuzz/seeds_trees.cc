// Seeds of tree models, and of formats whose layers tell what the weights are.
#include <fmt/core.h>

#include "tests/builders/ctranslate2_builder.h"
#include "tests/builders/ncnn_builder.h"
#include "tests/builders/ort_builder.h"
#include "tests/builders/trees_builder.h"
#include "tests/fuzz/seeds.h"

namespace weightfs::test {

void add_trees(Seeds& seeds) {
  using namespace trees;
  seeds["xgboost/dart.json"] = xgboost_json(R"({"gbtree":)" + gbtree_json(kJsonTree) + R"(,"weight_drop":[0.5]})");
  seeds["xgboost/odd.json"] =
      "{ \"Config\" : null, \"Model\":" +
      xgboost_json(gbtree_json(R"({"parents":[1.5,"a",[],{}],"left_children":7,"leaf_weights":[1e999,-0,nan]},{})")) +
      "}";
  std::string names;
  for (int i = 0; i < 1100; ++i) names += fmt::format("{}\"f\\n\"", i == 0 ? "" : ",");
  seeds["xgboost/names.json"] = xgboost_json(gbtree_json(""), "\"feature_types\":[" + names + "],");
  seeds["xgboost/typed.ubj"] =
      xgboost_ubjson(ub_key("trees") + "[#U\1{" + ub_key("parents") + ub_typed('L', 2, big(1) + big(1ULL << 40)) +
                     ub_key("categories") + "[$I#i\1" + big(7, 2) + ub_key("default_left") + "[TFU\1]" + ub_key("x") +
                     "[Z{NN}C?]" + "}");
  seeds["xgboost/linear.bst"] = binary_learner("reg:linear", "gblinear") + std::string(136, '\0') + little(1) + "wwww";
  seeds["lightgbm/categories"] =
      std::string(kLightGbmHeader) +
      lightgbm_tree(0, "num_leaves=2\nnum_cat=1\ncat_boundaries=0 1\ncat_threshold=4294967295\n") +
      lightgbm_tree(1, "num_leaves=x\nleaf_value=a 1e999 nan\nleaf_features=1  2 \n");
  seeds["lightgbm/returns"] =
      "tree\r\nversion=v3\r\nfeature_names=a\r\n\r\nTree=0\r\nleaf_value=1\r\n\r\nend of trees\r\n";
}

void add_layers(Seeds& seeds) {
  const auto with_weights = [](const std::string& param) {
    return with_files(param, {{"m.bin", std::string(4, '\1') + std::string(2000, '\0')}});
  };
  seeds["ncnn/layers"] =
      with_weights(ncnn::param({"InnerProduct f 0 0 0=2 1=1 2=4 8=101", "LSTM l 0 0 0=1 1=8 3=2 8=1",
                                "GRU g 0 0 0=1 1=6 2=2", "RNN r 0 0 0=1 1=1", "Gemm m 0 0 4=1 5=1 6=1 7=1 8=2 9=3 10=3",
                                "MemoryData d 0 0 0=1 1=2 2=3 11=1 21=0", "Embed e 0 0 0=1 3=2 2=1 18=1",
                                "Convolution1D c 0 0 0=1 1=2 6=2", "GroupNorm n 0 0 1=2", "Requantize q 0 0 2=1"}));
  seeds["ncnn/attention"] = with_weights(
      ncnn::param({"MultiHeadAttention a 0 0 0=2 1=1 2=4 3=1 18=1", "Custom c 1 1 a b", "PReLU p 0 0 0=1"}));
  const auto with_config = [](const std::string& sections) {
    return with_files(darknet::header() + std::string(2000, '\0'),
                      {{"m.cfg", "[net]\nwidth=4\nheight=4\nchannels=2\n" + sections}});
  };
  seeds["darknet/layers"] = with_config(
      "[conv]\nfilters=2\nsize=3\npad=1\ngroups=2\nflipped=1\n[upsample]\nstride=2\n[reorg]\nstride=2\n[maxpool]"
      "\nstride=2\n"
      "[route]\nlayers=-1,0\n[shortcut]\nfrom=-2\n[deconv]\n[local]\nsize=2\n[batchnorm]\n[crnn]\n[crop]\n[avgpool]\n["
      "lstm]\n"
      "[gru]\noutput=2\n[rnn]\nhidden=2\n[conn]\nbatch_normalize=1\n[other]\n");
  using namespace ctranslate2;
  seeds["ctranslate2/version-1"] = little(1, 4) + little(1, 4) + old_variable("a/b", {2}, 4, 2, "aaaabbbb");
  seeds["ctranslate2/version-3"] = header(3) + little(1, 4) + old_variable("a", {}, 2, 1, "\1\2") + little(0, 4);
  using namespace ort;
  const Ref tensor_in_node = tensor("", {1}, kUint8, "a");
  const Ref sparse = table({{0, tensor("s", {1}, kUint8, "v")}, {1, tensor("", {1}, kUint8, "i")}});
  seeds["ort/attributes"] =
      file_of(graph({tensor("x", {-1}, 99, "a")},
                    {node("", "Op",
                          {attribute("one", 6, tensor_in_node), attribute("many", 11, tables({tensor_in_node})),
                           attribute("graphs", 12, tables({graph({tensor_in_node})}))})},
                    {{7, tables({sparse})}}));
}

}  // namespace weightfs::test
