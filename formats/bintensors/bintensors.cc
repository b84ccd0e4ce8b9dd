#include "formats/bintensors/bintensors.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "formats/format.h"

namespace weightfs::bintensors {
namespace {

std::string_view name_of(Layout layout) { return layout == Layout::release ? "release" : "legacy"; }

// The result of reading a file in one layout.
struct LayoutAttempt {
  Layout layout;
  Metadata metadata;
};

Result<LayoutAttempt> read_as(Layout layout, const Container& container, uint64_t length) {
  Metadata metadata = TRY(decode(*container.bytes, flat::kPrefix, length, layout, *container.budget));
  TRY_VOID(flat::place(metadata.header, container.bytes, length, flat::Order::as_listed, flat::Ends::with_last_tensor));
  return LayoutAttempt{layout, std::move(metadata)};
}

bool has_control_names(const LayoutAttempt& reading) {
  const auto is_control = [](char c) { return (c >= 0 && c < ' ') || c == 0x7F; };
  const auto& tensors = reading.metadata.header.tensors;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (const std::string_view name = tensors.name(i); std::any_of(name.begin(), name.end(), is_control)) return true;
  return false;
}

bool is_strict(const Result<LayoutAttempt>& reading) { return reading && reading->metadata.padded_as_written; }

// An I/O error does not distinguish the layouts.
bool is_unreadable(const Result<LayoutAttempt>& reading) { return !reading && reading.error().code == Code::io; }

// The file does not record its layout. It has the layout in which it parses up to its padding; if both fit (which needs
// tensors without bytes), the one with the plainer names; if it parses only up to foreign padding, the first such one.
Result<LayoutAttempt> read_as_either(const Container& container, uint64_t length) {
  auto release = read_as(Layout::release, container, length);
  if (is_unreadable(release) || (is_strict(release) && !has_control_names(*release))) return release;
  auto legacy = read_as(Layout::legacy, container, length);
  if (is_unreadable(legacy)) return legacy;
  if (is_strict(legacy) && (!is_strict(release) || !has_control_names(*legacy))) return legacy;
  if (release) return release;
  if (legacy) return legacy;
  return failure(Code::corrupt, fmt::format("in the release layout: {}; in the legacy layout: {}",
                                            release.error().message, legacy.error().message));
}

Model model_of(LayoutAttempt reading, uint64_t length, const Container& container) {
  flat::Header& header = reading.metadata.header;
  if (!reading.metadata.padded_as_written)
    header.warnings.add("{} unexpected bytes between metadata and tensors; read in the {} layout",
                        reading.metadata.left, name_of(reading.layout));
  Map facts;
  facts.append("layout", name_of(reading.layout));
  facts.append("metadata_length", length);
  Model model = flat::model_of(std::move(header), container, "bintensors", std::move(facts));
  model.version = fmt::format("{} layout", name_of(reading.layout));
  return model;
}

Result<Model> read(const Container& container, std::optional<Layout> layout) {
  const uint64_t length = TRY(flat::read_length(*container.bytes));
  auto reading = layout ? read_as(*layout, container, length) : read_as_either(container, length);
  return model_of(TRY(std::move(reading)), length, container);
}

}  // namespace
}  // namespace weightfs::bintensors

namespace weightfs {

// There is no magic number: the length must fit, and the byte of an Option must follow it.
Match matches_bintensors(const Probe& probe) {
  const auto& [name, head, tail, size] = probe;
  if (head.size() <= flat::kPrefix || size <= flat::kPrefix) return Match::no;
  const uint64_t length = flat::length_in(head);
  const bool is_named = name.ends_with(".bt") || name.ends_with(".bintensors");  // then it may be cut
  const bool fits = length >= 2 && length <= flat::kMaxHeaderSize && (is_named || length <= size - flat::kPrefix);
  const char option = head[flat::kPrefix];
  return fits && (option == 0 || option == 1) ? Match::maybe : Match::no;
}

Result<Model> read_bintensors(const Container& container) { return bintensors::read(container, std::nullopt); }
Result<Model> read_bintensors_release(const Container& container) {
  return bintensors::read(container, bintensors::Layout::release);
}
Result<Model> read_bintensors_legacy(const Container& container) {
  return bintensors::read(container, bintensors::Layout::legacy);
}

}  // namespace weightfs
