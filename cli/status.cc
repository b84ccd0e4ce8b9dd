#include "cli/status.h"

#include "base/value.h"

namespace weightfs {
namespace {

Map as_value(const StoreStatus::Blob& blob) {
  Map out;
  out.append("name", blob.name);
  out.append("digest", "sha256:" + blob.digest.hex());
  out.append("size", blob.size ? Value(*blob.size) : Value());
  out.append("fetched", blob.fetched);
  out.append("verified", blob.verified);
  if (!blob.from.empty()) out.append("from", blob.from);
  if (!blob.error.empty()) out.append("error", blob.error);
  return out;
}

std::string text_of(const StoreStatus& status) {
  Map counters;
  counters.append("hits", status.hits);
  counters.append("misses", status.misses);
  counters.append("bytes_fetched", status.bytes_fetched);
  counters.append("errors", status.errors);
  List blobs;
  for (const StoreStatus::Blob& blob : status.blobs) blobs.emplace_back(as_value(blob));
  Map out;
  out.append("counters", std::move(counters));
  out.append("blobs", std::move(blobs));
  return to_json(std::move(out));
}

}  // namespace

TreePtr status_tree(const BlobStorePtr& store) {
  TreeBuilder builder(nullptr);
  builder.add_live("status.json", [store]() -> Result<SourcePtr> { return in_memory(text_of(store->status())); });
  return std::move(builder).freeze();
}

}  // namespace weightfs
