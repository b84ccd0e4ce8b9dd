// Models of archives: their members, and the containers among these.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/archive/archive.h"

namespace weightfs::archive {

/// Moves the archive's members into the model, as files/ and nested/, and its warnings. `is_read` says of each member
/// whether the model has what is in it, so that it is not in nested/; it may be shorter, and longer for parts that are
/// added later.
void add_members(Model& model, Archive archive, const Container& container, std::vector<bool> is_read = {});

/// The model of an archive of plain files: its members in files/, the containers among them in nested/.
Model model_of(Archive archive, const Container& container, std::string format);

/// Makes folders of the files of a model in one of its directories; "" is the top.
using FoldersOf = std::function<std::shared_ptr<const Folder>(std::string_view directory)>;

/// The folders of `model`. Decoding their files is charged to `charge`, if it is not null.
FoldersOf folders_of(const ModelPtr& model, const codec::DecodeChargePtr& charge = nullptr);

}  // namespace weightfs::archive
