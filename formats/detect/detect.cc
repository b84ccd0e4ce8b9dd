#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "formats/common/compromise.h"
#include "formats/detect/probe.h"
#include "formats/format.h"
#include "formats/other_files.h"
#include "formats/other_files/parts.h"
#include "formats/pickle/hidden.h"

namespace weightfs {

using detect::ContainerProbe;

namespace {

bool is_named_as(const Format& format, std::string_view name) { return !format.suffix_of(name).empty(); }

// An error with the container's name in front, once.
Error about(const Container& container, const Error& error) {
  const std::string name = printable(container.name);
  return error.message.starts_with(name + ": ") ? error
                                                : with_message(error, fmt::format("{}: {}", name, error.message));
}

}  // namespace

Result<SourcePtr> open_beside(const Container& container, std::string_view name) {
  SourcePtr file = TRY(container.folder->open(name));
  if (container.folder->is_storage()) container.budget->add_file(*file);
  return file;
}

Result<SourcePtr> open_below(const Container& container, std::string_view path) {
  SourcePtr file = TRY(container.folder->open_below(path, container.name));
  if (container.folder->is_storage()) container.budget->add_file(*file);
  return file;
}

bool is_fatal(const Container& container, const Error& error) {
  return may_pass(error) || (container.folder != nullptr && container.folder->needs_every_file());
}

namespace {

// The cost of a nested container besides its contents: files, trees, a library's memory.
constexpr uint64_t kNestedBytes = 16 * 1024;
constexpr uint64_t kNestedSteps = 300;

constexpr const char* kUnknown = "not a model that weightfs knows";

// The error for a file that no format accepts; `of_named_format` is that of the format with such a file name.
Error unidentified(const Container& container, const std::optional<Error>& of_named_format, const std::string& tried) {
  auto other = identify_other_file(container);
  if (other && !*other && other_files::may_be_other_part(container)) return other_files::other_part();
  if (other && !*other && !of_named_format) other = identify_text(container);
  if (!other) return other.error();
  // Compressed data that cannot be decoded have an unknown content. By the name they are of this format, and cut.
  const bool is_compressed = *other && (*other)->name != nullptr && std::string_view((*other)->name) == "compressed";
  const bool is_cut = is_compressed && of_named_format && of_named_format->code == Code::corrupt;
  const Error what = *other && !is_cut ? **other : of_named_format.value_or(Error{Code::unsupported, kUnknown});
  const std::string size = human_size(container.bytes->size());
  if (container.lists_tried) return with_message(what, fmt::format("{} ({}); tried {}", what.message, size, tried));
  return what.message == kUnknown ? with_message(what, fmt::format("{} ({})", kUnknown, size)) : what;
}

// Reads a container that is of this format by its first bytes. One that was cut may be the first part of a file.
Result<Model> read_sure(const Format& format, const Container& container) {
  auto model = read_as(format, container);
  const bool is_cut = model ? model->lacks->short_by > 0 : model.error().code == Code::corrupt;
  if (is_cut && other_files::may_be_first_part(container)) return tl::unexpected(other_files::first_part());
  return model;
}

// Only bytes that break the rules of this format may be another one. A disk, a server, a missing part or a refusal
// fails in every format, and so does a file of which the reader knows what else it is.
bool may_be_another_format(const Error& error) {
  return (error.code == Code::corrupt || error.code == Code::unsupported) && error.name == nullptr;
}

// Reads a file that begins behind any number of other bytes: HDF5 behind a user block. If it is none, the file is what
// `otherwise` says.
Result<Model> behind_other_bytes(const Container& container, const Error& otherwise) {
  if (is_refused_by_name(container.name)) return tl::unexpected(otherwise);
  for (const Format& format : formats())
    if (format.find_start != nullptr && TRY(format.find_start(*container.bytes, kHeadSize, container.bytes->size())))
      return read_as(format, container);
  return tl::unexpected(otherwise);
}

// `head`: gets the first bytes, if they were read.
Result<Model> read_any(const Container& container, const Format* forced, std::string& head) {
  compromise_for_test();
  const auto with_name = [&](const Error& error) { return about(container, error); };
  const auto named = [&](const Error& error) { return tl::unexpected(with_name(error)); };
  if (container.depth > 0) {
    if (auto paid = container.budget->charge(Cost::step, kNestedSteps); !paid) return named(paid.error());
    if (auto paid = container.budget->charge(Cost::kept, kNestedBytes); !paid) return named(paid.error());
  }
  if (forced != nullptr) return read_as(*forced, container).map_error(with_name);
  const auto probe = ContainerProbe::at_both_ends(container);
  if (!probe) return named(probe.error());
  head = probe->head();
  if (const Format* sure = is_refused_by_name(container.name) ? nullptr : probe->find_sure())
    return read_sure(*sure, container).map_error(with_name);
  if (const auto may_be = check_may_be_model(container); !may_be)
    return behind_other_bytes(container, may_be.error()).map_error(with_name);
  std::string tried;
  std::optional<Error> of_named_format;
  for (const Format& format : formats()) {
    const Match match = probe->match(format);
    // Formats that are detected by a directory's file names are not tried on other files.
    if (match == Match::no && format.suffixes.empty()) continue;
    auto model = match == Match::no ? failure(Code::unsupported, "") : read_as(format, container);
    if (model) return model;
    if (!may_be_another_format(model.error())) return named(model.error());
    if (match == Match::maybe && is_named_as(format, container.name)) of_named_format = model.error();
    tried += fmt::format("{}{}{}", tried.empty() ? "" : ", ", format.name,
                         match == Match::no ? "" : " (" + model.error().message + ")");
  }
  return behind_other_bytes(container, unidentified(container, of_named_format, tried)).map_error(with_name);
}

// Adds what pickle.load would import from a file of another format, which ignores the rest of it: a tar whose first
// member has a pickle as its name.
Result<void> add_hidden_pickle(Model& model, const Container& container, std::string head) {
  const bool is_pickle = traits_of(model.format).is_pickle || container.name == "data.pkl";
  if (head.empty() || is_pickle) return {};
  const auto whole = [&]() -> Result<SourcePtr> { return container.bytes; };
  const auto names = TRY(pickle::hidden_names(std::move(head), container.bytes->size(), whole, *container.budget));
  pickle::add_hidden(model, names);
  return {};
}

}  // namespace

Result<Model> read_model(const Container& container, const Format* forced) {
  std::string head;
  auto model = read_any(container, forced, head);
  if (!model) return model;
  TRY_VOID(add_hidden_pickle(*model, container, std::move(head)));
  if (!container.file.empty() && !model->chosen.is_set())
    return failure(Code::unsupported, fmt::format("{}: not a directory with a file {}", printable(container.name),
                                                  quoted(container.file)));
  model->budget = container.budget;
  // A server that lists nothing is not asked for a dozen small files that it may have.
  if (model->beside == nullptr && container.folder != nullptr && container.folder->lists_files())
    model->beside = container.folder;
  return model;
}

Result<bool> is_model(const Container& container) {
  if (is_refused_by_name(container.name)) return false;
  const auto probe = ContainerProbe::at_both_ends(container);
  if (!probe && probe.error().code == Code::io) return tl::unexpected(probe.error());
  if (!probe) return false;
  if (probe->find_sure() != nullptr) return true;
  return std::ranges::any_of(formats(), [&](const Format& format) {
    if (probe->match(format) != Match::maybe) return false;
    return format.detect_by == DetectBy::name ? is_named_as(format, container.name)
                                              : format.read(container).has_value();
  });
}

bool is_named_as_model(std::string_view name) {
  // Only one JSON file in a thousand is an index of shards, and most XML files are something else, too.
  if (name.ends_with(".json") || name.ends_with(".xml")) return false;
  return std::ranges::any_of(formats(), [&](const Format& format) { return is_named_as(format, name); });
}

Result<bool> could_be_model(const Container& member, Only only) {
  const auto probe = ContainerProbe::at(member);
  if (!probe && probe.error().code == Code::io) return tl::unexpected(probe.error());
  const Match unseen = probe || is_about_the_bytes(probe.error()) ? Match::no : Match::maybe;
  return std::ranges::any_of(formats(), [&](const Format& format) {
    if (only != nullptr && !(format.traits.*only)) return false;
    const Match match = probe ? probe->match(format) : unseen;
    return match == Match::yes || (match == Match::maybe && is_named_as(format, member.name));
  });
}

}  // namespace weightfs
