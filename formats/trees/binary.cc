#include "formats/trees/binary.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/common/cursor.h"
#include "formats/common/strided.h"
#include "formats/common/warnings.h"

namespace weightfs::trees {
namespace {

constexpr std::string_view kMagic = "binf";

// LearnerModelParamLegacy, GBTreeModelParam, GBLinearModelParam and TreeParam, in bytes.
constexpr uint64_t kLearnerSize = 136;
constexpr uint64_t kTreesSize = 160;
constexpr uint64_t kLinearSize = 136;
constexpr uint64_t kTreeSize = 148;

constexpr uint64_t kLongestName = 64;
constexpr std::array<std::string_view, 7> kObjectives = {
    "binary:", "count:", "gpu:", "multi:", "rank:", "reg:", "survival:"};
constexpr std::array<std::string_view, 3> kBoosters = {"gbtree", "dart", "gblinear"};

// Old versions write a number between its attributes and metrics.
constexpr std::string_view kPoisson = "count:poisson";

constexpr uint64_t kMaxAttributes = 1024;
constexpr uint64_t kMaxAttribute = 65'536;

struct Field {
  std::string_view name;
  std::string_view dtype;
};

// RegTree::Node and RTreeNodeStat: all fields have 4 bytes.
constexpr uint64_t kFieldSize = 4;
constexpr auto kNode = std::to_array<Field>(
    {{"parent", "int32"}, {"cleft", "int32"}, {"cright", "int32"}, {"sindex", "uint32"}, {"info", "float32"}});
constexpr auto kStat = std::to_array<Field>(
    {{"loss_chg", "float32"}, {"sum_hess", "float32"}, {"base_weight", "float32"}, {"leaf_child_cnt", "int32"}});
constexpr std::string_view kNodeType =
    "[('parent', '<i4'), ('cleft', '<i4'), ('cright', '<i4'), ('sindex', '<u4'), ('info', '<f4')]";
constexpr std::string_view kStatType =
    "[('loss_chg', '<f4'), ('sum_hess', '<f4'), ('base_weight', '<f4'), ('leaf_child_cnt', '<i4')]";

// The name at an offset, behind its length of 8 bytes; empty if there is none.
std::string_view name_at(std::string_view head, uint64_t at) {
  if (at + 8 > head.size()) return "";
  const uint64_t length = little_endian(head.substr(static_cast<size_t>(at), 8));
  if (length == 0 || length > kLongestName) return "";
  const std::string_view name = head.substr(static_cast<size_t>(at) + 8, static_cast<size_t>(length));
  return name.size() == length ? name : "";
}

class BinaryReader {
 public:
  explicit BinaryReader(const Container& container)
      : container_(container), in_(*container.bytes, 0, container.bytes->size()) {}

  Result<Model> read() {
    TRY_VOID(read_learner());
    if (booster_ == "gblinear")
      TRY_VOID(read_linear());
    else
      TRY_VOID(read_trees());
    if (!is_cut_) TRY_VOID(read_attributes());
    model_.format = "xgboost";
    model_.metadata.append("learner_model_param", std::move(parameters_));
    model_.metadata.append("objective", objective_);
    model_.metadata.append("booster", std::move(booster_));
    if (!attributes_.empty()) model_.metadata.append("attributes", std::move(attributes_));
    model_.parts.push_back({container_.name, Later<SourcePtr>::of(container_.bytes)});
    std::move(warnings_).move_to(model_);
    return std::move(model_);
  }

 private:
  Result<std::string> read_text() {
    const auto size = TRY(in_.number<uint64_t>());
    if (size > kMaxAttribute)
      return failure(Code::corrupt,
                     fmt::format("a text of {} bytes at {}, at most {}", size, in_.position(), kMaxAttribute));
    TRY_VOID(container_.budget->charge(Cost::kept, size));
    return in_.text(size);
  }

  Result<void> read_learner() {
    if (TRY(in_.ahead(kMagic.size())).starts_with(kMagic)) TRY_VOID(in_.skip(kMagic.size()));
    const uint64_t end = in_.position() + kLearnerSize;
    parameters_.append("base_score", shortest_decimal(TRY(in_.number<float>())));
    parameters_.append("num_feature", TRY(in_.number<uint32_t>()));
    parameters_.append("num_class", TRY(in_.number<int32_t>()));
    has_attributes_ = TRY(in_.number<int32_t>()) != 0;
    has_metrics_ = TRY(in_.number<int32_t>()) != 0;
    const auto major = TRY(in_.number<uint32_t>());
    const auto minor = TRY(in_.number<uint32_t>());
    if (major > 0) model_.version = fmt::format("{}.{}", major, minor);
    may_have_leaf_vectors_ = major == 0;
    TRY_VOID(in_.skip(end - in_.position()));
    objective_ = TRY(read_text());
    booster_ = TRY(read_text());
    if (std::ranges::find(kBoosters, booster_) == kBoosters.end())
      return failure(Code::unsupported, fmt::format("the booster {}", quoted(booster_)));
    return {};
  }

  Result<void> read_linear() {
    TRY_VOID(in_.skip(kLinearSize));
    return add_floats("weights");
  }

  // A count and so many floats.
  Result<void> add_floats(std::string name) {
    const auto stated = TRY(in_.number<uint64_t>());
    const uint64_t count = TRY(in_.bounded(stated, sizeof(float)));
    return add(std::move(name), "float32", count);
  }

  // The next elements of 4 bytes.
  Result<void> add(std::string name, std::string_view dtype, uint64_t count) {
    Slice bytes = TRY(slice(container_.bytes, in_.position(), count * kFieldSize));
    TRY_VOID(in_.skip(bytes.size()));
    return push(std::move(name), dtype_named(dtype), dtype, count, std::move(bytes));
  }

  Result<void> push(std::string name, const DType* dtype, std::string_view stored, uint64_t count, Slice bytes) {
    TRY_VOID(container_.budget->charge(Cost::tensor));
    TRY_VOID(container_.budget->charge(Cost::kept, name.size() + sizeof(uint64_t)));
    Tensor tensor;
    tensor.name = std::move(name);
    tensor.dtype = dtype;
    tensor.stored_dtype = stored;
    tensor.shape = {count};
    tensor.source = std::move(bytes);
    model_.tensors.push_back(tensor);
    return {};
  }

  // The trees up to the first that is not whole: the file may have been cut.
  Result<void> read_trees() {
    const uint64_t end = in_.position() + kTreesSize;
    const auto count = TRY(in_.number<int32_t>());
    if (count < 0) return failure(Code::corrupt, fmt::format("{} trees", count));
    TRY_VOID(in_.skip(end - in_.position()));
    const uint64_t trees = TRY(in_.bounded(static_cast<uint64_t>(count), kTreeSize));
    size_t whole = 0;  // the tensors of whole trees
    const auto rest = [&]() -> Result<void> {
      for (; trees_ < trees; ++trees_) {
        whole = model_.tensors.size();
        TRY_VOID(read_tree());
      }
      whole = model_.tensors.size();
      const uint64_t infos = TRY(in_.bounded(trees, sizeof(int32_t)));
      TRY_VOID(add("tree_info", "int32", infos));
      return booster_ == "dart" ? add_floats("weight_drop") : Result<void>();
    };
    auto read = rest();
    if (read || !in_.has_ended() || trees_ == 0) return read;
    is_cut_ = true;
    drop_from(whole);
    constexpr uint64_t kPerTree = 2 + kNode.size() + kStat.size();
    const uint64_t others = booster_ == "dart" ? 2 : 1;
    warnings_.miss_tensors(kPerTree * (trees - trees_) + others, Code::corrupt, "the file ends in tree {} of {}: {}",
                           trees_, trees, read.error().message);
    return {};
  }

  void drop_from(size_t first) {
    std::vector<size_t> dropped;
    for (size_t i = first; i < model_.tensors.size(); ++i) dropped.push_back(i);
    model_.tensors.erase(dropped);
  }

  Result<void> read_tree() {
    const uint64_t end = in_.position() + kTreeSize;
    TRY_VOID(in_.skip(sizeof(int32_t)));  // num_roots
    const auto count = TRY(in_.number<int32_t>());
    TRY_VOID(in_.skip(3 * sizeof(int32_t)));  // num_deleted, max_depth, num_feature
    const auto leaf_vector = TRY(in_.number<int32_t>());
    if (count < 0) return failure(Code::corrupt, fmt::format("tree {}: {} nodes", trees_, count));
    TRY_VOID(in_.skip(end - in_.position()));
    constexpr uint64_t kNodeSize = kFieldSize * (kNode.size() + kStat.size());
    const uint64_t nodes = TRY(in_.bounded(static_cast<uint64_t>(count), kNodeSize));
    const std::string name = fmt::format("trees.{}.", trees_);
    TRY_VOID(add_structures(name + "nodes", kNode, kNodeType, nodes));
    TRY_VOID(add_structures(name + "stats", kStat, kStatType, nodes));
    // Versions before 0.82 write a vector if its size is stated; the size is 1 in all trees of 2.0 and later.
    return may_have_leaf_vectors_ && leaf_vector > 0 ? add_floats(name + "leaf_vector") : Result<void>();
  }

  // The structures, and each field of theirs.
  template <size_t fields>
  Result<void> add_structures(const std::string& name, const std::array<Field, fields>& structure,
                              std::string_view stored, uint64_t count) {
    const Slice bytes = TRY(slice(container_.bytes, in_.position(), count * fields * kFieldSize));
    TRY_VOID(in_.skip(bytes.size()));
    TRY_VOID(push(name, &kUnknownDType, stored, count, bytes));
    constexpr uint64_t kGathered = 200;  // bytes of a tensor that is gathered
    TRY_VOID(container_.budget->charge(Cost::kept, fields * kGathered));
    for (size_t i = 0; i < fields; ++i) {
      const DType* const dtype = dtype_named(structure[i].dtype);
      Slice field = TRY(strided(bytes, count == 0 ? 0 : i, *dtype, {count}, {fields}));
      TRY_VOID(charge_gathering(*container_.budget, field, bytes));
      TRY_VOID(push(fmt::format("{}.{}", name, structure[i].name), dtype, structure[i].dtype, count, std::move(field)));
    }
    return {};
  }

  // What is behind the trees: pairs of texts, and the names of metrics. They may be cut.
  Result<void> read_attributes() {
    const auto read_pair = [&]() -> Result<void> {
      std::string key = TRY(read_text());
      std::string value = TRY(read_text());
      TRY_VOID(container_.budget->charge(Cost::value, 2));
      attributes_.append(std::move(key), std::move(value));
      return {};
    };
    const auto read_name = [&]() -> Result<void> { return read_text().map([](const std::string&) {}); };
    const auto read = [&]() -> Result<void> {
      if (has_attributes_) TRY_VOID(each_entry("attributes", read_pair));
      return has_metrics_ && objective_ != kPoisson ? each_entry("metrics", read_name) : Result<void>();
    };
    const auto done = read();
    attributes_.keep_last_of_each_key();
    if (done || !is_about_the_bytes(done.error())) return done;
    if (in_.has_ended())
      warnings_.miss_tensors(0, Code::corrupt, "the file ends in its attributes: {}", done.error().message);
    else
      warnings_.add("attributes: {}", done.error().message);
    return {};
  }

  // A count and so many entries, the first kMaxAttributes of which are read.
  template <class ReadEntry>
  Result<void> each_entry(std::string_view what, const ReadEntry& read_entry) {
    const auto count = TRY(in_.number<uint64_t>());
    for (uint64_t i = 0; i < std::min(count, kMaxAttributes); ++i) TRY_VOID(read_entry());
    if (count <= kMaxAttributes) return {};
    return failure(Code::unsupported, fmt::format("{} {}, {} are shown", count, what, kMaxAttributes));
  }

  const Container& container_;
  Cursor in_;
  Model model_;
  Warnings warnings_;
  Map parameters_, attributes_;
  std::string objective_, booster_;
  uint64_t trees_ = 0;
  bool has_attributes_ = false;
  bool has_metrics_ = false;
  bool may_have_leaf_vectors_ = false;
  bool is_cut_ = false;
};

}  // namespace

bool is_binary(std::string_view head) {
  if (head.starts_with(kMagic)) return true;
  const std::string_view objective = name_at(head, kLearnerSize);
  const std::string_view booster = name_at(head, kLearnerSize + 8 + objective.size());
  return std::ranges::any_of(kObjectives, [&](std::string_view known) { return objective.starts_with(known); }) &&
         std::ranges::find(kBoosters, booster) != kBoosters.end();
}

Result<Model> read_binary(const Container& container) { return BinaryReader(container).read(); }

}  // namespace weightfs::trees
