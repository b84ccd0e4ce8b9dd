// weightfs plot: pictures of tensors and models.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/text.h"
#include "cli/console/outcome.h"
#include "cli/console/progress.h"
#include "cli/open_source.h"
#include "cli/picture/display.h"
#include "cli/picture/mapped_models.h"
#include "cli/picture/option_values.h"
#include "cli/verbs.h"
#include "formats/completeness.h"
#include "report/compare/select_tensors.h"
#include "report/plot/cells.h"
#include "report/plot/draw.h"
#include "report/plot/make.h"
#include "report/plot/text.h"
#include "report/text/words.h"

namespace weightfs {
namespace {

using plot::Display;
using plot::GraphicsChoice;
using plot::Metric;
using plot::NamedTensor;
using plot::Picture;

constexpr size_t kPlotThreads = 16;

enum class PlotKind { heat_map, histogram, channels, overview, experts };

struct PlotArguments {
  SourceInput input;
  std::vector<std::string> patterns;
  std::string out;  // of --output; empty for the terminal
  std::string against;
  std::optional<PlotKind> kind;
  plot::Choices choices;
  std::optional<plot::PictureSize> size;
  GraphicsChoice graphics = GraphicsChoice::automatic;
  bool force = false;
};

Error plot_usage(const std::string& message) {
  return {Code::unsupported, fmt::format("{} (see weightfs plot --help)", message)};
}

// Whether the picture can be shown, or written, where the arguments say.
Result<void> check_output(const PlotArguments& arguments) {
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  if (arguments.out.empty()) {
    if (is_terminal || arguments.graphics != GraphicsChoice::automatic) return {};
    return failure(plot_usage("standard output is not a terminal; use -o FILE.png, FILE.svg or FILE.pdf"));
  }
  if (!plot::format_of_picture(arguments.out))
    return failure(
        plot_usage(fmt::format("{}: pictures are written as .png, .svg and .pdf", printable(arguments.out))));
  if (arguments.out == "-" && is_terminal) return failure(plot_usage("a PNG is not written to a terminal"));
  return {};
}

// What failed: naming other tensors avoids only what is about tensors.
struct Failures {
  Outcome of_models;
  Outcome of_tensors;

  Exit status() const {
    Outcome both = of_models;
    both.add(of_tensors);
    return both.status();
  }
};

Error with_name(const std::string& name, const Error& reason) {
  return {reason.code, fmt::format("tensor {}: refused: {}", quoted(name), reason.message)};
}

// The tensors of a source, each with its name. `mapped`: the same model with other names; may be null.
Result<std::vector<NamedTensor>> tensors_of(Forest& forest, const std::string& source, const PlotArguments& arguments,
                                            const std::vector<std::string>& patterns, const ModelPtr& mapped,
                                            Failures& failures) {
  std::optional<Error> unread;  // a model, which may have a tensor that is not found
  auto models = TRY(compare::models_in(forest, [&](const std::string& path, const Error& error) {
    failures.of_models.fail({error.code, fmt::format("{}: {}", join_path(source, path), error.message)});
    unread = error;
  }));
  if (mapped != nullptr) models.front().model = mapped;
  const auto selected = TRY(select_tensors(models, patterns).map_error([&](const Error& error) {
    return Error{unread ? unread->code : error.code, error.message};
  }));
  std::vector<NamedTensor> out;
  uint64_t refused = 0;
  Error first_refused;
  for (const compare::TensorPlace& place : selected) {
    const ModelPtr& model = models[place.model].model;
    const TensorView tensor = model->tensors[place.index];
    std::string name = full_name(models[place.model], tensor);
    if (patterns.empty() || !tensor.source.refused())
      out.push_back({std::move(name), tensor, model});
    else if (refused++ == 0)
      first_refused = with_name(name, reason_of_refused(*model, tensor.name));
  }
  if (refused > 0)
    failures.of_tensors.fail({first_refused.code, fmt::format("{} of {} tensors cannot be shown: {}", refused,
                                                              selected.size(), first_refused.message)});
  if (const auto reason = reason_of_incomplete(models, patterns)) failures.of_tensors.fail(*reason);
  if (out.empty() && failures.of_tensors.status() == Exit::ok)
    return failure(Code::not_found, fmt::format("{}: has no tensors", source));
  if (arguments.patterns.empty())
    for (const compare::FoundModel& found : models)
      failures.of_tensors.check(*found.model, join_path(source, found.path));
  return out;
}

uint64_t bytes_to_read(const std::vector<NamedTensor>& tensors) {
  uint64_t total = 0;
  for (const NamedTensor& named : tensors)
    if (const auto elements = numbers::Elements::of(named.tensor)) total += elements->bytes(elements->count());
  return total;
}

// Makes the panels.
class Plotter {
 public:
  Plotter(const PlotArguments& arguments, const std::vector<NamedTensor>& tensors,
          const std::vector<NamedTensor>& against, plot::Choices choices, Outcome& outcome)
      : arguments_(arguments),
        tensors_(tensors),
        against_(against),
        choices_(std::move(choices)),
        outcome_(outcome),
        total_(bytes_to_read(tensors)) {
    choices_.count_bytes = [this](uint64_t bytes) { bar_.show(done_.fetch_add(bytes) + bytes, total_, "reading"); };
  }

  Result<Picture> picture(PlotKind kind) {
    const std::string title = printable_source(arguments_.input.source);
    const auto failed = [&](const NamedTensor& named, const Error& error) {
      if (error.code == Code::unsupported && arguments_.patterns.empty()) return;
      outcome_.note(error);
      if (failed_++ == 0)
        first_failure_ = {error.code, fmt::format("tensor {}: {}", quoted(named.name), error.message)};
    };
    auto made = make(kind, title, failed);
    bar_.clear();
    if (failed_ > 0)
      outcome_.fail({first_failure_.code, fmt::format("{} of {} tensors cannot be shown: {}", failed_, tensors_.size(),
                                                      first_failure_.message)});
    return made;
  }

  uint64_t failed() const { return failed_; }

 private:
  template <class Failed>
  Result<Picture> make(PlotKind kind, const std::string& title, const Failed& failed) {
    switch (kind) {
      case PlotKind::overview:
        if (choices_.metric == Metric::type) return Picture{types_of(title)};
        return one(plot::overview_of(title, tensors_, against_, choices_, failed));
      case PlotKind::experts:
        return one(plot::experts_of(title, tensors_, choices_, failed));
      case PlotKind::histogram:
        return one(plot::histogram_of(tensors_, choices_));
      case PlotKind::heat_map:
        return each([&](const NamedTensor& named) { return plot::heat_map_of(named, choices_); });
      case PlotKind::channels:
        return each([&](const NamedTensor& named) { return plot::channels_of(named, against_, choices_); });
    }
    return Picture();
  }

  plot::HeatMap types_of(const std::string& title) const {
    plot::Cells cells;
    for (const NamedTensor& named : tensors_) {
      TensorList one;
      one.push_back(named.tensor);
      cells.add(plot::place_of(named.name), named.name, one, 0);
    }
    return cells.types(title);
  }

  template <class Made>
  static Result<Picture> one(Result<Made> made) {
    Picture picture;
    picture.emplace_back(TRY(std::move(made)));
    return picture;
  }

  template <class Make>
  Result<Picture> each(const Make& make) {
    Picture picture;
    for (const NamedTensor& named : tensors_) {
      auto panel = make(named);
      if (!panel)
        return failure(panel.error().code, fmt::format("tensor {}: {}", quoted(named.name), panel.error().message));
      picture.emplace_back(std::move(*panel));
    }
    return picture;
  }

  const PlotArguments& arguments_;
  const std::vector<NamedTensor>& tensors_;
  const std::vector<NamedTensor>& against_;
  plot::Choices choices_;
  Outcome& outcome_;
  uint64_t total_;
  uint64_t failed_ = 0;  // tensors
  Error first_failure_;
  ProgressBar bar_;
  std::atomic<uint64_t> done_ = 0;
};

// Without a kind, tensors that were named are heat maps, and all of a model an overview.
PlotKind kind_of(const PlotArguments& arguments, size_t tensors) {
  if (arguments.kind) return *arguments.kind;
  if (!arguments.against.empty()) return PlotKind::overview;
  return arguments.patterns.empty() && tensors > 1 ? PlotKind::overview : PlotKind::heat_map;
}

// An option that another kind of picture needs is an error: it would be ignored.
Result<void> check_options(PlotKind kind, const PlotArguments& arguments) {
  const plot::Choices& choices = arguments.choices;
  const bool is_heat_map = kind == PlotKind::heat_map, is_overview = kind == PlotKind::overview;
  const auto only_for = [](bool is_given, bool is_right, const char* option, const char* kinds) -> Result<void> {
    if (is_given && !is_right) return failure(plot_usage(fmt::format("{} is for {}", option, kinds)));
    return {};
  };
  TRY_VOID(only_for(choices.window.has_value(), is_heat_map, "--window", "heat maps"));
  TRY_VOID(only_for(choices.axes.has_value(), is_heat_map, "--axes", "heat maps"));
  TRY_VOID(only_for(!choices.index.empty(), is_heat_map && choices.axes, "--index", "heat maps with --axes"));
  TRY_VOID(only_for(choices.axis.has_value(), kind == PlotKind::channels, "--axis", "channels"));
  TRY_VOID(only_for(choices.metric.has_value(), is_heat_map || is_overview, "--metric", "heat maps and overviews"));
  TRY_VOID(only_for(!arguments.against.empty(), is_overview || kind == PlotKind::channels, "--against",
                    "overviews and channels"));
  const auto metric = choices.metric.value_or(Metric::largest);
  const bool is_of_overviews =
      metric == Metric::sparsity || metric == Metric::bits || metric == Metric::type || metric == Metric::snr;
  TRY_VOID(only_for(is_of_overviews, is_overview, "this --metric", "overviews"));
  if (metric == Metric::snr && arguments.against.empty())
    return failure(plot_usage("--metric snr needs --against MODEL"));
  TRY_VOID(only_for(is_overview && !arguments.against.empty() && choices.metric.has_value(),
                    choices.metric == plot::Metric::snr, "--against", "--metric snr"));
  // Channels, experts and differences are of all elements.
  return only_for(choices.sample,
                  (is_heat_map || is_overview || kind == PlotKind::histogram) && arguments.against.empty(), "--sample",
                  "heat maps, histograms and overviews without --against");
}

// What the picture will have, before the tensors are read: the panels, and the lines of a histogram.
Picture outline_of(PlotKind kind, size_t tensors) {
  if (kind == PlotKind::histogram) {
    plot::Curves curves;
    curves.lines.resize(tensors);
    return {curves};
  }
  return Picture(kind == PlotKind::heat_map || kind == PlotKind::channels ? tensors : 1);
}

// A size that was asked for is never changed.
Result<void> check_size(const Picture& picture, const PlotArguments& arguments) {
  if (arguments.out.empty() || !arguments.size) return {};
  const plot::PictureSize &given = *arguments.size, least = plot::least_size(picture);
  if (given.width >= least.width && given.height >= least.height) return {};
  const bool is_possible = std::max(least.width, least.height) <= plot::kMaxSide;
  return failure(plot_usage(fmt::format(
      "--size {}x{} is too small for this picture, which needs {}x{}; {}", given.width, given.height, least.width,
      least.height, is_possible ? "use a larger size, or leave it out" : "leave it out, or name fewer tensors")));
}

Result<void> check_outline(PlotKind kind, size_t tensors, const PlotArguments& arguments) {
  const Picture outline = outline_of(kind, tensors);
  const bool is_histogram = kind == PlotKind::histogram;
  const size_t parts = is_histogram ? tensors : outline.size(),
               most = is_histogram ? plot::kMaxCurveLines : plot::kMaxPanels;
  if (parts > most)
    return failure(plot_usage(fmt::format("{} tensors match; {} shows at most {}: name fewer, such as those of a layer",
                                          tensors, is_histogram ? "a histogram" : "a picture", most)));
  return check_size(outline, arguments);
}

// As large as was asked for, else with room for all of the picture.
plot::PictureSize size_of(const Picture& picture, const PlotArguments& arguments) {
  if (!arguments.out.empty()) return arguments.size ? *arguments.size : plot::grown({}, picture);
  return plot::grown(plot::terminal_picture_size(), picture);
}

Result<void> check_reading(const std::vector<NamedTensor>& tensors, const PlotArguments& arguments) {
  FigureCost cost;
  for (const NamedTensor& named : tensors) {
    const auto elements = numbers::Elements::of(named.tensor);
    const bool is_read = elements && !arguments.choices.sample;
    cost.add(named.tensor, is_read ? elements->bytes(elements->count()) : 0);
  }
  return cost.check();
}

// As many cells as can be shown.
plot::Choices choices_for(const PlotArguments& arguments, const Display& display, const Picture& outline) {
  plot::Choices choices = arguments.choices;
  choices.threads = processors(kPlotThreads);
  if (display.is_drawn()) {
    const plot::PictureSize area = plot::plot_area(size_of(outline, arguments), outline.size());
    choices.rows = area.height;
    choices.columns = area.width;
  } else {
    const plot::TextCells cells = plot::text_cells(info::style_of_stdout(), plot::text_colours(), outline.size());
    choices.rows = cells.rows;
    choices.columns = cells.columns;
  }
  return choices;
}

// A picture that lacks something is not written to a file.
Exit publish(const Display& display, const PlotArguments& arguments, bool is_any_left, const Failures& failures) {
  if (display.file == nullptr) return failures.status();
  if (failures.status() == Exit::ok) {
    const auto published = display.file->publish();
    return published ? Exit::ok : report_error(published.error());
  }
  const bool is_avoidable = is_any_left && failures.of_models.status() == Exit::ok;
  log_to_stderr(fmt::format("{}: nothing was written{}", printable(arguments.out),
                            is_avoidable ? "; name the tensors that can be shown" : ""));
  return failures.status();
}

Result<Exit> plot_sources(PlotArguments& arguments) {
  if (const auto checked = check_output(arguments); !checked) return report_error(checked.error(), Exit::usage);
  const auto existing = arguments.force ? sandbox::Existing::replaced : sandbox::Existing::kept;
  const Display display = TRY(plot::open_display(arguments.out, arguments.graphics, existing));
  std::vector<std::string> sources = {arguments.input.source};
  if (!arguments.against.empty()) sources.push_back(arguments.against);
  auto opened = TRY(open_each_source(sources, arguments.input, {.output = display.file.get()}));
  for (size_t i = 0; i < opened.forests.size(); ++i)
    opened.forests[i] = only_model(std::move(opened.forests[i]), opened.sources[i]).forest;
  const auto [mapped_a, mapped_b] = TRY(mapped_models(opened.forests, sources));
  Failures failures;
  auto tensors = TRY(
      tensors_of(*opened.forests[0], printable_source(sources[0]), arguments, arguments.patterns, mapped_a, failures));
  // Without patterns, the completeness of the model has reported these.
  if (arguments.patterns.empty())
    std::erase_if(tensors, [](const NamedTensor& named) { return named.tensor.source.refused(); });
  if (tensors.empty()) return publish(display, arguments, false, failures);
  std::vector<NamedTensor> against;
  if (sources.size() > 1)
    against = TRY(tensors_of(*opened.forests[1], printable_source(sources[1]), arguments, {}, mapped_b, failures));

  const PlotKind kind = kind_of(arguments, tensors.size());
  auto checked = check_options(kind, arguments);
  if (checked) checked = check_outline(kind, tensors.size(), arguments);
  if (!checked) return report_error(checked.error(), Exit::usage);
  TRY_VOID(check_reading(tensors, arguments));
  Plotter plotter(arguments, tensors, against, choices_for(arguments, display, outline_of(kind, tensors.size())),
                  failures.of_tensors);
  const Picture picture = TRY(plotter.picture(kind));
  if (const auto fits = check_size(picture, arguments); !fits) return report_error(fits.error(), Exit::usage);
  TRY_VOID(show(picture, size_of(picture, arguments), display));
  if (const auto verified = opened.store->verify_complete(); !verified) failures.of_models.fail_once(verified.error());
  return publish(display, arguments, plotter.failed() < tensors.size(), failures);
}

Exit run_plot(PlotArguments& arguments) {
  const auto status = plot_sources(arguments);
  return status ? *status : report_error(status.error());
}

Option metric_option(PlotArguments& given) {
  return choice(
      "metric", "METRIC",
      "what a cell shows: max, rms or mean; of an overview also type, sparsity, bits or snr (default: max, of "
      "an overview rms)",
      "a metric",
      {{"max", Metric::largest},
       {"rms", Metric::rms},
       {"mean", Metric::mean},
       {"type", Metric::type},
       {"sparsity", Metric::sparsity},
       {"bits", Metric::bits},
       {"snr", Metric::snr}},
      given.choices.metric);
}

Option picture_file_option(PlotArguments& given) {
  Option output = text(
      "output", "FILE",
      "write a PNG, or an SVG or PDF by the ending of FILE; - is a PNG on standard output (default: show it in the "
      "terminal)",
      given.out);
  output.letter = 'o';
  return output;
}

std::vector<Option> plot_options(PlotArguments& given) {
  return {
      picture_file_option(given),
      flag("force", "replace FILE", given.force),
      choice("kind", "KIND",
             "heatmap, histogram or channels of tensors; overview or experts of a model (default: heatmap of named "
             "tensors, else overview)",
             "a kind",
             {{"heatmap", PlotKind::heat_map},
              {"histogram", PlotKind::histogram},
              {"channels", PlotKind::channels},
              {"overview", PlotKind::overview},
              {"experts", PlotKind::experts}},
             given.kind),
      metric_option(given),
      text("against", "MODEL",
           "show how far the tensors are from those of this model, as an overview of their SNR (default: none)",
           given.against),
      parsed("window", "R0:R1,C0:C1", "only these rows and columns of a tensor (default: all)",
             "is not a window such as 0:64,128:256", given.choices.window, plot::parse_window),
      parsed("axes", "DOWN,RIGHT", "the axes of a heat map (default: the last to the right, the others down)",
             "is not a pair of axes such as 0,1", given.choices.axes, plot::parse_axes),
      parsed("index", "I,J,...", "the place on each axis that --axes leaves out (default: 0)",
             "is not a list of numbers", given.choices.index, plot::parse_indices),
      parsed("axis", "N", "the axis of --kind channels (default: the last)", "is not an axis", given.choices.axis,
             [](const std::string& value) { return parse_number<size_t>(value); }),
      flag("sample", "read only a part of large tensors", given.choices.sample),
      parsed("size", "WIDTHxHEIGHT", "size of the file in pixels (default: 1200x800, higher for many rows or tensors)",
             "is not a size from 300x300 to 8192x8192", given.size, plot::parse_size),
      choice("graphics", "HOW", "how a terminal shows it: auto, text, kitty or sixel (default: auto)", "a way",
             {{"auto", GraphicsChoice::automatic},
              {"text", GraphicsChoice::text},
              {"kitty", GraphicsChoice::kitty},
              {"sixel", GraphicsChoice::sixel}},
             given.graphics),
  };
}

}  // namespace

Command plot_command() {
  const auto given = std::make_shared<PlotArguments>();
  return {"plot",
          "draw tensors or a whole model: heat maps, histograms, channels",
          {source_argument(given->input),
           arguments("TENSOR", "name of a tensor, or a pattern such as 'blk.0.*' (default: all)", given->patterns)},
          source_options(given->input, plot_options(*given)),
          {},
          [given] { return run_plot(*given); }};
}

}  // namespace weightfs
