#include "formats/other_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/text.h"
#include "base/values/json.h"

namespace weightfs {
namespace {

using namespace std::string_view_literals;

constexpr uint64_t kHead = 512;
constexpr uint64_t kMost = 64 * 1024;
constexpr size_t kMaxShown = 60;

struct Magic {
  std::string_view bytes;
  size_t at;
  std::string_view what;
};

// Files that are no models.
constexpr auto kOtherFiles = std::to_array<Magic>({
    {"# xet version 0"sv, 0, "a Xet pointer, not the file; download it with a client of the Hub"},
    {"7z\xBC\xAF\x27\x1C"sv, 0, "a 7-zip archive: not supported; unpack it first"},
    {"Rar!\x1A\x07"sv, 0, "a RAR archive: not supported; unpack it first"},
    {"\x89PNG"sv, 0, "a PNG image"},
    {"\xFF\xD8\xFF"sv, 0, "a JPEG image"},
    {"GIF8"sv, 0, "a GIF image"},
    {"WEBP"sv, 8, "a WebP image"},
    {"%PDF"sv, 0, "a PDF document"},
    {"\xCF\xFA\xED\xFE"sv, 0, "a macOS executable"},
    {"PAR1"sv, 0, "a Parquet table, not a model"},
    {"ARROW1"sv, 0, "an Arrow table, not a model"},
    {"FEA1"sv, 0, "a Feather table, not a model"},
    {"Obj\x01"sv, 0, "an Avro file, not a model"},
    {"SQLite format 3\0"sv, 0, "an SQLite database, not a model"},
});

// Formats of models that are known and not supported. Those with a short magic number are tried last.
constexpr auto kUnsupportedModels = std::to_array<Magic>({
    {"\x57\xFB\x80\x8B\x24\x75\x47\xDB"sv, std::string_view::npos, "the index of a TensorFlow checkpoint"},
    {"{\"learner\""sv, 0, "an XGBoost model"},
    {"{L\0\0\0\0\0\0\0\x07learner"sv, 0, "an XGBoost model"},
    {"binf"sv, 0, "an XGBoost model"},
    {"tree\nversion="sv, 0, "a LightGBM model"},
    {"CBM1"sv, 0, "a CatBoost model"},
    {"ftrt"sv, 0, "a TensorRT engine"},
    {"ptrt"sv, 0, "a TensorRT engine"},
    {"MSL1"sv, 4, "a MindSpore Lite model"},
    {"MSL2"sv, 4, "a MindSpore Lite model"},
    {"ORTM"sv, 4, "an ONNX Runtime model (.ort)"},
    {"PTMF"sv, 4, "a PyTorch Mobile model"},
    {"IMOD"sv, 0, "an Ascend model (.om)"},
    {"RKNN"sv, 0, "an RKNN model"},
    {"7767517"sv, 0, "the structure of an ncnn model (.param)"},
    {"\xDD\x85\x76\0"sv, 0, "the structure of an ncnn model (.param.bin)"},
    {"\x01HEF"sv, 0, "a Hailo model (.hef)"},
    {"\x08\x01\x12"sv, 0, "a TensorFlow SavedModel"},
});

struct Compression {
  std::string_view magic;
  std::string_view name;
};
constexpr auto kCompressions = std::to_array<Compression>({{"\x1F\x8B"sv, "gzip"},
                                                           {"\x28\xB5\x2F\xFD"sv, "zstd"},
                                                           {"\xFD"
                                                            "7zXZ\0"sv,
                                                            "xz"},
                                                           {"BZh"sv, "bzip2"},
                                                           {"\x04\x22\x4D\x18"sv, "lz4"}});

constexpr auto kPartialNames =
    std::to_array<std::string_view>({".part", ".partial", ".incomplete", ".crdownload", ".aria2"});

Error other(std::string what) { return {Code::unsupported, std::move(what)}; }

bool has(std::string_view bytes, const Magic& magic) {
  return magic.at == bytes.npos ? bytes.ends_with(magic.bytes)
                                : magic.at <= bytes.size() && bytes.substr(magic.at).starts_with(magic.bytes);
}

std::string_view without_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text;
}

// The first line, cut.
std::string first_line(std::string_view text) {
  text = without_blanks(text);
  text = text.substr(0, text.find_first_of("\r\n"));
  return text.size() <= kMaxShown ? quoted(text) : quoted(text.substr(0, kMaxShown)) + "…";
}

bool begins_ignoring_case(std::string_view text, std::string_view with) {
  return text.size() >= with.size() && std::equal(with.begin(), with.end(), text.begin(), [](char a, char b) {
           return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
         });
}

// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
std::optional<Error> git_lfs_pointer(std::string_view text, uint64_t size) {
  constexpr uint64_t kMaxPointer = 1024;
  if (!text.starts_with("version https://git-lfs.github.com/spec/v1\n") || size > kMaxPointer) return std::nullopt;
  const size_t at = text.find("\nsize ");
  uint64_t bytes = 0;
  if (at == text.npos) return other("a Git LFS pointer; run git lfs pull");
  std::from_chars(text.data() + at + 6, text.data() + text.size(), bytes);
  return other(fmt::format("a Git LFS pointer to a file of {} ({} bytes); run git lfs pull", human_size(bytes), bytes));
}

std::optional<Error> html(std::string_view text) {
  constexpr size_t kMaxTitle = 80;
  const std::string_view begin = without_blanks(text);
  const auto is = [&](std::string_view tag) { return begins_ignoring_case(begin, tag); };
  if (!is("<!doctype html") && !is("<html") && !is("<head")) return std::nullopt;
  std::string title;
  if (const size_t at = text.find("<title>"); at != text.npos)
    if (const size_t end = text.find("</title>", at); end != text.npos && end - at - 7 <= kMaxTitle)
      title = fmt::format(" ({})", quoted(text.substr(at + 7, end - at - 7)));
  return other(fmt::format("an HTML page{}, not a model; the server probably sent a login or error page", title));
}

std::optional<Error> xml(std::string_view text) {
  const std::string_view begin = without_blanks(text);
  if (begin.starts_with("<net ")) return other("an OpenVINO model (.xml): not supported");
  if (!begin.starts_with("<?xml") && !begin.starts_with("<Error>")) return std::nullopt;
  const size_t at = text.find("<Code>");
  const size_t end = at == text.npos ? at : text.find("</Code>", at);
  if (text.find("<net ") != text.npos) return other("an OpenVINO model (.xml): not supported");
  if (end == text.npos) return other("an XML document, not a model");
  return other(fmt::format("an XML document with the error {}", printable(text.substr(at + 6, end - at - 6))));
}

bool is_zeros(std::string_view bytes) { return !bytes.empty() && bytes.find_first_not_of('\0') == bytes.npos; }

struct JsonDocument {
  std::optional<Error> error;  // that it reports
};

// Nothing if the file is no JSON document.
std::optional<JsonDocument> json(std::string_view text, uint64_t size, Budget& budget) {
  const std::string_view begin = without_blanks(text);
  if (size > text.size() || (!begin.starts_with('{') && !begin.starts_with('['))) return std::nullopt;
  const auto value = parse_json(*in_memory(std::string(text)), 0, text.size(), budget);
  if (!value) return std::nullopt;
  if (const auto* const map = std::get_if<Map>(&*value))
    for (const char* const key : {"error", "message", "errors", "detail"})
      if (const Value* const found = map->find(key)) {
        const auto* const error = std::get_if<std::string>(found);
        return JsonDocument{
            other(fmt::format("a JSON document with the error {}",
                              error != nullptr ? first_line(*error) : first_line(to_json_line(*found))))};
      }
  return JsonDocument{};
}

std::optional<Error> plain_text(std::string_view text, uint64_t size) {
  constexpr uint64_t kShort = 1024;
  const bool is_text = !text.empty() && is_utf8(text) && std::ranges::none_of(text, [](char c) {
    return (c >= 0 && c < ' ' && c != '\n' && c != '\r' && c != '\t') || c == '\x7F';
  });
  if (!is_text) return std::nullopt;
  if (text.find("/annex/objects/") != text.npos) return other("a git-annex pointer; run git annex get");
  return other(size <= kShort ? fmt::format("text: {}", first_line(text)) : "a text file, not a model");
}

std::optional<Error> compressed(std::string_view bytes) {
  for (const auto& [magic, name] : kCompressions)
    if (bytes.starts_with(magic)) return other(fmt::format("compressed by {}; unpack it first", name));
  return std::nullopt;
}

}  // namespace

Result<void> check_may_be_model(const Container& container) {
  const uint64_t size = container.bytes->size();
  if (size == 0) return failure(other("an empty file (0 B)"));
  const std::string head = TRY(read_text(*container.bytes, 0, std::min(size, kHead)));
  if (auto found = git_lfs_pointer(head, size)) return failure(std::move(*found));
  if (auto found = html(head)) return failure(std::move(*found));
  for (const Magic& magic : kOtherFiles)
    if (has(head, magic)) return failure(other(std::string(magic.what)));
  if (is_zeros(head) && is_zeros(TRY(read_text(*container.bytes, 0, std::min(size, kMost)))))
    return failure(Code::corrupt, "only zero bytes: a download that was interrupted or preallocated");
  return {};
}

Result<std::optional<Error>> identify_other_file(const Container& container) {
  const uint64_t size = container.bytes->size();
  const std::string bytes = TRY(read_text(*container.bytes, 0, std::min(size, kMost)));
  const std::string tail = size <= kHead ? bytes : TRY(read_text(*container.bytes, size - kHead, kHead));
  if (auto found = xml(bytes)) return found;
  if (auto found = json(bytes, size, *container.budget); found && found->error) return found->error;
  for (const Magic& magic : kUnsupportedModels)
    if (has(magic.at == std::string_view::npos ? std::string_view(tail) : std::string_view(bytes), magic))
      return other(fmt::format("{}: not supported", magic.what));
  if (auto found = compressed(bytes)) return found;
  for (const std::string_view suffix : kPartialNames)
    if (container.name.ends_with(suffix)) return other("an unfinished download");
  if (bytes.starts_with("PK\3\4")) return Error{Code::corrupt, "a zip without its directory: the file was cut"};
  if (bytes.starts_with("\x7F"
                        "ELF"))
    return other("an ELF executable");
  if (bytes.starts_with("MZ\x90")) return other("a Windows executable");
  if (bytes.starts_with("#!")) return other("a script");
  return std::nullopt;
}

Result<std::optional<Error>> identify_text(const Container& container) {
  const uint64_t size = container.bytes->size();
  const std::string bytes = TRY(read_text(*container.bytes, 0, std::min(size, kMost)));
  if (json(bytes, size, *container.budget)) return other("a JSON document, not a model");
  return plain_text(bytes, size);
}

}  // namespace weightfs
