#include "sources/remote_model.h"

#include "formats/completeness.h"

namespace weightfs {

Result<Model> read_remote_model(const Container& container, const Format* forced) {
  auto model = read_model(container, forced);
  const Completeness completeness = model ? completeness_of(*model) : Completeness{};
  if (completeness.files > 0) model = failure(*completeness.reason);
  if (!model && is_about_the_bytes(model.error())) container.blobs->drop_unverified();
  return model;
}

}  // namespace weightfs
