// A .npy file: one array.
#include <fmt/ranges.h>

#include "formats/code/list.h"
#include "formats/common/flat.h"
#include "formats/format.h"
#include "formats/grouped.h"
#include "formats/numpy/array.h"
#include "formats/numpy/later.h"
#include "formats/numpy/pickled.h"

namespace weightfs {
namespace numpy {
namespace {

Map facts_of(const Header& header) {
  Map facts;
  facts.append("descr", header.type.text);
  facts.append("fortran_order", header.fortran_order);
  facts.append("header_length", header.data);
  return facts;
}

// A program that calls numpy.load or pickle.load on the open file again reads what follows the array.
Result<void> add_later_names(Model& model, Warnings& warnings, const Header& header, const Container& container) {
  uint64_t end = header.data + header.nbytes;
  if (header.type.has_objects) {
    Cursor cursor(*container.bytes, header.data, container.bytes->size());
    if (!TRY(pickle::imports_of(cursor, *container.budget)).is_complete) return {};
    end = cursor.position();
  }
  const auto names = TRY(later_names(container.bytes, end, *container.budget));
  for (const std::string& name : names.dangerous)
    warnings.add("what follows the array names {}: a program that loads it can run code", name);
  if (!names.dangerous.empty()) {
    const std::string all = fmt::format("{}", fmt::join(names.dangerous, ", "));
    add_pickled_code(model.common, all, kUnpickledLater);
    model.common.set("later_dangerous_globals", all);
  }
  pickle::add_unknown_names(model, names.unknown);
  return {};
}

Result<Model> read(const Container& container) {
  const Slice file = TRY(slice(container.bytes, 0, container.bytes->size()));
  const auto head = [&](size_t most) -> Result<std::string> {
    const uint64_t size = std::min<uint64_t>(most, file.size());
    TRY_VOID(container.budget->charge(Cost::input, size));
    return read_text(file, 0, size);
  };
  std::string first = TRY(head(kUsualHeaderSize));
  const Header header = TRY(read_header(std::move(first), head, *container.budget));
  const uint64_t data = file.size() - header.data;
  if (header.nbytes > data && !header.type.has_objects)
    return failure(Code::corrupt, fmt::format("the file ends {} early: {} of {} bytes of data; interrupted download?",
                                              exact_size(header.nbytes - data), grouped(data), grouped(header.nbytes)));
  Model model;
  model.format = "npy";
  model.version = header.version;
  Warnings warnings;
  if (header.type.has_objects) {
    const pickle::File around{container.bytes, container.blobs, container.budget, container.depth};
    pickle::Contents objects(*container.budget);
    const auto added = add_objects("", container.bytes, header.data, around, objects);
    if (!added && !is_about_the_bytes(added.error())) return tl::unexpected(added.error());
    ArrayAdder adder(model, warnings, *container.budget);
    if (!added) TRY_VOID(adder.add_refused(array_name(container.name), added.error().message));
    pickle::add_to(model, warnings, std::move(objects));
  } else {
    TRY_VOID(ArrayAdder(model, warnings, *container.budget).add(array_name(container.name), header, file));
  }
  if (data > header.nbytes && !header.type.has_objects)
    warnings.add("not shown: {} after the array", counted_bytes(data - header.nbytes));
  TRY_VOID(add_later_names(model, warnings, header, container));
  std::move(warnings).move_to(model);
  flat::add_facts(model.metadata, model.format, facts_of(header));
  model.parts.push_back({container.name, Later<SourcePtr>::of(container.bytes)});
  return model;
}

}  // namespace
}  // namespace numpy

Match matches_npy(const Probe& probe) { return probe.head.starts_with(numpy::kMagic) ? Match::yes : Match::no; }

Result<Model> read_npy(const Container& container) { return numpy::read(container); }

}  // namespace weightfs
