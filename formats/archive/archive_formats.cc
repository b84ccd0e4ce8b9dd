#include "formats/archive/archive_formats.h"

#include <fmt/core.h>

#include <map>

#include "base/text.h"
#include "formats/archive/repository.h"

namespace weightfs::archive {
namespace {

Result<Archive> members(Packing packing, const Container& container) {
  return packing == Packing::zip ? zip_members(container) : tar_members(container);
}

// The stored size of a packed model is that of its one file, however its members are compressed.
Result<Model> with_stored_size(Result<Model> model, const Container& file) {
  if (model) model->stored_bytes = file.bytes->size();
  return model;
}

// Takes files and tensors from the members themselves: what the parser read was charged to the budget.
Result<void> move_to_members(Model& model, const Archive& archive) {
  std::map<const Source*, SourcePtr> members;  // by what was read
  for (Part& part : model.parts) {
    const Part* const member = archive.find(part.path);
    if (member == nullptr || !member->link_target.empty()) continue;
    const auto read = part.source.peek();
    if (read && *read != nullptr) members.emplace(read->get(), TRY(member->source.get()));
    part = *member;
  }
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const Slice bytes = model.tensors[i].source;
    const auto member = bytes.refused() ? members.end() : members.find(bytes.whole().get());
    if (member == members.end()) continue;
    TRY_VOID(model.tensors.set_source(i, member->second, {bytes.offset(), bytes.offset() + bytes.size()}));
  }
  return {};
}

// The model of a repository that was packed; else the files. A model that cannot be read is a file, too.
Result<Model> read_repository_or_files(Archive archive, const char* plain, const Container& container) {
  const auto read = [](const Container& file, const std::string&) { return read_model(file); };
  auto model = find_model_in(archive, Repository::described, container, read);
  if (!model && (!is_about_the_bytes(model.error()) || !container.file.empty())) return tl::unexpected(model.error());
  if (!model) archive.warnings.add("not shown as one model: {}", model.error().message);
  if (!model || !*model) return model_of(std::move(archive), container, plain);
  TRY_VOID(move_to_members(**model, archive));
  (*model)->directories.edit() = std::move(archive.directories);
  std::move(archive.warnings).move_to(**model);
  return std::move(**model);
}

// Reads an archive as the first format of the table that matches it, else as an archive of plain files.
Result<Model> read_archive(Packing packing, const char* plain, const Container& container) {
  Archive archive = TRY(members(packing, container));
  for (const ArchiveFormat& format : kArchiveFormats)
    if (format.packing == packing && TRY(format.matches(archive)))
      return with_stored_size(format.read(std::move(archive), container), container);
  return with_stored_size(read_repository_or_files(std::move(archive), plain, container), container);
}

Result<bool> is_entry_file(const DirectoryForm& form, const Container& container) {
  if (form.entry.empty() || container.name != form.entry) return false;
  return form.identifies == nullptr || TRY(form.identifies(container.bytes));
}

}  // namespace

Result<Model> read_archive_format(const ArchiveFormat& format, const Container& container) {
  if (TRY(is_entry_file(format.unpacked, container))) {
    Archive directory = TRY(folder_members(container));
    if (directory.parts.empty() && format.unpacked.files != nullptr) {
      const auto paths = TRY(format.unpacked.files(container));
      directory = TRY(members_at(container, paths));
    }
    if (!format.unpacked.has_companion([&](std::string_view path) { return directory.find(path) != nullptr; }))
      return failure(Code::unsupported, fmt::format("no {} in the same directory", format.unpacked.companions));
    return format.read(std::move(directory), container);
  }
  Archive archive = TRY(members(format.packing, container));
  if (!TRY(format.matches(archive)))
    return failure(Code::unsupported, fmt::format("an archive without the files of the format {}", format.name));
  return with_stored_size(format.read(std::move(archive), container), container);
}

}  // namespace weightfs::archive

namespace weightfs {

Result<Model> read_zip(const Container& container) {
  return archive::read_archive(archive::Packing::zip, "zip", container);
}

Result<Model> read_tar(const Container& container) {
  return archive::read_archive(archive::Packing::tar, "tar", container);
}

}  // namespace weightfs
