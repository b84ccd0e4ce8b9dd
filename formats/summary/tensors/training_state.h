// The state of optimizers and trainers, which checkpoints have beside the weights.
#pragma once

#include <string_view>
#include <vector>

#include "formats/format.h"
#include "formats/summary/counts.h"
#include "formats/tensor_list.h"

namespace weightfs::summary {

/// Whether a tensor is one of them, by its name: `optimizer.state.0.exp_avg`, `optimizer/vars/3`, `w_moment1_0` of
/// Paddle. `traits`: of the model's format. `has_slots`: without them "optimizer_net.weight" is a module's.
bool is_training_state(std::string_view name, const Traits& traits, bool has_slots);

/// Whether a model has what optimizers keep of weights, by names that nothing else has.
bool has_optimizer_slots(const TensorList& tensors, const Traits& traits);

/// Makes parameters state that are a moving average (EMA) of others: with the same names and shapes below another
/// object.
void find_averages(const TensorList& tensors, std::vector<Counted>& counted);

/// Makes parameters of a PyTorch checkpoint state that trainers keep beside the weights: single numbers (`best_acc1`),
/// optimizers under any name, lists of copies (`shadow_params`).
void find_trainer_state(const TensorList& tensors, std::vector<Counted>& counted);

}  // namespace weightfs::summary
