// Two models side by side, and equal tensors of one.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <string_view>

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

// The indices of the tensors of a compared model in the model as it is stored. A weight that was computed for the
// comparison has none.
class StoredIndices {
 public:
  StoredIndices(const Model& compared, const Model& stored) : compared_(compared), stored_(stored) {
    for (size_t i = 0; &compared != &stored && i < stored.tensors.size() && !is_cancelled(); ++i)
      places_.emplace(key_of(stored, i), i);
  }

  std::optional<size_t> of(size_t index) const {
    if (&compared_ == &stored_) return index;
    const auto place = places_.find(key_of(compared_, index));
    if (place == places_.end()) return std::nullopt;
    const TensorList &own = compared_.tensors, &others = stored_.tensors;
    const bool is_same =
        own.dtype(index) == others.dtype(place->second) && own.nbytes(index) == others.nbytes(place->second);
    return is_same ? std::optional(place->second) : std::nullopt;
  }

 private:
  using Key = std::pair<std::string_view, std::string_view>;  // scope and name

  static Key key_of(const Model& model, size_t i) { return {model.tensors.scope(i), model.tensors.name(i)}; }

  const Model& compared_;
  const Model& stored_;
  std::map<Key, size_t> places_;
};

// The places of the tensors that differ, by the name in the first model. Those of a repository that is compared as a
// GGUF has it are those of `names=gguf`.
Map indices_of(const compare::ContentsComparison& found, const ModelPtr& a, const ModelPtr& b) {
  Map out;
  for (const compare::ModelComparison& models : found.models) {
    if (!models.path.empty()) continue;
    const auto stored = [&](const ModelPtr& compared, const ModelPtr& own) {
      return StoredIndices(*compared, models.names.mapped ? *compared : *own);
    };
    const StoredIndices of_a = stored(models.a, a), of_b = stored(models.b, b);
    const auto add = [&](const compare::TensorPair& pair) {
      if (is_cancelled()) return;
      const auto first = of_a.of(pair.a), second = of_b.of(pair.b);
      if (first && second) out.append(std::string(models.a->tensors.name(pair.a)), List{*first, *second});
    };
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
  out.member("indices", indices_of(found, a->pointer(), b->pointer()));
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
