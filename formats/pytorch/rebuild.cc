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

constexpr std::array kRows = {
    Row{"torch._utils._rebuild_tensor_v2", Rebuild::tensor_v2},
    Row{"torch._utils._rebuild_tensor", Rebuild::tensor},
    Row{"torch._utils._rebuild_tensor_v3", Rebuild::tensor_v3},
    Row{"torch._utils._rebuild_qtensor", Rebuild::quantized},
    Row{"torch._utils._rebuild_parameter", Rebuild::parameter},
    Row{"torch._utils._rebuild_parameter_with_state", Rebuild::parameter},
    Row{"torch._utils._rebuild_sparse_tensor", Rebuild::sparse},
    Row{"torch._utils._rebuild_sparse_csr_tensor", Rebuild::sparse},
    Row{"torch._utils._rebuild_meta_tensor_no_storage", Rebuild::meta},
    Row{"torch._tensor._rebuild_from_type_v2", Rebuild::with_state},
    Row{"torch._tensor._rebuild_from_type", Rebuild::with_state},
};

const Row* row_of(std::string_view global) {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.name == global; });
  return row == kRows.end() ? nullptr : &*row;
}

// A parameter of a subclass is wrapped twice.
constexpr int kMaxWrappers = 8;

}  // namespace

bool is_rebuild_function(std::string_view global) { return row_of(global) != nullptr; }

std::optional<TensorCall> tensor_call(const Pickle& pickle, Index value) {
  if (pickle.kind(value) != Kind::call) return std::nullopt;
  Index function = pickle.call(value).callable;
  Index arguments = pickle.call(value).arguments;
  for (int i = 0; i < kMaxWrappers; ++i) {
    const Row* const row = row_of(pickle.global(function));
    if (row == nullptr) return std::nullopt;
    if (row->function != Rebuild::parameter && row->function != Rebuild::with_state)
      return TensorCall{row->function, arguments};
    const bool wraps_call = row->function == Rebuild::parameter;
    const std::vector<Index> given = pickle.items(arguments, 3);
    if (given.size() < (wraps_call ? 1 : 3)) return std::nullopt;
    if (wraps_call && pickle.kind(given[0]) != Kind::call) return std::nullopt;
    function = wraps_call ? pickle.call(given[0]).callable : given[0];
    arguments = wraps_call ? pickle.call(given[0]).arguments : given[2];
  }
  return std::nullopt;
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
