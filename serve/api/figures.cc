// Figures about the numbers of a tensor: statistics, histograms, channels.

#include <atomic>
#include <cmath>

#include "base/cancel.h"
#include "report/compare/select_tensors.h"
#include "report/stats/screen.h"
#include "report/text/map_of.h"
#include "serve/api/handlers.h"

namespace weightfs::api {
namespace {

List numbers_list(const std::vector<double>& numbers) {
  List out;
  for (const double number : numbers) out.push_back(number_or_null(number));
  return out;
}

// The second tensor of a picture, as a list.
Accepted<std::vector<plot::NamedTensor>> second_of(const Call& call) {
  const auto second = ACCEPT(second_tensor_of(call));
  if (!second) return std::vector<plot::NamedTensor>();
  return std::vector{second->tensor};
}

}  // namespace

plot::Choices choices_of(const Call& call, const std::vector<plot::NamedTensor>& tensors, Mode mode) {
  plot::Choices choices;
  choices.sample = mode == Mode::sample;
  choices.threads = processors(kThreads);
  uint64_t total = 0;
  for (const plot::NamedTensor& named : tensors) total += named.tensor.nbytes();
  const auto done = std::make_shared<std::atomic<uint64_t>>(0);
  choices.count_bytes = [report = call.report, done, total](uint64_t bytes) {
    report("reading", done->fetch_add(bytes) + bytes, total);
  };
  return choices;
}

Value number_or_null(double number) { return std::isfinite(number) ? Value(number) : Value(nullptr); }

Accepted<void> check_amount(const std::vector<plot::NamedTensor>& tensors, Mode mode) {
  FigureCost cost;
  for (const plot::NamedTensor& named : tensors) {
    if (is_cancelled()) return httpd::refused(503, "cancelled");
    const auto elements = numbers::Elements::of(named.tensor);
    cost.add(named.tensor, elements && mode != Mode::sample ? elements->bytes(elements->count()) : 0);
  }
  const auto checked = cost.check();
  if (!checked) return httpd::refused(422, checked.error().message);
  return {};
}

Accepted<Mode> mode_of(const Query& query) {
  return static_cast<Mode>(ACCEPT(query.choice("mode", {"full", "sample", "exact"})));
}

Accepted<Content> statistics(const Call& call) {
  const Named named = ACCEPT(tensor_of(call));
  const Mode mode = ACCEPT(mode_of(call.query));
  const bool has_axis = call.query.has("axis");
  stats::FigureOptions options{
      .statistics = {.exact = mode == Mode::exact, .sample = mode == Mode::sample, .threads = processors(kThreads)},
      .scales = call.query.flag("scales") && mode != Mode::sample,
      .channels = has_axis && mode != Mode::sample,
      .report = [&](uint64_t done, uint64_t total, const std::string&) { call.report("reading", done, total); }};
  if (has_axis) options.axis = static_cast<size_t>(ACCEPT(call.query.number("axis", 0, 64)));
  const std::vector<compare::FoundModel> models = {{"", named.model->pointer()}};
  std::optional<stats::TensorFigures> one;
  ACCEPT(accepted(compute_figures(models, {{0, named.index}}, options, [&](stats::TensorFigures figures) {
    one = std::move(figures);
    return Result<void>();
  })));
  if (!one->statistics) return tl::unexpected<Refusal>(refusal_of(one->statistics.error()));
  Map out = stats::tensor_value(*one);
  out.append("sample", one->statistics->is_sample());
  return json_content(out);
}

Accepted<Content> histogram(const Call& call) {
  const Named named = ACCEPT(tensor_of(call));
  const Mode mode = ACCEPT(mode_of(call.query));
  std::vector<plot::NamedTensor> tensors = {named.tensor};
  for (plot::NamedTensor& second : ACCEPT(second_of(call))) tensors.push_back(std::move(second));
  ACCEPT_VOID(check_amount(tensors, mode));
  const plot::Curves curves = ACCEPT(accepted(plot::histogram_of(tensors, choices_of(call, tensors, mode))));
  List lines;
  for (const plot::Curves::Line& line : curves.lines)
    lines.emplace_back(map_of({{"name", line.name}, {"shares", numbers_list(line.values)}}));
  return json_content(map_of({{"low", curves.right.first},
                              {"high", curves.right.last},
                              {"lines", std::move(lines)},
                              {"sample", curves.is_sample}}));
}

Accepted<Content> line(const Call& call) {
  const Named named = ACCEPT(tensor_of(call));
  const uint64_t points = ACCEPT(call.query.number("points", 1024, numbers::kMaxGridSide));
  ACCEPT_VOID(check_amount({named.tensor}, Mode::full));
  const auto elements = ACCEPT(accepted(numbers::Elements::of(named.tensor.tensor)));
  const plot::Choices choices = choices_of(call, {named.tensor}, Mode::full);
  const numbers::GridOptions options{
      .rows = 1, .columns = static_cast<size_t>(std::max<uint64_t>(1, points)), .threads = choices.threads};
  const uint64_t count = elements.count();
  const auto grid =
      ACCEPT(accepted(numbers::grid_of(elements, {.columns = count}, {0, 0, 1, count}, options, choices.count_bytes)));
  List low, high, mean;
  for (const numbers::GridCell& cell : grid.cells) {
    low.push_back(number_or_null(cell.min));
    high.push_back(number_or_null(cell.max));
    mean.push_back(number_or_null(cell.mean));
  }
  return json_content(
      map_of({{"count", count}, {"low", std::move(low)}, {"high", std::move(high)}, {"mean", std::move(mean)}}));
}

Accepted<Content> channels(const Call& call) {
  const Named named = ACCEPT(tensor_of(call));
  std::vector<plot::NamedTensor> against = ACCEPT(second_of(call));
  // They are of the pair that was named, whatever the names are.
  for (plot::NamedTensor& other : against) other.name = named.tensor.name;
  std::vector<plot::NamedTensor> read = against;
  read.push_back(named.tensor);
  ACCEPT_VOID(check_amount(read, Mode::full));
  plot::Choices choices = choices_of(call, {named.tensor}, Mode::full);
  const size_t last = named.tensor.tensor.shape.empty() ? 0 : named.tensor.tensor.shape.size() - 1;
  choices.axis = static_cast<size_t>(ACCEPT(call.query.number("axis", last, 64)));
  const plot::Curves curves = ACCEPT(accepted(plot::channels_of(named.tensor, against, choices)));
  return json_content(
      map_of({{"axis", *choices.axis},
              {"rms", numbers_list(curves.lines[0].values)},
              {"largest", numbers_list(curves.lines[1].values)},
              {"difference", curves.lines.size() > 2 ? Value(numbers_list(curves.lines[2].values)) : Value()}}));
}

}  // namespace weightfs::api
