// Reference: torch/package/package_exporter.py, package_importer.py; ScriptModuleSerializer in
// torch/csrc/jit/serialization/export_module.cpp.
#include "formats/pytorch/package.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/text.h"
#include "formats/pytorch/member.h"

namespace weightfs::pytorch {
namespace {

constexpr std::string_view kOwn = ".data/";
constexpr std::string_view kScripts = ".data/ts_code/";
constexpr std::string_view kStorageSuffix = ".storage";

class PackageReader {
 public:
  PackageReader(const archive::Archive& archive, const Container& container, const std::string& root, Contents& out)
      : archive_(archive), container_(container), root_(root), out_(out) {}

  Result<Package> read() && {
    TRY_VOID(read_facts());
    for (const Part& part : archive_.parts) package_.is_read.push_back(TRY(add(part)));
    TRY_VOID(add_other_scripts());
    return std::move(package_);
  }

 private:
  Result<void> read_facts() {
    package_.version = TRY(record_at(archive_, root_ + ".data/version")).value_or("");
    if (package_.version.empty()) package_.version = TRY(record_at(archive_, root_ + "version")).value_or("");
    big_endian_ = TRY(is_big_endian(archive_, root_, out_.warnings));
    package_.facts.append("root", root_.substr(0, root_.size() - 1));
    package_.facts.append("package", true);
    package_.facts.append("byte_order", big_endian_ ? "big" : "little");
    if (auto python = TRY(record_at(archive_, root_ + ".data/python_version")))
      package_.facts.append("python_version", std::move(*python));
    return {};
  }

  // Whether the member has an object, or belongs to the package itself.
  Result<bool> add(const Part& part) {
    const std::string_view path = part.path;
    TRY_VOID(out_.charges.charge(Cost::step));
    if (!path.starts_with(root_)) return false;
    const std::string_view resource = path.substr(root_.size());
    if (resource.starts_with(kOwn) || resource == "version" || resource == "byteorder") return true;
    if (!part.link_target.empty() || resource.ends_with(".py") || !TRY(begins_pickle(part))) return false;
    std::string prefix(resource);
    std::ranges::replace(prefix, '/', '.');
    const auto added =
        add_member(archive_, container_, {part.path, std::string(resource), storages()}, prefix, "", out_);
    if (added) return true;
    if (!is_about_the_bytes(added.error())) return tl::unexpected(added.error());
    out_.warnings.refuse(added.error().code, "{}", added.error().message);
    return false;
  }

  static Result<bool> begins_pickle(const Part& part) {
    const SourcePtr bytes = TRY(part.source.get());
    if (bytes->size() < 4) return false;
    const std::string head = TRY(read_text(*bytes, 0, 2));
    return head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
  }

  StorageBytes storages() {
    StorageBytes bytes = storages_of_scripts();
    bytes.script = [this](const std::string& name, const std::string& id) { return add_script(name, id); };
    return bytes;
  }

  // TorchScript has the suffix in its keys, Python has not.
  StorageBytes storages_of_scripts() {
    return {.find =
                [this](std::string_view key) {
                  const std::string_view suffix = key.ends_with(kStorageSuffix) ? "" : kStorageSuffix;
                  const std::string path = fmt::format("{}{}{}{}", root_, kOwn, key, suffix);
                  return storage_at(archive_, path, key, Code::corrupt);
                },
            .big_endian = big_endian_};
  }

  // The modules that no object has, as "ts_code.0".
  Result<void> add_other_scripts() {
    constexpr std::string_view kPickle = "/data.pkl";
    const std::string directory = fmt::format("{}{}", root_, kScripts);
    for (const Part& part : archive_.parts) {
      if (!part.path.starts_with(directory) || !part.path.ends_with(kPickle)) continue;
      const std::string id = part.path.substr(directory.size(), part.path.size() - directory.size() - kPickle.size());
      if (id.find('/') != id.npos || scripts_.contains(id)) continue;
      const auto added = add_script("ts_code." + id, id);
      if (!added && !is_about_the_bytes(added.error())) return added;
      if (!added) out_.warnings.refuse(added.error().code, "{}", added.error().message);
    }
    return {};
  }

  // Adds a module of TorchScript under this name.
  Result<void> add_script(const std::string& name, const std::string& id) {
    const std::string directory = fmt::format("{}{}/", kScripts, id);
    scripts_.insert(id);
    TRY_VOID(add_member(archive_, container_,
                        {fmt::format("{}{}data.pkl", root_, directory), directory + "data.pkl", storages_of_scripts()},
                        name, "", out_));
    const std::string constants = fmt::format("{}{}constants.pkl", root_, directory);
    if (archive_.find(constants) == nullptr) return {};
    return add_constants(archive_, container_, {constants, directory + "constants.pkl", storages_of_scripts()},
                         name + ".constants", out_);
  }

  const archive::Archive& archive_;
  const Container& container_;
  const std::string& root_;
  Contents& out_;
  bool big_endian_ = false;
  Package package_;
  std::set<std::string> scripts_;  // the modules that objects have
};

}  // namespace

std::optional<std::string> package_root(const archive::Archive& archive) {
  constexpr std::array<std::string_view, 2> kRecords = {"extern_modules", "python_version"};
  for (const Part& part : archive.parts) {
    const size_t slash = part.path.find('/');
    if (slash == part.path.npos) continue;
    const std::string_view inside = std::string_view(part.path).substr(slash + 1);
    if (!inside.starts_with(kOwn)) continue;
    const std::string_view name = inside.substr(kOwn.size());
    const bool is_record = std::ranges::find(kRecords, name) != kRecords.end();
    if (is_record || name.ends_with(kStorageSuffix)) return part.path.substr(0, slash + 1);
  }
  return std::nullopt;
}

Result<Package> add_package(const archive::Archive& archive, const Container& container, const std::string& root,
                            Contents& out) {
  return PackageReader(archive, container, root, out).read();
}

}  // namespace weightfs::pytorch
