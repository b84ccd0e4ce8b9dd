// Checkpoints of torch 1.6 and later, and TorchScript: a zip with one directory, which has the pickle data.pkl and a
// member for each storage. Reference: caffe2/serialize/inline_container.cc and torch/serialization.py.
#include "formats/archive/zip.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/archive/archive_formats.h"
#include "formats/pytorch/member.h"
#include "formats/pytorch/package.h"
#include "formats/pytorch/saved.h"

namespace weightfs::pytorch {
namespace {

constexpr std::string_view kPickle = "/data.pkl";

// The object in a directory into which an archive was unpacked.
constexpr std::string_view kEntry = "data.pkl";

// The bytes of it that are searched: the first tensor comes early.
constexpr uint64_t kMaxSearched = 1 << 20;

// Whether these bytes are of a pickle with a storage outside of it, or with classes of TorchScript.
bool is_object(std::string_view bytes) {
  constexpr std::array<std::string_view, 3> kSigns = {std::string_view("X\7\0\0\0storage", 12), "\x8C\7storage",
                                                      "__torch__."};
  return bytes.starts_with('\x80') &&
         std::ranges::any_of(kSigns, [&](std::string_view sign) { return bytes.find(sign) != bytes.npos; });
}

// The directory of the first member, with `/`, which torch takes. Nothing if that has no object.
std::optional<std::string> first_root(const archive::Archive& archive) {
  if (archive.parts.empty()) return std::nullopt;
  const std::string_view path = archive.parts.front().path;
  const std::string root(path.substr(0, path.find('/') + 1));
  return root.empty() || archive.find(root + "data.pkl") == nullptr ? std::nullopt : std::optional(root);
}

// The directory of the archive, with `/`; nothing if there is none. torch.load refuses other files beside it.
std::optional<std::string> root_of(const archive::Archive& archive) {
  if (auto root = first_root(archive)) return root;
  for (const Part& part : archive.parts) {
    const size_t slash = part.path.find('/');
    if (slash == part.path.npos) continue;
    const std::string_view path = part.path;
    if (path.size() - slash == kPickle.size() && lower_case(path.substr(slash)) == kPickle)
      return std::string(path.substr(0, slash + 1));
  }
  return std::nullopt;
}

// The members that torch.save and torch.jit.save write.
bool is_own_member(std::string_view path) {
  constexpr std::array<std::string_view, 4> kFiles = {"data.pkl", "constants.pkl", "version", "byteorder"};
  constexpr std::array<std::string_view, 4> kBegins = {"data/", "constants/", "code/", "."};
  if (std::find(kFiles.begin(), kFiles.end(), path) != kFiles.end()) return true;
  return !path.ends_with(".pkl") &&
         std::any_of(kBegins.begin(), kBegins.end(), [&](std::string_view begin) { return path.starts_with(begin); });
}

class ZipCheckpoint {
 public:
  ZipCheckpoint(const archive::Archive& archive, const Container& container, std::string root, Contents& contents)
      : archive_(archive), container_(container), root_(std::move(root)), contents_(contents) {}

  // Adds everything to the contents; the facts about the file.
  Result<Map> read(Model& model) {
    Map facts = TRY(read_facts(model));
    TRY_VOID(add_member(archive_, container_, member("data.pkl", "data/"), "", "", contents_));
    if (archive_.find(root_ + "constants.pkl") != nullptr)
      TRY_VOID(add_constants(archive_, container_, member("constants.pkl", "constants/"), "constants", contents_));
    contents_.warnings.append(archive_.warnings, "");
    return facts;
  }

  // Adds the object alone.
  Result<void> read_object(const std::string& prefix, std::string_view subject) {
    TRY_VOID(read_byte_order());
    TRY_VOID(add_member(archive_, container_, member("data.pkl", "data/"), prefix, subject, contents_));
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
    if (!root_.empty()) facts.append("root", root_.substr(0, root_.size() - 1));
    model.version = TRY(record_at(archive_, root_ + "version")).value_or("");
    if (model.version.empty()) model.version = TRY(record_at(archive_, root_ + ".data/version")).value_or("");
    TRY_VOID(read_byte_order());
    facts.append("byte_order", big_endian_ ? "big" : "little");
    constexpr std::array kRecords = {std::pair{".format_version", "format_version"},
                                     std::pair{".storage_alignment", "storage_alignment"},
                                     std::pair{".data/serialization_id", "serialization_id"}};
    for (const auto& [path, key] : kRecords)
      if (auto text = TRY(record_at(archive_, root_ + path))) facts.append(key, std::move(*text));
    if (archive_.find(root_ + "constants.pkl") != nullptr) facts.append("torchscript", true);
    return facts;
  }

  Result<void> read_byte_order() {
    big_endian_ = TRY(is_big_endian(archive_, root_, contents_.warnings));
    return {};
  }

  // One of the pickles. Its storages are looked up among the members: a key is never a path.
  MemberPickle member(const std::string& name, const std::string& directory) {
    const auto find = [this, directory](std::string_view key) { return storage(directory, key); };
    return {root_ + name, name, {.find = find, .big_endian = big_endian_}};
  }

  // A file of a directory may be missing; a member of an archive cannot be, unless the archive is damaged.
  Result<Slice> storage(const std::string& directory, std::string_view key) {
    const std::string path = fmt::format("{}{}", directory, key);
    const Code absent = root_.empty() ? Code::not_found : Code::corrupt;
    auto found = storage_at(archive_, root_ + path, key, absent);
    if (!found && found.error().code == Code::not_found && missing_.insert(path).second) {
      TRY_VOID(contents_.charges.charge(Cost::kept, 2 * path.size()));
      contents_.warnings.miss_file(Code::not_found, "{}: missing", quoted(path));
      contents_.warnings.lose(found.error(), {});
    }
    return found;
  }

  const archive::Archive& archive_;
  const Container& container_;
  std::string root_;
  bool big_endian_ = false;
  Contents& contents_;
  std::set<std::string> missing_;  // files of a directory
};

int in_lower_case(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : static_cast<uint8_t>(c); }

// A name that several members have if the case of letters does not count; empty if there is none. Honest archives have
// some among modules of Python.
std::string name_in_any_case(const archive::Archive& archive) {
  const auto& parts = archive.parts;
  const auto compare = [&](uint32_t a, uint32_t b) {
    return std::ranges::lexicographical_compare(parts[a].path, parts[b].path, {}, in_lower_case, in_lower_case);
  };
  std::vector<uint32_t> places;
  for (uint32_t i = 0; i < parts.size(); ++i)
    if (!parts[i].path.ends_with(".py")) places.push_back(i);
  std::sort(places.begin(), places.end(), compare);
  for (size_t i = 1; i < places.size(); ++i)
    if (!compare(places[i - 1], places[i])) return parts[places[i]].path;
  return {};
}

}  // namespace

Result<void> check_names(const archive::Archive& zip) {
  const std::string name = zip.repeated.empty() ? name_in_any_case(zip) : zip.repeated;
  if (name.empty()) return {};
  return failure(Code::corrupt,
                 fmt::format("several members are called {}: PyTorch reads any one of them", quoted(name)));
}

Result<void> add_saved(const Container& zip, const std::string& prefix, std::string_view subject, Contents& out) {
  const archive::Archive archive = TRY(archive::zip_members(zip));
  TRY_VOID(check_names(archive));
  auto root = root_of(archive);
  if (!root) return failure(Code::corrupt, "no data.pkl in a directory of a zip of torch.save");
  return ZipCheckpoint(archive, zip, std::move(*root), out).read_object(prefix, subject);
}

}  // namespace weightfs::pytorch

namespace weightfs {

Result<bool> matches_pytorch(const archive::Archive& archive) {
  return pytorch::root_of(archive).has_value() || pytorch::package_root(archive).has_value();
}

Result<bool> is_unpacked_pytorch(const SourcePtr& entry) {
  return pytorch::is_object(TRY(read_text(*entry, 0, std::min<uint64_t>(entry->size(), pytorch::kMaxSearched))));
}

Result<Model> read_pytorch(archive::Archive archive, const Container& container) {
  const bool is_unpacked = container.name == pytorch::kEntry && archive.find(pytorch::kEntry) != nullptr;
  if (!is_unpacked) TRY_VOID(pytorch::check_names(archive));
  const auto root = is_unpacked ? std::optional<std::string>("") : pytorch::root_of(archive);
  const auto package = root ? std::nullopt : pytorch::package_root(archive);
  if (!root && !package) return failure(Code::unsupported, "no data.pkl in a directory of the archive");
  if (root && archive.find(*root + "data.pkl") == nullptr)
    return failure(Code::corrupt, "no data.pkl: its name is in upper case, and PyTorch reads it nevertheless");
  pytorch::Contents contents(*container.budget);
  std::vector<bool> is_own;
  Model model;
  model.format = "pytorch";
  Map facts;
  if (root) {
    pytorch::ZipCheckpoint checkpoint(archive, container, *root, contents);
    is_own = checkpoint.own_members();
    facts = TRY(checkpoint.read(model));
  } else {
    pytorch::Package read = TRY(pytorch::add_package(archive, container, *package, contents));
    contents.warnings.append(archive.warnings, "");
    is_own = std::move(read.is_read);
    model.version = std::move(read.version);
    facts = std::move(read.facts);
  }
  TRY_VOID(pytorch::add_contents(model, std::move(contents), std::move(facts)));
  archive.warnings = Warnings();  // the model has them
  archive::add_members(model, std::move(archive), container, std::move(is_own));
  return model;
}

}  // namespace weightfs
