#include "formats/format.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace weightfs {
namespace {

Match never(std::string_view, uint64_t) { return Match::no; }

// Formats with a magic number first: the others may see themselves in anything.
constexpr std::array kFormats = {
    Format{"gguf", matches_gguf, read_gguf},
    Format{"rten", matches_rten, read_rten},
    Format{"safetensors", matches_safetensors, read_safetensors},
    Format{"safetensors-index", matches_safetensors_index, read_safetensors_index},
    Format{"bintensors", matches_bintensors, read_bintensors},
    Format{"bintensors-release", never, read_bintensors_release},
    Format{"bintensors-legacy", never, read_bintensors_legacy},
};

Result<std::string> head_of(const Source& bytes) {
  return read_text(bytes, 0, std::min<uint64_t>(bytes.size(), kHeadSize));
}

// An error is about a container; its name comes first, once.
Error about(const Container& container, const Error& error) {
  return error.message.starts_with(container.name + ": ") ? error
                                                          : Error{error.code, str(container.name, ": ", error.message)};
}

}  // namespace

std::span<const Format> formats() { return kFormats; }

const Format* format_named(std::string_view name) {
  const auto row = std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& f) { return f.name == name; });
  return row == kFormats.end() ? nullptr : row;
}

Result<Model> read_model(const Container& container, const Format* forced) {
  const auto named = [&](const Error& error) { return tl::unexpected(about(container, error)); };
  if (forced != nullptr) return forced->read(container).map_error([&](const Error& e) { return about(container, e); });
  const auto head = head_of(*container.bytes);
  if (!head) return named(head.error());
  const uint64_t size = container.bytes->size();
  for (const Format& format : kFormats)
    if (format.matches(*head, size) == Match::yes)
      return format.read(container).map_error([&](const Error& e) { return about(container, e); });
  std::string tried;
  for (const Format& format : kFormats) {
    if (format.matches == never) continue;
    const Match match = format.matches(*head, size);
    auto model = match == Match::no ? failure(Code::unsupported, "") : format.read(container);
    if (model) return model;
    // An unreadable file is unreadable whatever it is.
    if (model.error().code == Code::io) return named(model.error());
    tried += str(tried.empty() ? "" : ", ", format.name, match == Match::no ? "" : " (" + model.error().message + ")");
  }
  return named(Error{Code::unsupported, str("not a model I know (", human_size(size), "); tried ", tried)});
}

bool is_model(const Container& container) {
  const auto head = head_of(*container.bytes);
  if (!head) return false;
  const auto matches = [&](Match wanted) {
    return [&, wanted](const Format& format) {
      return format.matches(*head, container.bytes->size()) == wanted &&
             (wanted == Match::yes || format.read(container).has_value());
    };
  };
  return std::any_of(kFormats.begin(), kFormats.end(), matches(Match::yes)) ||
         std::any_of(kFormats.begin(), kFormats.end(), matches(Match::maybe));
}

}  // namespace weightfs
