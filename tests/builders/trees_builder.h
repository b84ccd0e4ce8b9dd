// Builds models of XGBoost (JSON, UBJSON, binary) and LightGBM for tests, right or wrong.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>
#include <vector>

#include "tests/builders/params_builder.h"

namespace weightfs::test::trees {

/// A learner of XGBoost with this booster, as JSON.
inline std::string xgboost_json(std::string_view booster, std::string_view before_booster = "") {
  return fmt::format(
      R"({{"learner":{{"attributes":{{"note":"\u00e4"}},"feature_names":["a","b"],{}"gradient_booster":{},)"
      R"("learner_model_param":{{"base_score":"5E-1"}},"objective":{{"name":"reg:squarederror"}}}},)"
      R"("version":[1,7,4]}})",
      before_booster, booster);
}

/// A booster with these trees, each a JSON object.
inline std::string gbtree_json(std::string_view trees, std::string_view model_param = R"({"num_trees":"1"})") {
  return fmt::format(R"({{"model":{{"gbtree_model_param":{},"tree_info":[0],"trees":[{}]}},"name":"gbtree"}})",
                     model_param, trees);
}

/// A tree of three nodes.
inline constexpr std::string_view kJsonTree =
    R"({"base_weights":[NaN,-Infinity,1.5],"categories":[],"default_left":[true,false,0],"id":0,)"
    R"("left_children":[1,-1,-1],"loss_changes":[1,0,0],"parents":[7,0,0],"right_children":[2,-1,-1],)"
    R"("split_conditions":[0.5,1E-1,2e0],"split_indices":[1,0,0],"sum_hessian":[3,2,1],)"
    R"("tree_param":{"num_nodes":"3","size_leaf_vector":"0"}})";

inline std::string small_xgboost_json() { return xgboost_json(gbtree_json(kJsonTree)); }

/// Values of UBJSON, as XGBoost writes them.
inline std::string big(uint64_t number, size_t size = 8) {
  std::string bytes = little(number, size);
  std::ranges::reverse(bytes);
  return bytes;
}
inline std::string ub_key(std::string_view name) { return "L" + big(name.size()) + std::string(name); }
inline std::string ub_text(std::string_view text) { return "S" + ub_key(text); }
inline std::string ub_typed(char marker, uint64_t count, std::string_view bytes) {
  return fmt::format("[${}#L{}{}", marker, big(count), bytes);
}
inline std::string ub_floats(const std::vector<float>& numbers) {
  std::string bytes;
  for (const float number : numbers) bytes += big(std::bit_cast<uint32_t>(number), 4);
  return ub_typed('d', numbers.size(), bytes);
}

/// A learner with the content of the object `model`.
inline std::string xgboost_ubjson(std::string_view model) {
  return "{" + ub_key("learner") + "{" + ub_key("feature_names") + "[#L" + big(1) + ub_text("a") +
         ub_key("gradient_booster") + "{" + ub_key("model") + "{" + std::string(model) + "}" + ub_key("name") +
         ub_text("gbtree") + "}" + ub_key("objective") + "{" + ub_key("name") + ub_text("reg:gamma") + "}}" +
         ub_key("version") + "[#L" + big(3) + "i\2i\1i\3" + "}";
}

/// A tree of two nodes whose arrays are stored in each way.
inline std::string small_xgboost_ubjson() {
  const std::string tree = "{" + ub_key("base_weights") + ub_floats({1.5F, -2.0F}) + ub_key("categories_sizes") +
                           ub_typed('L', 0, "") + ub_key("default_left") +
                           ub_typed('U', 2, "\1" + std::string(1, '\0')) + ub_key("left_children") +
                           ub_typed('l', 2, big(1, 4) + big(0xFFFFFFFF, 4)) + ub_key("parents") + "[i\1l" + big(7, 4) +
                           "]" + ub_key("split_type") + ub_typed('i', 2, "\1\2") + "}";
  return xgboost_ubjson(ub_key("tree_info") + "[#L" + big(1) + std::string("i\0", 2) + ub_key("trees") + "[#L" +
                        big(1) + tree);
}

/// The beginning of the binary form, up to the names.
inline std::string binary_learner(std::string_view objective, std::string_view booster, bool attributes = false,
                                  uint32_t major = 1) {
  return little(std::bit_cast<uint32_t>(0.5F), 4) + little(2, 4) + little(0, 4) + little(attributes ? 1 : 0, 4) +
         little(0, 4) + little(major, 4) + little(major == 0 ? 0 : 7, 4) + std::string(136 - 28, '\0') +
         little(objective.size()) + std::string(objective) + little(booster.size()) + std::string(booster);
}
inline std::string binary_trees(uint32_t count) { return little(count, 4) + std::string(156, '\0'); }
inline std::string binary_tree(uint32_t nodes, std::string_view content, uint32_t leaf_vector = 0) {
  return little(1, 4) + little(nodes, 4) + std::string(12, '\0') + little(leaf_vector, 4) + std::string(124, '\0') +
         std::string(content);
}

/// Two nodes, `n` and `m`, with statistics.
inline std::string small_xgboost_binary() {
  std::string content;
  for (const char c : {'n', 'm'}) content += std::string(20, c);
  for (const char c : {'s', 't'}) content += std::string(16, c);
  return "binf" + binary_learner("reg:squarederror", "dart", true) + binary_trees(1) + binary_tree(2, content) +
         little(7, 4) + little(1) + "DROP" + little(1) + little(4) + "best" + little(1) + "3";
}

inline constexpr std::string_view kLightGbmHeader =
    "tree\nversion=v4\nnum_class=1\nmax_feature_idx=1\nobjective=binary sigmoid:1\naverage_output\n"
    "feature_names=a b\nfeature_infos=[0:1] none\ntree_sizes=10 10\n\n";
inline constexpr std::string_view kLightGbmEnd =
    "end of trees\n\nfeature_importances:\nTree=5\n\nparameters:\n[boosting: gbdt]\n\nend of parameters\n\n"
    "pandas_categorical:[]\n";

inline std::string lightgbm_tree(int number, std::string_view rows) {
  return fmt::format("Tree={}\n{}\n\n", number, rows);
}

inline std::string small_lightgbm() {
  return std::string(kLightGbmHeader) +
         lightgbm_tree(0,
                       "num_leaves=2\nnum_cat=0\nsplit_feature=1\nthreshold=0.5\nleft_child=-1\nright_child=-2\n"
                       "leaf_value=-inf 1e-1\nshrinkage=0.1\n") +
         lightgbm_tree(1, "num_leaves=1\nnum_cat=0\nsplit_feature=\nleaf_value=3\nshrinkage=1\n") +
         std::string(kLightGbmEnd);
}

}  // namespace weightfs::test::trees
