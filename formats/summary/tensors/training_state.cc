#include "formats/summary/tensors/training_state.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <string>

#include "base/text.h"
#include "formats/summary/tensors/tensor_name.h"

namespace weightfs::summary {
namespace {

using Texts = std::span<const std::string_view>;

// Objects of a checkpoint that hold a training's state: nanoGPT, Lightning, DeepSpeed, timm, Flax. Sorted.
constexpr auto kObjects =
    std::to_array<std::string_view>({"amp_scaler", "callbacks", "cuda_rng_state", "grad_scaler", "loops", "loss_scaler",
                                     "lr_scheduler", "lr_schedulers", "opt_state", "opt_states", "rng_state",
                                     "rng_states", "scheduler", "schedulers", "torch_rng_state"});

// Objects around them.
constexpr auto kWrappers = std::to_array<std::string_view>({"app", "checkpoint", "train_state", "trainer"});

// What PyTorch's optimizers, and those of bitsandbytes and others, keep of a weight, and a GradScaler of all, by names
// that nothing else has.
constexpr auto kOwnSlots =
    std::to_array<std::string_view>({"_growth_tracker", "exp_avg", "exp_avg_sq", "exp_avg_sq_col", "exp_avg_sq_row",
                                     "max_exp_avg_sq", "momentum_buffer", "square_avg"});
// And by names that are of an optimizer only in `state.NUMBER`.
constexpr auto kSlots = std::to_array<std::string_view>({"RMS", "absmax1", "absmax2", "acc_delta", "ax", "eta",
                                                         "exp_inf", "grad_avg", "mu", "prev", "qmap1", "qmap2",
                                                         "state1", "state2", "step", "step_size", "sum", "unorm_vec"});

// Slots of TensorFlow's optimizers by the last component of their names.
constexpr auto kTensorflowSlots = std::to_array<std::string_view>(
    {"Adam", "Adam_1", "Momentum", "RMSProp", "beta1_power", "beta2_power", "adam_m", "adam_v"});

// Ends of the names of Paddle's accumulators.
constexpr auto kPaddleSlots = std::to_array<std::string_view>(
    {"_moment1_0", "_moment2_0", "_beta1_pow_acc_0", "_beta2_pow_acc_0", "_velocity_0"});

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view next_component(std::string_view& left) {
  const std::string_view component = left.substr(0, std::min(left.find_first_of("./"), left.size()));
  left.remove_prefix(std::min(left.size(), component.size() + 1));
  return component;
}

// "optimizer", "optimizer_state_dict", "g_optimizer", "optimG"
bool names_an_optimizer(std::string_view component) {
  const std::string text = lower_case(component);
  for (std::string_view left = text; !left.empty();) {
    const std::string_view word = left.substr(0, std::min(left.find('_'), left.size()));
    if (word.starts_with("optimizer") || (word.starts_with("optim") && word.size() <= 6)) return true;
    left.remove_prefix(std::min(left.size(), word.size() + 1));
  }
  return false;
}

// The first object of the name that is no wrapper; `left` becomes what follows.
std::string_view first_object(std::string_view& left) {
  std::string_view first = next_component(left);
  while (is_in(first, kWrappers) && !left.empty()) first = next_component(left);
  return first;
}

// Whether the name could also be that of a module: "optimizer_net.0.weight", "scheduler.proj.weight".
bool is_like_a_module(std::string_view name) {
  if (is_in(last_component(name), kOwnSlots)) return false;
  const std::string_view first = first_object(name);
  return first == "scheduler" || first == "schedulers" || names_an_optimizer(first);
}

bool has_component_of_an_optimizer(std::string_view name) {
  static constexpr auto kComponents =
      std::to_array<std::string_view>({"mu", "nu", "param_groups", "param_states", "state", "states", "vars"});
  while (!name.empty())
    if (is_in(next_component(name), kComponents)) return true;
  return false;
}

}  // namespace

bool has_optimizer_slots(const TensorList& tensors, const Traits& traits) {
  if (!traits.has_modules) return true;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string_view name = tensors.name(i);
    if (is_training_state(name, traits, true) && (!is_like_a_module(name) || has_component_of_an_optimizer(name)))
      return true;
  }
  return false;
}

bool is_training_state(std::string_view name, const Traits& traits, bool has_slots) {
  if (!has_slots && is_like_a_module(name)) return false;
  const std::string_view last = last_component(name);
  if (is_in(last, kOwnSlots)) return true;
  if (traits.framework == Traits::tensorflow &&
      (has_component(name, ".OPTIMIZER_SLOT") || is_in(last, kTensorflowSlots)))
    return true;
  if (traits.framework == Traits::paddle &&
      std::ranges::any_of(kPaddleSlots, [&](auto end) { return name.ends_with(end); }))
    return true;
  std::string_view left = name;
  const std::string_view first = first_object(left);
  if (left.empty()) return false;
  // T5X has the weights in the optimizer.
  if (names_an_optimizer(first)) return next_component(left) != "target";
  if (std::ranges::binary_search(kObjects, first)) return true;
  return first == "state" && is_number(next_component(left)) && left == last && is_in(last, kSlots);
}

namespace {

constexpr size_t kMaxCompared = 100'000;  // tensors whose names are compared; checkpoints have fewer than 10,000

// The name without points, which some averages leave out, and without the wrappers of distributed training, of
// AveragedModel and of torch.compile.
std::string key_of(std::string_view name) {
  for (std::string_view left = name; !left.empty();) {
    const std::string_view component = next_component(left);
    if (left.empty() || (component != "module" && component != "_orig_mod")) break;
    name = left;
  }
  std::string out(name);
  std::erase(out, '.');
  return out;
}

// "ema", "model_ema", "swa_state_dict", "averaged_model". An "avg_pool" is a module.
bool names_an_average(std::string_view component) {
  static constexpr auto kAverages = std::to_array<std::string_view>({"average", "averaged", "avg", "polyak", "shadow"});
  static constexpr auto kModels =
      std::to_array<std::string_view>({"dict", "model", "net", "network", "parameters", "params", "state", "weights"});
  bool is_average = false, is_of_model = false;
  for (std::string_view left = component; !left.empty();) {
    const std::string_view word = left.substr(0, std::min(left.find('_'), left.size()));
    if (word == "ema" || word == "swa") return true;
    is_average |= is_in(word, kAverages);
    is_of_model |= is_in(word, kModels);
    left.remove_prefix(std::min(left.size(), word.size() + 1));
  }
  return is_average && is_of_model;
}

// What follows the object with an average, which is the first or the second component; empty if there is none.
std::string_view averaged_name(std::string_view name) {
  for (int i = 0; i < 2 && !name.empty(); ++i)
    if (names_an_average(next_component(name))) return name;
  return "";
}

}  // namespace

void find_averages(const TensorList& tensors, std::vector<Counted>& counted) {
  std::vector<size_t> averages;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (counted[i].role == Role::parameter && !averaged_name(tensors.name(i)).empty()) averages.push_back(i);
  if (averages.empty() || tensors.size() > kMaxCompared) return;
  std::map<std::string, size_t> others;  // by the name below each object around it
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (counted[i].role != Role::parameter || !averaged_name(tensors.name(i)).empty()) continue;
    std::string_view left = tensors.name(i);
    for (int depth = 0; depth < 3 && !left.empty(); ++depth) {
      others.emplace(key_of(left), i);
      next_component(left);
    }
  }
  bool has_any = false;
  for (const size_t i : averages) {
    const auto other = others.find(key_of(averaged_name(tensors.name(i))));
    if (other == others.end() || tensors.shape(other->second) != tensors.shape(i)) continue;
    counted[i].role = Role::state;
    has_any = true;
  }
  for (const size_t i : averages)  // the decay and the number of updates
    if (has_any && counted[i].role == Role::parameter && tensors.shape(i).empty()) counted[i].role = Role::state;
}

namespace {

// The copy of torch_ema and diffusers: "ema.shadow_params.3".
bool is_in_list_of_copies(std::string_view name) {
  static constexpr auto kLists = std::to_array<std::string_view>({"collected_params", "shadow_params"});
  return is_number(last_component(name)) && is_in(last_component(parent_of(name)), kLists);
}

// What trainers keep as a tensor of one number: "best_acc1", "epoch", "n_averaged".
bool is_named_as_progress(std::string_view name) {
  static constexpr auto kNames =
      std::to_array<std::string_view>({"acc", "accuracy", "epoch", "global_step", "iter", "iteration", "loss", "lr",
                                       "n_averaged", "num_updates", "step", "train_loss", "val_acc", "val_loss"});
  return name.starts_with("best_") || is_in(name, kNames);
}

// Whether the first object of a name is one of a checkpoint, not of a module: "model_state_dict", an optimizer.
bool is_in_checkpoint(std::string_view name, Role role) {
  const std::string_view first = next_component(name);
  return !name.empty() && (first.ends_with("state_dict") || (role == Role::state && names_an_optimizer(first)));
}

// What a checkpoint has beside the weights.
struct Checkpoint {
  std::set<std::string_view> optimized;    // objects with what an optimizer or a GradScaler keeps
  std::set<std::string_view> with_arrays;  // first objects with more than single numbers
  bool is_sure = false;                    // it has a state_dict, or the state of an optimizer
  bool has_weights = false;                // other parameters than lists of copies

  Checkpoint(const TensorList& tensors, const std::vector<Counted>& counted) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      std::string_view left = tensors.name(i);
      if (is_in(last_component(left), kOwnSlots)) optimized.insert(parent_of(left));
      is_sure = is_sure || is_in_checkpoint(left, counted[i].role);
      has_weights = has_weights || (counted[i].role == Role::parameter && !is_in_list_of_copies(left));
      if (!tensors.shape(i).empty()) with_arrays.insert(next_component(left));
    }
  }

  // A single number of a trainer, at the top or in an object of them: "best_acc1", "metrics.loss".
  bool is_progress(std::string_view name) const {
    std::string_view left = name;
    const std::string_view first = next_component(left);
    return (left.empty() || !with_arrays.contains(first)) && (is_sure || is_named_as_progress(last_component(name)));
  }
};

}  // namespace

void find_trainer_state(const TensorList& tensors, std::vector<Counted>& counted) {
  const Checkpoint checkpoint(tensors, counted);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (counted[i].role != Role::parameter) continue;
    const std::string_view name = tensors.name(i), parent = parent_of(name), last = last_component(name);
    const bool is_number_alone = tensors.shape(i).empty();
    const bool is_slot =
        !parent.empty() && checkpoint.optimized.contains(parent) && (is_number_alone || is_in(last, kSlots));
    const bool is_numbered =
        is_number(last_component(parent)) && last_component(parent_of(parent)) == "state" && is_in(last, kSlots);
    const bool is_copy = checkpoint.has_weights && is_in_list_of_copies(name);
    if (is_slot || is_numbered || is_copy || (is_number_alone && checkpoint.is_progress(name)))
      counted[i].role = Role::state;
  }
}

}  // namespace weightfs::summary
