#include "sources/remote_model.h"

#include <fmt/core.h>

#include <atomic>

#include "formats/completeness.h"

namespace weightfs {

Result<Model> read_remote_model(const Container& container, const Format* forced) {
  auto model = read_model(container, forced);
  if (model) {
    // Members in a form that cannot be shown are not the server's.
    for (const Code code : {Code::mismatch, Code::not_found, Code::forbidden, Code::network, Code::unreachable}) {
      const Lacks::Group& group = model->lacks->by_code[static_cast<size_t>(code)];
      if (model->lacks->files > 0 && group.count > 0) return failure(code, group.first);
    }
    return model;
  }
  if (is_about_the_bytes(model.error())) container.blobs->drop_unverified();
  return model;
}

std::string version_on_server(const Source& file) {
  static std::atomic<uint64_t> unknown = 0;
  const std::string identity = file.identity();
  return identity.empty() ? fmt::format("unknown ({})", ++unknown) : identity;
}

}  // namespace weightfs
