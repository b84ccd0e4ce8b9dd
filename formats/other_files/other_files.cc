#include "formats/other_files.h"

#include <algorithm>
#include <array>
#include <span>

#include "formats/completeness.h"
#include "formats/other_files/compressed.h"
#include "formats/other_files/texts.h"
#include "formats/other_files/unsupported.h"

namespace weightfs {
namespace {

using namespace std::string_view_literals;
using other_files::other;

constexpr uint64_t kHead = 512;
constexpr uint64_t kMost = 64 * 1024;

struct Magic {
  std::string_view bytes;
  size_t at;
  std::string_view what;
  const char* name;  // for programs
};

constexpr auto kBeforeReaders = std::to_array<Magic>({
    {"# xet version 0"sv, 0, "a Xet pointer, not the file; download it with a client of the Hub", "pointer"},
    {"7z\xBC\xAF\x27\x1C"sv, 0, "a 7-zip archive: not supported; unpack it first", "archive"},
    {"Rar!\x1A\x07"sv, 0, "a RAR archive: not supported; unpack it first", "archive"},
    {"\x89PNG"sv, 0, "a PNG image", "image"},
    {"\xFF\xD8\xFF"sv, 0, "a JPEG image", "image"},
    {"GIF8"sv, 0, "a GIF image", "image"},
    {"WEBP"sv, 8, "a WebP image", "image"},
    {"%PDF"sv, 0, "a PDF document", "image"},
    {"\xCF\xFA\xED\xFE"sv, 0, "a macOS executable", "executable"},
});

// After readers, because a llamafile is an executable, too.
constexpr auto kExecutables = std::to_array<Magic>({
    {"\x7F"
     "ELF"sv,
     0, "an ELF executable", "executable"},
    {"MZ"sv, 0, "a Windows executable", "executable"},
    {"#!"sv, 0, "a script", "executable"},
});

constexpr auto kUnfinished =
    std::to_array<std::string_view>({".part", ".partial", ".incomplete", ".crdownload", ".aria2"});
constexpr auto kCompressed = std::to_array<std::string_view>({".gz", ".xz", ".zst", ".bz2", ".lz4"});

// The name without one of these suffixes.
std::string_view without(std::span<const std::string_view> suffixes, std::string_view name) {
  for (const std::string_view suffix : suffixes)
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  return name;
}

bool is_unfinished_download(std::string_view name) { return without(kUnfinished, name) != name; }

std::optional<Error> find_magic(std::span<const Magic> table, std::string_view bytes) {
  const auto row = std::ranges::find_if(table, [&](const Magic& magic) {
    return magic.at <= bytes.size() && bytes.substr(magic.at).starts_with(magic.bytes);
  });
  if (row == table.end()) return std::nullopt;
  return other(std::string(row->what), row->name);
}

// A zip, which is read as an archive otherwise.
bool is_dlc(std::string_view name) { return name.ends_with(".dlc"); }

// Zips one after another.
bool is_chunks(std::string_view name) { return name.ends_with(".distcp"); }

bool is_zeros(std::string_view bytes) { return !bytes.empty() && bytes.find_first_not_of('\0') == bytes.npos; }

std::string_view name_of(Code code) {
  switch (code) {
    case Code::not_found:
      return "not-found";
    case Code::corrupt:
      return "damaged";
    case Code::unsupported:
      return "unsupported";
    case Code::forbidden:
      return "forbidden";
    case Code::mismatch:
      return "mismatch";
    case Code::resource:
      return "resource";
    case Code::network:
      return "network";
    case Code::unreachable:
      return "unreachable";
    case Code::io:
    case Code::stale:
    case Code::absent:
      return "io";
  }
  return "io";
}

}  // namespace

Result<void> check_may_be_model(const Container& container) {
  const uint64_t size = container.bytes->size();
  if (size == 0) return failure(other("an empty file (0 B)", "empty"));
  if (is_unfinished_download(container.name))
    return failure(other("an unfinished download; use --format to read what it has", "partial"));
  const std::string head = TRY(read_text(*container.bytes, 0, std::min(size, kHead)));
  if (auto found = other_files::git_lfs_pointer(container, head)) return failure(std::move(*found));
  if (auto found = other_files::html(head)) return failure(std::move(*found));
  if (auto found = find_magic(kBeforeReaders, head)) return failure(std::move(*found));
  if (is_dlc(container.name)) return failure(other("a Qualcomm model (.dlc): not supported"));
  if (is_chunks(container.name))
    return failure(
        other("chunks of a checkpoint of torch.distributed.checkpoint; open its directory, or the .metadata"));
  if (is_zeros(head) && is_zeros(TRY(read_text(*container.bytes, 0, std::min(size, kMost)))))
    return failure(other("only zero bytes: a download that was interrupted or preallocated", "zeros"));
  return {};
}

Result<void> check_may_be_shard(const Container& container) {
  return check_may_be_model(container).map_error([](Error error) {
    error.code = code_of_lack(error);
    return error;
  });
}

Result<std::optional<Error>> identify_other_file(const Container& container) {
  const uint64_t size = container.bytes->size();
  const std::string bytes = TRY(read_text(*container.bytes, 0, std::min(size, kMost)));
  if (auto found = other_files::xml(bytes)) return found;
  if (auto found = other_files::json_error(bytes, size, *container.budget)) return found;
  if (auto found = other_files::unsupported(container, bytes)) return found;
  if (auto found = TRY(other_files::compressed(container, bytes))) return found;
  // One with this name is a broken llamafile.
  if (container.name.ends_with(".llamafile")) return std::nullopt;
  return find_magic(kExecutables, bytes);
}

Result<std::optional<Error>> identify_text(const Container& container) {
  const uint64_t size = container.bytes->size();
  const std::string bytes = TRY(read_text(*container.bytes, 0, std::min(size, kMost)));
  if (auto found = other_files::json(bytes, size, *container.budget)) return found;
  return other_files::plain_text(bytes, size);
}

std::optional<Error> identify_other_directory(const std::vector<std::string>& names) {
  const auto has = [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
  if (has("manifest.ocdbt") || has("_CHECKPOINT_METADATA"))
    return other(
        "an Orbax checkpoint: not supported; export it with the library that wrote it, for example as safetensors");
  if (has("coremldata.bin")) return other("compiled Core ML: not supported; use the .mlpackage");
  return std::nullopt;
}

bool is_refused_by_name(std::string_view name) {
  return is_unfinished_download(name) || is_dlc(name) || is_chunks(name);
}

bool is_named_as_bad_file(std::string_view name) {
  return is_named_as_model(without(kCompressed, without(kUnfinished, name)));
}

std::string_view error_name(const Error& error) { return error.name != nullptr ? error.name : name_of(error.code); }

}  // namespace weightfs
