#include "formats/pytorch/rebuild.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "formats/tensor_list.h"

namespace weightfs::pytorch {
namespace {

struct Row {
  std::string_view name;
  Rebuild function;
};

// torch/_utils.py; the functions for other devices than the processor of torch and torch_npu.
constexpr std::array kRows = {
    Row{"torch._utils._rebuild_tensor_v2", Rebuild::tensor_v2},
    Row{"torch._utils._rebuild_tensor", Rebuild::tensor},
    Row{"torch._utils._rebuild_tensor_v3", Rebuild::tensor_v3},
    Row{"torch._utils._rebuild_qtensor", Rebuild::quantized},
    Row{"torch._utils._rebuild_parameter", Rebuild::parameter},
    Row{"torch._utils._rebuild_parameter_with_state", Rebuild::parameter},
    Row{"torch._utils._rebuild_device_tensor_from_cpu_tensor", Rebuild::parameter},
    Row{"torch._utils._rebuild_device_tensor_from_numpy", Rebuild::array},
    Row{"torch._utils._rebuild_xla_tensor", Rebuild::array},
    Row{"torch._utils._rebuild_mlc_tensor", Rebuild::array},
    Row{"torch_npu.utils.storage._rebuild_npu_tensor", Rebuild::tensor_v2},
    Row{"torch._utils._rebuild_sparse_tensor", Rebuild::sparse},
    Row{"torch._utils._rebuild_sparse_csr_tensor", Rebuild::sparse},
    Row{"torch._utils._rebuild_nested_tensor", Rebuild::nested},
    Row{"torch._utils._rebuild_meta_tensor_no_storage", Rebuild::meta},
    Row{"torch._utils._rebuild_wrapper_subclass", Rebuild::wrapper},
    Row{"torch.nested._internal.nested_tensor._rebuild_njt", Rebuild::jagged},
    Row{"torch._tensor._rebuild_from_type_v2", Rebuild::with_state},
    Row{"torch._tensor._rebuild_from_type", Rebuild::with_state},
};

const Row* row_of(std::string_view global) {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.name == global; });
  return row == kRows.end() ? nullptr : &*row;
}

// A parameter of a subclass is wrapped twice.
constexpr int kMaxWrappers = 8;

// What is called, with which arguments and attributes.
struct Called {
  const Row* row;
  Index arguments;
  Index state;
};

std::optional<Called> called(const Pickle& pickle, Index value) {
  if (pickle.kind(value) != Kind::call) return std::nullopt;
  const pickle::Call call = pickle.call(value);
  const Row* row = row_of(pickle.global(call.callable));
  Index arguments = call.arguments, state = pickle::kNoValue;
  for (int i = 0; row != nullptr && row->function == Rebuild::with_state; ++i) {
    const std::vector<Index> given = pickle.items(arguments, 4);
    if (given.size() < 3 || i == kMaxWrappers) return std::nullopt;
    row = row_of(pickle.global(given[0]));
    arguments = given[2];
    if (given.size() > 3) state = given[3];
  }
  return row == nullptr ? std::nullopt : std::optional(Called{row, arguments, state});
}

constexpr size_t kMostOfState = 64;  // keys and values

}  // namespace

bool is_rebuild_function(std::string_view global) { return row_of(global) != nullptr; }

std::optional<TensorCall> tensor_call(const Pickle& pickle, Index value) {
  for (int i = 0; i < kMaxWrappers; ++i) {
    const auto call = called(pickle, value);
    if (!call || call->row->function == Rebuild::jagged) return std::nullopt;
    const bool is_wrapper = call->row->function == Rebuild::wrapper;
    if (!is_wrapper && call->row->function != Rebuild::parameter)
      return TensorCall{call->row->function, call->arguments};
    const std::vector<Index> given = pickle.items(call->arguments, 1);
    value = is_wrapper      ? pickle.value_of(call->state, "_local_tensor", kMostOfState)
            : given.empty() ? pickle::kNoValue
                            : given[0];
  }
  return std::nullopt;
}

Index parts_of(const Pickle& pickle, Index value) {
  for (int i = 0; i < kMaxWrappers; ++i) {
    const auto call = called(pickle, value);
    if (!call) return pickle::kNoValue;
    if (call->row->function == Rebuild::wrapper) return call->state;
    const std::vector<Index> given = pickle.items(call->arguments, 1);
    if (given.empty()) return pickle::kNoValue;
    if (call->row->function == Rebuild::jagged) return given[0];
    if (call->row->function != Rebuild::parameter) return pickle::kNoValue;
    value = given[0];
  }
  return pickle::kNoValue;
}

Result<std::vector<uint64_t>> sizes_in(const Pickle& pickle, Index value, std::string_view what) {
  if (pickle.kind(value) == Kind::call) {
    const std::vector<Index> arguments = pickle.items(pickle.call(value).arguments, 1);
    if (!arguments.empty()) value = arguments[0];
  }
  if (pickle.kind(value) != Kind::tuple && pickle.kind(value) != Kind::list)
    return failure(Code::corrupt, fmt::format("its {} is not a tuple", what));
  if (pickle.item_count(value) > kMaxDimensions)
    return failure(Code::unsupported,
                   fmt::format("{} dimensions, at most {} are read", pickle.item_count(value), kMaxDimensions));
  std::vector<uint64_t> sizes;
  for (const Index item : pickle.items(value)) {
    const auto size = pickle.integer(item);
    if (!size || *size < 0) return failure(Code::corrupt, fmt::format("its {} has a value below 0 or no number", what));
    sizes.push_back(static_cast<uint64_t>(*size));
  }
  return sizes;
}

}  // namespace weightfs::pytorch
