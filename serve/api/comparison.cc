// Two models side by side, and equal tensors of one.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>

#include "base/cancel.h"
#include "base/values/json_printer.h"
#include "numbers/deviation.h"
#include "report/compare/duplicates.h"
#include "report/compare/models.h"
#include "report/diff/deviations.h"
#include "report/diff/report.h"
#include "report/text/map_of.h"
#include "serve/api/handlers.h"

namespace weightfs::api {
namespace {

// The places of the tensors that differ, by the name in the first model.
Map indices_of(const compare::ContentsComparison& found, const Model& a) {
  Map out;
  const auto add = [&](const compare::TensorPair& pair) {
    if (is_cancelled()) return;
    out.append(std::string(a.tensors.name(pair.a)), List{pair.a, pair.b});
  };
  for (const compare::ModelComparison& models : found.models) {
    if (!models.path.empty() || models.mapped) continue;
    for (const compare::ChangedTensor& changed : models.tensors.changed) add(changed.pair);
    std::ranges::for_each(models.tensors.renamed, add);
  }
  return out;
}

}  // namespace

Accepted<Content> compare_models(const Call& call) {
  const OpenModelPtr a = ACCEPT(call.model("a")), b = ACCEPT(call.model("b"));
  const bool has_values = call.query.flag("values");
  const compare::CompareOptions options{
      .deviation = has_values, .threads = processors(kThreads), .report = call.report};
  const compare::Contents contents_a = ACCEPT(accepted(compare::contents_of(a->pointer())));
  const compare::Contents contents_b = ACCEPT(accepted(compare::contents_of(b->pointer())));
  const auto found = ACCEPT(accepted(compare::compare_contents(contents_a, contents_b, options)));
  Content content;
  JsonPrinter out(JsonPrinter::Form::line, [&](std::string_view text) { append(content, text); });
  compare::write_differences(found, has_values, out);
  out.member("indices", indices_of(found, a->model()));
  out.end();
  if (is_cancelled()) return httpd::refused(503, "cancelled");  // it is not whole
  return content;
}

Accepted<Content> deviation(const Call& call) {
  const Named a = ACCEPT(tensor_of(call));
  const auto b = ACCEPT(second_tensor_of(call));
  if (!b) return httpd::refused(400, "t2: the second tensor is missing");
  const TensorView &first = a.tensor.tensor, &second = b->tensor.tensor;
  if (!(first.shape == second.shape)) return httpd::refused(422, "the tensors have different shapes");
  ACCEPT_VOID(check_amount({a.tensor, b->tensor}, Mode::full));
  const auto of_a = ACCEPT(accepted(numbers::Elements::of(first)));
  const auto of_b = ACCEPT(accepted(numbers::Elements::of(second)));
  const uint64_t total = of_a.bytes(of_a.count());
  std::atomic<uint64_t> done = 0;
  const auto count_bytes = [&](uint64_t bytes) { call.report("reading", done += bytes, total); };
  const auto precision = numbers::worse_precision(*first.dtype, *second.dtype);
  const auto found = numbers::deviation_of(of_a, of_b, precision, processors(kThreads), count_bytes);
  if (!found) return tl::unexpected(refusal_of(found.error().error));
  return json_content(compare::deviation_value(found->deviation, first.shape));
}

Accepted<Content> find_equal_tensors(const Call& call) {
  const OpenModelPtr of = ACCEPT(call.model());
  const std::vector<ModelPtr> models = {of->pointer()};
  const auto found = ACCEPT(accepted(compare::find_duplicates(models, processors(kThreads), call.report)));
  Content content;
  const auto write = [&](std::string_view text) { append(content, text); };
  uint64_t cost = 0;
  content.bytes = "{\"groups\":[";
  for (const compare::EqualTensors& group : found.groups) {
    if (&group != &found.groups.front()) append(content, ",");
    JsonPrinter out(JsonPrinter::Form::line, write);
    out.member("bytes", group.nbytes);
    out.member("copies", group.copies);
    out.member("cost", group.cost());
    out.begin_list("tensors");
    for (const compare::TensorPlace& place : group.tensors) {
      if (is_cancelled()) return httpd::refused(503, "cancelled");
      out.item(map_of({{"index", place.index}, {"name", of->name(place.index)}}));
    }
    out.end_list();
    out.end();
    cost += group.cost();
  }
  append(content, fmt::format("],\"cost\":{},\"unreadable\":{}}}", cost, found.unreadable.size()));
  return content;
}

}  // namespace weightfs::api
