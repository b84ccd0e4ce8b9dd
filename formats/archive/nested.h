// Finds the containers among the members of an archive.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "formats/codec/codec_meter.h"
#include "formats/format.h"

namespace weightfs::archive {

/// The context of the containers that are nested in another one.
struct NestingContext {
  BlobsPtr blobs;
  BudgetPtr budget;
  codec::DecodeChargePtr charge;  ///< of the outer container if it is compressed as a whole; or null
  int depth;                      ///< of the nested containers
};

/// Finds the parts of `model` that are containers, by their first bytes. These are read once for each stored range,
/// however many members share it, and charged to the budget. When the budget is exhausted, the remaining members are
/// not checked; the first of them is in the result, and entering it fails with the name of the limit. Fails with io.
Result<std::vector<Nested>> find_nested(const ModelPtr& model, const NestingContext& context);

/// Makes folders of the files of a model in one of its directories; "" is the top.
using FoldersOf = std::function<std::shared_ptr<const Folder>(std::string_view directory)>;

/// The folders of `model`. Decoding their files is charged to `charge`, if it is not null.
FoldersOf folders_of(const ModelPtr& model, const codec::DecodeChargePtr& charge = nullptr);

}  // namespace weightfs::archive
