// Checkpoints of torch 1.6 and later, and TorchScript: a zip with one directory, which has the pickle data.pkl and a
// member for each storage. Reference: caffe2/serialize/inline_container.cc and torch/serialization.py.
#include "formats/archive/zip.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "formats/archive/archive_formats.h"
#include "formats/pytorch/saved.h"

namespace weightfs::pytorch {
namespace {

constexpr std::string_view kPickle = "/data.pkl";

// The maximum size of a member with a number or a word.
constexpr uint64_t kMaxRecord = 256;

// The directory of the archive, with `/`; nothing if there is none. torch takes that of the first member.
std::optional<std::string> root_of(const archive::Archive& archive) {
  for (const Part& part : archive.parts) {
    const size_t slash = part.path.find('/');
    if (slash == part.path.npos) continue;
    const std::string_view path = part.path;
    if (path.substr(slash) == kPickle) return std::string(path.substr(0, slash + 1));
  }
  return std::nullopt;
}

// The content of a short member, without the newline; nothing if there is none.
Result<std::optional<std::string>> record(const archive::Archive& archive, const std::string& path) {
  auto text = archive.text(path, kMaxRecord);
  if (!text && text.error().code != Code::not_found && !is_about_the_bytes(text.error()))
    return tl::unexpected(text.error());
  if (!text) return std::nullopt;
  while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
  return std::optional(std::move(*text));
}

// The members that torch.save and torch.jit.save write.
bool is_own_member(std::string_view path) {
  constexpr std::array<std::string_view, 4> kFiles = {"data.pkl", "constants.pkl", "version", "byteorder"};
  constexpr std::array<std::string_view, 4> kBegins = {"data/", "constants/", "code/", "."};
  return std::find(kFiles.begin(), kFiles.end(), path) != kFiles.end() ||
         std::any_of(kBegins.begin(), kBegins.end(), [&](std::string_view begin) { return path.starts_with(begin); });
}

class ZipCheckpoint {
 public:
  ZipCheckpoint(const archive::Archive& archive, const Container& container, std::string root, Contents& contents)
      : archive_(archive), container_(container), root_(std::move(root)), contents_(contents) {}

  // Adds everything to the contents; the facts about the file.
  Result<Map> read(Model& model) {
    Map facts = TRY(read_facts(model));
    TRY_VOID(add("data.pkl", "data/", "", ""));
    if (archive_.find(root_ + "constants.pkl") != nullptr) TRY_VOID(add_constants());
    contents_.warnings.append(archive_.warnings, "");
    return facts;
  }

  // Adds the object alone.
  Result<void> read_object(const std::string& prefix, std::string_view subject) {
    TRY_VOID(read_byte_order());
    TRY_VOID(add("data.pkl", "data/", prefix, subject));
    contents_.warnings.append(archive_.warnings, subject);
    return {};
  }

  // Whether each member is its own, so that it is no container.
  std::vector<bool> own_members() const {
    std::vector<bool> is_own;
    for (const Part& part : archive_.parts)
      is_own.push_back(part.path.starts_with(root_) && is_own_member(std::string_view(part.path).substr(root_.size())));
    return is_own;
  }

 private:
  Result<Map> read_facts(Model& model) {
    Map facts;
    facts.append("root", root_.substr(0, root_.size() - 1));
    model.version = TRY(record(archive_, root_ + "version")).value_or("");
    TRY_VOID(read_byte_order());
    facts.append("byte_order", big_endian_ ? "big" : "little");
    constexpr std::array kRecords = {std::pair{".format_version", "format_version"},
                                     std::pair{".storage_alignment", "storage_alignment"},
                                     std::pair{".data/serialization_id", "serialization_id"}};
    for (const auto& [path, key] : kRecords)
      if (auto text = TRY(record(archive_, root_ + path))) facts.append(key, std::move(*text));
    if (archive_.find(root_ + "constants.pkl") != nullptr) facts.append("torchscript", true);
    return facts;
  }

  Result<void> read_byte_order() {
    const std::string order = TRY(record(archive_, root_ + "byteorder")).value_or("little");
    big_endian_ = order == "big";
    if (order != "little" && order != "big")
      contents_.warnings.add("byteorder {} is unknown; little-endian is assumed", quoted(order));
    return {};
  }

  // TorchScript's constants: weights of frozen models, and numbers in the code, which have no dimension and are no
  // weights.
  Result<void> add_constants() {
    const size_t before = contents_.tensors.size();
    TRY_VOID(add("constants.pkl", "constants/", "constants", ""));
    const auto is_number = [](const TensorView& tensor) { return tensor.shape.empty() && !tensor.source.refused(); };
    std::vector<size_t> numbers;
    for (size_t i = before; i < contents_.tensors.size(); ++i)
      if (is_number(contents_.tensors[i])) numbers.push_back(i);
    erase_tensors(contents_, numbers);
    return {};
  }

  // Reads one of the pickles. Its storages are looked up among the members: a key is never a path.
  Result<void> add(const std::string& name, const std::string& directory, const std::string& prefix,
                   std::string_view subject) {
    const auto about = [&](const Error& error) {
      return Error{error.code, fmt::format("{}: {}", name, error.message)};
    };
    const auto charge = std::make_shared<codec::DecodeCharge>(container_.budget);
    const codec::DecodeCharge::Active active(charge);
    const SourcePtr bytes = TRY(pickle_bytes(root_ + name, charge).map_error(about));
    Cursor cursor(*bytes, 0, bytes->size());
    const Pickle object = TRY(pickle::read_pickle(cursor, *container_.budget).map_error(about));
    const StorageBytes storages{.find = [&](std::string_view key) { return storage(directory, key); },
                                .big_endian = big_endian_};
    const pickle::File file{bytes, container_.blobs, container_.budget, container_.depth};
    return add_pickle(object, file, storages, prefix, fmt::format("{}{}: ", subject, name), contents_).map_error(about);
  }

  Result<SourcePtr> pickle_bytes(const std::string& path, const codec::DecodeChargePtr& charge) {
    const Part* const part = archive_.resolve(path);
    if (part == nullptr) return failure(Code::corrupt, "not in the archive");
    const SourcePtr source = TRY(part->source.get());
    if (source->size() > pickle::kMaxPickleSize)
      return failure(Code::unsupported,
                     fmt::format("{} bytes, at most {} are read", source->size(), pickle::kMaxPickleSize));
    return archive::bytes_to_parse(source, charge);
  }

  Result<Slice> storage(const std::string& directory, std::string_view key) const {
    const Part* const part = archive_.find(fmt::format("{}{}{}", root_, directory, key));
    if (part == nullptr || !part->link_target.empty())
      return failure(Code::corrupt, fmt::format("its storage {} is not in the archive", quoted(key)));
    const SourcePtr bytes = TRY(part->source.get());
    return slice(bytes, 0, bytes->size());
  }

  const archive::Archive& archive_;
  const Container& container_;
  std::string root_;
  bool big_endian_ = false;
  Contents& contents_;
};

}  // namespace

Result<void> add_saved(const Container& zip, const std::string& prefix, std::string_view subject, Contents& out) {
  const archive::Archive archive = TRY(archive::zip_members(zip));
  auto root = root_of(archive);
  if (!root) return failure(Code::corrupt, "no data.pkl in a directory of a zip of torch.save");
  return ZipCheckpoint(archive, zip, std::move(*root), out).read_object(prefix, subject);
}

}  // namespace weightfs::pytorch

namespace weightfs {

Result<bool> matches_pytorch(const archive::Archive& archive) { return pytorch::root_of(archive).has_value(); }

Result<Model> read_pytorch(archive::Archive archive, const Container& container) {
  const auto root = pytorch::root_of(archive);
  if (!root) return failure(Code::unsupported, "no data.pkl in a directory of the archive");
  pytorch::Contents contents(*container.budget);
  pytorch::ZipCheckpoint checkpoint(archive, container, *root, contents);
  std::vector<bool> is_own = checkpoint.own_members();
  Model model;
  model.format = "pytorch";
  Map facts = TRY(checkpoint.read(model));
  TRY_VOID(pytorch::add_contents(model, std::move(contents), std::move(facts)));
  archive.warnings = Warnings();  // the model has them
  archive::add_members(model, std::move(archive), container, std::move(is_own));
  return model;
}

}  // namespace weightfs
