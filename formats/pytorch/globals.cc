#include "formats/pytorch/globals.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "formats/pickle/contents.h"
#include "formats/pytorch/rebuild.h"
#include "formats/pytorch/torch_types.h"

namespace weightfs::pytorch {
namespace {

// What torch/_weights_only_unpickler.py permits, besides dtypes, storages and rebuild functions; and the types of plain
// values.
constexpr std::array<std::string_view, 30> kPermitted = {
    "collections.OrderedDict",
    "collections.Counter",
    "collections.defaultdict",
    "builtins.set",
    "builtins.frozenset",
    "builtins.dict",
    "builtins.list",
    "builtins.tuple",
    "builtins.int",
    "builtins.long",
    "builtins.float",
    "builtins.str",
    "builtins.bytes",
    "builtins.bytearray",
    "builtins.complex",
    "_codecs.encode",
    "torch.Size",
    "torch.Tensor",
    "torch.device",
    "torch._tensor.Tensor",
    "torch.nn.parameter.Parameter",
    "torch.nn.parameter.Buffer",
    "torch.serialization._get_layout",
    "torch.storage.TypedStorage",
    "torch.storage._TypedStorage",
    "torch.per_tensor_affine",
    "torch.per_channel_affine",
    "torch.per_tensor_symmetric",
    "torch.per_channel_symmetric",
    "torch.per_channel_affine_float_qparams",
};

}  // namespace

bool is_permitted(std::string_view global) {
  return std::find(kPermitted.begin(), kPermitted.end(), pickle::in_python_3(global)) != kPermitted.end() ||
         is_rebuild_function(global) || type_of_dtype(global) != nullptr || type_of_storage(global) != nullptr ||
         is_untyped_storage(global) || global.starts_with("__torch__.");
}

ReportedGlobals report_globals(const pickle::Pickle& pickle, std::string_view subject, Warnings& warnings) {
  constexpr size_t kShown = 10;
  ReportedGlobals reported;
  std::vector<std::string> dangerous, others;
  for (const pickle::Global& global : pickle.globals()) {
    if (is_permitted(global.text)) continue;
    reported.all.emplace_back(global.text);
    const bool is_dangerous = pickle::standing_in(pickle, global) == pickle::Standing::dangerous;
    (is_dangerous ? dangerous : others).push_back(printable(global.text));
  }
  for (const std::string& name : dangerous)
    warnings.add("{}names {}: torch.load without weights_only can run code from this file; weightfs ran nothing",
                 subject, name);
  reported.dangerous = fmt::format("{}", fmt::join(dangerous, ", "));
  const size_t left_out = others.size() - std::min(others.size(), kShown);
  others.resize(others.size() - left_out);
  if (!others.empty())
    warnings.add("{}names globals that torch.load(weights_only=True) refuses: {}{}", subject, fmt::join(others, ", "),
                 left_out == 0 ? "" : fmt::format(" and {} more", left_out));
  return reported;
}

}  // namespace weightfs::pytorch
