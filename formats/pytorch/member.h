// Pickles that are members of an archive, with their storages in other members.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/archive/archive.h"
#include "formats/pytorch/contents.h"

namespace weightfs::pytorch {

/// A pickle in an archive.
struct MemberPickle {
  std::string path;   ///< of the member
  std::string shown;  ///< its name in warnings and errors
  StorageBytes storages;
};

/// Adds its tensors and other values, as add_pickle() does. `subject` is in front of warnings. Decoding is charged to
/// the container's budget. Fails with corrupt if the archive lacks it or it is invalid, and as the budget does.
Result<void> add_member(const archive::Archive& archive, const Container& container, const MemberPickle& member,
                        const std::string& prefix, std::string_view subject, Contents& out);

/// Adds the constants of TorchScript: weights of frozen models, without the numbers of the code, which have no
/// dimension and are no weights.
Result<void> add_constants(const archive::Archive& archive, const Container& container, const MemberPickle& member,
                           const std::string& prefix, Contents& out);

/// The bytes of a member by its path; `key` names the storage in the error. `absent` is the code of the error if there
/// is none.
Result<Slice> storage_at(const archive::Archive& archive, const std::string& path, std::string_view key, Code absent);

/// The content of a short member, without the newline; nothing if there is none.
Result<std::optional<std::string>> record_at(const archive::Archive& archive, const std::string& path);

/// Whether the archive has big-endian storages: by its record `byteorder` in the directory `root`.
Result<bool> is_big_endian(const archive::Archive& archive, const std::string& root, Warnings& warnings);

}  // namespace weightfs::pytorch
