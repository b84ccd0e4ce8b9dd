// Models of archives: their members, and the containers among these.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "formats/archive/archive.h"

namespace weightfs::archive {

/// Moves the archive's members into the model, as files/ and nested/, and its warnings.
void add_members(Model& model, Archive archive, const Container& container);

/// The model of an archive of plain files: its members in files/, the containers among them in nested/.
Model model_of(Archive archive, const Container& container, std::string format);

/// Makes folders of the files of a model in one of its directories; "" is the top.
using FoldersOf = std::function<std::shared_ptr<const Folder>(std::string_view directory)>;

/// The folders of `model`. Decoding their files is charged to `charge`, if it is not null.
FoldersOf folders_of(const ModelPtr& model, const codec::DecodeChargePtr& charge = nullptr);

}  // namespace weightfs::archive
