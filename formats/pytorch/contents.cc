#include "formats/pytorch/contents.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "formats/numpy/pickled.h"
#include "formats/pytorch/globals.h"

namespace weightfs::pytorch {
namespace {

void add_unless_empty(Map& facts, const char* key, Map map) {
  map.keep_last_of_each_key();
  if (!map.empty()) facts.append(key, std::move(map));
}

}  // namespace

Result<void> add_globals(const Pickle& pickle, std::string_view subject, Contents& out) {
  uint64_t bytes = 0;
  for (const pickle::Global& global : pickle.globals()) bytes += 3 * global.text.size();
  TRY_VOID(out.charges.charge(Cost::kept, bytes));
  TRY_VOID(out.charges.charge(Cost::value, pickle.globals().size()));
  TRY_VOID(pickle::add_unknown(pickle, out));
  ReportedGlobals reported = report_globals(pickle, subject, out.warnings);
  std::move(reported.all.begin(), reported.all.end(), std::back_inserter(out.globals));
  out.dangerous +=
      fmt::format("{}{}", out.dangerous.empty() || reported.dangerous.empty() ? "" : ", ", reported.dangerous);
  return {};
}

Result<Pickle> read_next(Cursor& cursor, Budget& budget, Contents& out) {
  Pickle pickle = TRY(pickle::read_pickle(cursor, budget));
  const bool is_dangerous = std::ranges::any_of(pickle.globals(), pickle::can_run_code);
  TRY_VOID(is_dangerous ? add_globals(pickle, "", out) : pickle::add_unknown(pickle, out));
  return pickle;
}

Result<void> add_pickle(const Pickle& pickle, const pickle::File& file, const StorageBytes& storages,
                        const std::string& prefix, std::string_view subject, Contents& out) {
  TRY_VOID(add_globals(pickle, subject, out));
  numpy::PickledArrays arrays(pickle, file, out);
  TensorReader tensors(pickle, file, storages, arrays, out);
  const std::array<pickle::Objects*, 2> libraries{&tensors, &arrays};
  return pickle::walk(pickle, libraries, prefix, out);
}

Result<void> add_contents(Model& model, Contents contents, Map facts) {
  add_unless_empty(facts, "quantized", std::move(contents.quantized));
  add_unless_empty(facts, "sparse", std::move(contents.sparse));
  return pickle::add_contents(model, std::move(contents), std::move(facts));
}

}  // namespace weightfs::pytorch
