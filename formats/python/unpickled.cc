// Files that are no models by their names and first bytes, as programs read them that unpickle any file.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "formats/archive/zip.h"
#include "formats/format.h"
#include "formats/pickle/hidden.h"
#include "formats/python/compression.h"

namespace weightfs {
namespace python {
namespace {

using namespace std::string_view_literals;

// Archives that weightfs does not read.
constexpr auto kArchives = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"7z\xBC\xAF\x27\x1C"sv, "a 7z archive"},
    {"Rar!\x1A\x07"sv, "a rar archive"},
    {"LZIP\x01"sv, "compressed by lzip"},
    {"\x1F\x9D\x90"sv, "compressed by compress(1)"},
    {"\x89LZO\x00\x0D\x0A"sv, "compressed by lzop"},
});

constexpr auto kSuffixes =
    std::to_array<std::string_view>({".gz", ".gzip", ".bz2", ".xz", ".zst", ".zstd", ".lz4", ".lzma", ".z", ".zlib"});

// The name that the content has: that of "x.pkl.gz" is "x.pkl". The same name if it has no suffix of a compression.
std::string_view without_suffix(std::string_view name) {
  for (const std::string_view suffix : kSuffixes)
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  return name;
}

// The bytes of a part of a model.
class PartFile {
 public:
  static Result<PartFile> open(const Model& model, const Part& part) {
    PartFile file;
    file.container_.name = part.path.substr(part.path.rfind('/') + 1);
    file.container_.bytes = TRY(part.source.get());
    file.container_.depth = 1;
    const bool is_member = TRY(archive::stored_range_of(*file.container_.bytes)).has_value();
    if (model.budget != nullptr) file.container_.budget = model.budget;
    if (!is_member) file.container_.budget->add_file(*file.container_.bytes);
    file.head_ = TRY(archive::member_head(*file.container_.bytes, kHeadSize, *file.container_.budget));
    return file;
  }

  const std::string& head() const { return head_; }
  Budget& budget() const { return *container_.budget; }

  Result<pickle::Names> names() const {
    return pickle::hidden_names(
        head_, container_.bytes->size(), [&] { return whole(); }, budget());
  }

  // The compression of the file. The two or three bytes of some of them are in other files, too.
  std::optional<Compression> compression() const {
    auto found = compression_of(head_);
    const bool is_sure =
        !found || (found->name != "zlib" && found->name != "lzma" &&
                   (found->name != "bzip2" || std::string_view(head_).substr(4).starts_with("1AY&SY")));
    return is_named_as_compressed() || is_sure ? found : std::nullopt;
  }

  // What is compressed in the file. Fails with corrupt if it is damaged or no such file after all.
  Result<Container> content(const Compression& compression) const {
    Container content = container_;
    content.name = without_suffix(container_.name);
    content.depth = 2;
    const SourcePtr bytes = TRY(whole());
    content.bytes = TRY(decompressed(bytes, compression, container_));
    return content;
  }

  bool is_named_as_compressed() const { return without_suffix(container_.name) != container_.name; }
  std::string content_name() const { return std::string(without_suffix(container_.name)); }
  const BudgetPtr& shared_budget() const { return container_.budget; }

 private:
  Result<SourcePtr> whole() const {
    const auto charge = std::make_shared<codec::DecodeCharge>(container_.budget);
    const codec::DecodeCharge::Active active(charge);
    return archive::bytes_to_parse(container_.bytes, charge);
  }

  Container container_;
  std::string head_;
};

ModelPtr model_of(const pickle::Names& names) {
  if (names.empty()) return nullptr;
  Model model;
  pickle::add_hidden(model, names);
  return std::make_shared<const Model>(std::move(model));
}

// What is in a compressed file. A text is known by its beginning.
Result<ModelPtr> decoded_part(const PartFile& file, const Compression& compression, Only only) {
  std::string first = first_decoded(file.head(), compression, kHeadSize);
  const Container shown{.name = file.content_name(), .bytes = in_memory(first), .budget = file.shared_budget()};
  if (!first.empty() && !TRY(could_be_model(shown, only))) {
    const auto whole = [&]() -> Result<SourcePtr> { return TRY(file.content(compression)).bytes; };
    return model_of(TRY(pickle::hidden_names(std::move(first), UINT64_MAX, whole, file.budget())));
  }
  const Container content = TRY(file.content(compression));
  if (content.bytes->size() == 0) return nullptr;
  if (TRY(could_be_model(content, only)))
    return read_model(content).map([](Model model) { return std::make_shared<const Model>(std::move(model)); });
  return model_of(TRY(pickle::hidden_names(*content.bytes, 0, file.budget())));
}

}  // namespace
}  // namespace python

Result<ModelPtr> unpickled_part(const Model& model, const Part& part, Only only) {
  const auto file = TRY(python::PartFile::open(model, part));
  for (const auto& [magic, what] : python::kArchives)
    if (file.head().starts_with(magic)) return failure(Code::unsupported, fmt::format("not examined: {}", what));
  if (auto found = python::model_of(TRY(file.names()))) return found;
  const auto compression = file.compression();
  if (!compression) return nullptr;
  auto found = python::decoded_part(file, *compression, only);
  if (found || file.is_named_as_compressed() || !is_about_the_bytes(found.error())) return found;
  return nullptr;  // other bytes that begin as compressed ones
}

}  // namespace weightfs
