// The table of formats.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "formats/archive/archive_formats.h"
#include "formats/flat_formats.h"

namespace weightfs {
namespace {

template <size_t row>
Result<Model> read_archive_row(const Container& container) {
  return archive::read_archive_format(archive::kArchiveFormats[row], container);
}

// The formats in archives as rows of formats(): only an unpacked one is detected by its row, a packed one by read_zip
// or read_tar.
template <size_t... rows>
constexpr auto archive_rows(std::index_sequence<rows...>) {
  return std::array{Format{.name = archive::kArchiveFormats[rows].name,
                           .title = archive::kArchiveFormats[rows].title,
                           .matches = archive::kArchiveFormats[rows].matches_entry,
                           .read = read_archive_row<rows>,
                           .subject = "",
                           .traits = archive::kArchiveFormats[rows].traits,
                           .directory = archive::kArchiveFormats[rows].unpacked}...};
}

template <size_t... sizes>
constexpr auto joined(const std::array<Format, sizes>&... arrays) {
  std::array<Format, (sizes + ...)> all{};
  auto end = all.begin();
  ((end = std::copy(arrays.begin(), arrays.end(), end)), ...);
  return all;
}

constexpr auto kFormats =
    joined(kFirstFormats, archive_rows(std::make_index_sequence<archive::kArchiveFormats.size()>()), kLastFormats);

}  // namespace

std::string_view Format::suffix_of(std::string_view file_name) const {
  for (std::string_view left = suffixes; !left.empty();) {
    const std::string_view suffix = left.substr(0, left.find(' '));
    if (file_name.ends_with(suffix)) return suffix;
    left.remove_prefix(std::min(suffix.size() + 1, left.size()));
  }
  return "";
}

std::span<const Format> formats() { return kFormats; }

const Format* format_named(std::string_view name) {
  const auto row = std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& f) { return f.name == name; });
  return row == kFormats.end() ? nullptr : row;
}

const Traits& traits_of(std::string_view format) {
  static constexpr Traits kNone;
  const Format* const row = format_named(format);
  return row == nullptr ? kNone : row->traits;
}

Result<Model> read_as(const Format& format, const Container& container) {
  return format.read(container).map_error([&](const Error& error) {
    const std::string subject = fmt::format("{}: ", format.subject);
    const bool is_named = format.subject.empty() || error.message.starts_with(subject);
    return is_named ? error : with_message(error, subject + error.message);
  });
}

Result<Model> read_as(std::string_view format, const Container& container) {
  return read_as(*format_named(format), container);
}

}  // namespace weightfs
