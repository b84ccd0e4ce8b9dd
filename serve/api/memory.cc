// Whether a model fits into memory.

#include "report/info/memory.h"

#include <fmt/core.h>

#include "report/text/map_of.h"
#include "serve/api/handlers.h"

namespace weightfs::api {
namespace {

// A number of the query, from `least` to `most`; nothing if it is missing.
Accepted<std::optional<uint64_t>> number_from(const Query& query, std::string_view name, uint64_t least,
                                              uint64_t most) {
  const auto number = ACCEPT(query.number(name));
  if (number && (*number < least || *number > most))
    return httpd::refused(400, fmt::format("{}: from {} to {}", name, least, most));
  return number;
}

}  // namespace

Accepted<Content> describe_memory(const Call& call) {
  const OpenModelPtr of = ACCEPT(call.model());
  const auto types = summary::kv_types();
  info::MemoryQuestion question;
  question.context = ACCEPT(number_from(call.query, "ctx", 1, summary::kMostTokens));
  question.kv_type = types[ACCEPT(call.query.choice("kv", {types.begin(), types.end()}))];
  question.batch = ACCEPT(number_from(call.query, "batch", 1, summary::kMostBatch)).value_or(summary::kUsualBatch);
  question.gpu_layers = ACCEPT(call.query.number("layers"));
  question.gpu_bytes = ACCEPT(number_from(call.query, "gpu", 1, UINT64_MAX));
  const summary::Summarised& summarised = of->summarised();
  const info::Subject subject{of->model(), summarised.summary, summarised.tensors, of->path()};
  return json_content(info::memory_map(subject, question));
}

}  // namespace weightfs::api
