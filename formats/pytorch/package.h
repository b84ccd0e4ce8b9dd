// Archives of torch.package: pickles of objects, the source code of their classes, and their storages.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/archive/archive.h"
#include "formats/pytorch/contents.h"

namespace weightfs::pytorch {

/// The directory of the archive, with `/`, if it is one of torch.package; else nothing.
std::optional<std::string> package_root(const archive::Archive& archive);

/// What was read of a package.
struct Package {
  Map facts;
  std::string version;
  std::vector<bool> is_read;  ///< by member
};

/// Adds the objects of a package: the tensors of `PACKAGE/RESOURCE` are named `PACKAGE.RESOURCE.…`. Those of modules of
/// TorchScript are named as they are in the object that has them. Fails with io, and as the budget does.
Result<Package> add_package(const archive::Archive& archive, const Container& container, const std::string& root,
                            Contents& out);

}  // namespace weightfs::pytorch
