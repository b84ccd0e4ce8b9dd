#include "formats/bintensors/bintensors.h"

#include <algorithm>

#include "base/text.h"
#include "formats/format.h"

namespace weightfs {
namespace {

using namespace bintensors;

std::string_view name_of(Layout layout) { return layout == Layout::release ? "release" : "legacy"; }

// A file of which one layout has been read.
struct Reading {
  Layout layout;
  Metadata metadata;
};

Result<Reading> read_as(Layout layout, const Container& container, uint64_t length) {
  Metadata metadata = TRY(decode(*container.bytes, flat::kPrefix, length, layout, *container.budget));
  TRY_VOID(flat::place(metadata.header, container.bytes, length, flat::Order::as_listed));
  return Reading{layout, std::move(metadata)};
}

bool has_control_names(const Reading& reading) {
  const auto is_control = [](char c) { return (c >= 0 && c < ' ') || c == 0x7F; };
  const auto& tensors = reading.metadata.header.tensors;
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const Tensor& t) { return std::any_of(t.name.begin(), t.name.end(), is_control); });
}

bool is_strict(const Result<Reading>& reading) { return reading && reading->metadata.padded_as_written; }

// Bytes that cannot be had say nothing about the layout.
bool is_unreadable(const Result<Reading>& reading) { return !reading && reading.error().code == Code::io; }

// The file does not say which layout it has. A file that reads in one to its padding has that one; a file that reads in
// both (which takes tensors without bytes) has the one with the plainer names; a file that only reads up to foreign
// padding has the first in which it does.
Result<Reading> read_as_either(const Container& container, uint64_t length) {
  auto release = read_as(Layout::release, container, length);
  if (is_unreadable(release) || (is_strict(release) && !has_control_names(*release))) return release;
  auto legacy = read_as(Layout::legacy, container, length);
  if (is_unreadable(legacy)) return legacy;
  if (is_strict(legacy) && (!is_strict(release) || !has_control_names(*legacy))) return legacy;
  if (release) return release;
  if (legacy) return legacy;
  return failure(Code::corrupt, str("in the release layout: ", release.error().message,
                                    "; in the legacy layout: ", legacy.error().message));
}

Model model_of(Reading reading, uint64_t length, const Container& container) {
  flat::Header& header = reading.metadata.header;
  if (!reading.metadata.padded_as_written)
    header.warnings.add(reading.metadata.left,
                        " bytes between metadata and tensors that no writer leaves; read in the ",
                        name_of(reading.layout), " layout");
  Map facts;
  facts.append("layout", name_of(reading.layout));
  facts.append("metadata_length", length);
  Model model = flat::model_of(std::move(header), container, "bintensors", std::move(facts));
  model.version = str(name_of(reading.layout), " layout");
  return model;
}

Result<Model> read(const Container& container, std::optional<Layout> layout) {
  const auto model = [&]() -> Result<Model> {
    const uint64_t length = TRY(flat::read_length(*container.bytes));
    auto reading = layout ? read_as(*layout, container, length) : read_as_either(container, length);
    return model_of(TRY(std::move(reading)), length, container);
  };
  return model().map_error([](const Error& e) { return Error{e.code, "bintensors: " + e.message}; });
}

}  // namespace

// There is no magic number: a length that fits, and the byte of an Option behind it.
Match matches_bintensors(const Clues& clues) {
  const auto& [name, head, tail, size] = clues;
  if (head.size() <= flat::kPrefix || size <= flat::kPrefix) return Match::no;
  const uint64_t length = flat::length_in(head);
  const bool fits = length >= 2 && length <= flat::kLongestHeader && length <= size - flat::kPrefix;
  const char option = head[flat::kPrefix];
  return fits && (option == 0 || option == 1) ? Match::maybe : Match::no;
}

Result<Model> read_bintensors(const Container& container) { return read(container, std::nullopt); }
Result<Model> read_bintensors_release(const Container& container) { return read(container, Layout::release); }
Result<Model> read_bintensors_legacy(const Container& container) { return read(container, Layout::legacy); }

}  // namespace weightfs
