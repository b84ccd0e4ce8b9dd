#include "report/plot/draw.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/text.h"
#include "report/plot/raster/font.h"

namespace weightfs::plot {
namespace {

constexpr double kLeft = 96, kRight = 116, kTop = 34, kBottom = 46;  // around the plot area
constexpr double kTitle = 16, kLabel = 13, kNumber = 11;             // sizes of texts
constexpr double kScaleWidth = 16;
constexpr double kRow = 13, kLegendRow = 16;  // the height of a name
constexpr double kLeastPlot = 70,
                 kUsualPlot = 120;    // the height of a plot area: of two ticks, and of the words beside it
constexpr double kLeastColumns = 88;  // pixels
constexpr double kNamesShare = 4;     // the names of rows take at most this part of the width
constexpr Rgb kLineGrey{120, 120, 120}, kGridGrey{225, 225, 225}, kBlank{238, 238, 238};

// The part of a text that fits.
std::string fitting(const std::string& text, double size, double width) {
  constexpr size_t kMostBytes = 400;  // more than any picture shows
  std::string shown = printable(text.substr(0, kMostBytes));
  if (text.size() > kMostBytes) shown += "...";
  if (advance_of(shown, size) <= width) return shown;
  while (!shown.empty() && advance_of(shown + "...", size) > width) {
    shown.pop_back();
    while (!shown.empty() && !is_utf8(shown)) shown.pop_back();
  }
  return shown + "...";
}

// The area of a panel, and the plot area in it.
struct Area {
  double x, y, width, height;
};

class PanelDrawing {
 public:
  PanelDrawing(Drawing& canvas, const Area& panel)
      : canvas_(canvas),
        panel_(panel),
        plot_{panel.x + kLeft, panel.y + kTop, panel.width - kLeft - kRight, panel.height - kTop - kBottom} {}

  void draw(const HeatMap& map) {
    double names = 0;
    for (const std::string& name : map.down.names)
      names = std::max(names, advance_of(fitting(name, kNumber, panel_.width), kNumber));
    make_room(std::min(names + 34, panel_.width / kNamesShare), 0);
    add_title(map.title, map.note);
    if (const std::string sentence = map.sentence(); !sentence.empty()) {
      canvas_.text(fitting(sentence, kLabel, plot_.width), plot_.x + plot_.width / 2, plot_.y + plot_.height / 2,
                   kLabel, Drawing::Anchor::middle);
      return add_frame();
    }
    std::vector<Rgb> cells;
    cells.reserve(map.values.size());
    for (size_t row = 0; row < map.rows; ++row)
      for (size_t column = 0; column < map.columns; ++column)
        cells.push_back(map.is_blank(row, column) ? kBlank : map.colour_of(row, column));
    canvas_.image(cells, map.columns, map.rows, plot_.x, plot_.y, plot_.width, plot_.height);
    add_frame();
    add_right_axis(map.right, kIndexStep);
    add_down_axis(map.down, /*is_upwards=*/false, kIndexStep);
    if (!map.categories.empty())
      add_legend(map.categories);
    else if (map.lack().empty())
      add_scale(map);
    else
      add_lack(map.lack());
  }

  void draw(const Curves& curves) {
    double names = 0;
    for (const Curves::Line& line : curves.lines)
      names = std::max(names, advance_of(fitting(line.name, kNumber, panel_.width), kNumber));
    make_room(0, std::min(names + 36, panel_.width / kNamesShare));
    add_title(curves.title, curves.note);
    const Axis vertical = vertical_axis(curves);
    add_grid(vertical);
    for (size_t i = 0; i < curves.lines.size(); ++i) {
      const auto dashes = is_dashed(i) ? Dashes::some : Dashes::none;
      for (const Points& points : lines_of(curves, curves.lines[i].values, vertical))
        canvas_.line(points, line_colour(i), 1.5, dashes);
      const double y = plot_.y + 12 + kLegendRow * static_cast<double>(i);
      const double x = plot_.x + plot_.width + 8;
      canvas_.line(Points{{x, y - 3.5}, {x + 12, y - 3.5}}, line_colour(i), 3, dashes);
      canvas_.text(fitting(curves.lines[i].name, kNumber, panel_.width - (x - panel_.x) - 26), x + 16, y, kNumber,
                   Drawing::Anchor::start);
    }
    add_frame();
    add_right_axis(curves.right, curves.are_steps ? 0 : kIndexStep);
    add_down_axis(vertical, /*is_upwards=*/true, 0);
    if (!curves.lack().empty()) add_lack(curves.lack());
  }

 private:
  using Points = std::vector<std::pair<double, double>>;
  static constexpr double kIndexStep = 1;  // ticks are at whole indices

  // The margins are at least this wide.
  void make_room(double left, double right) {
    const double x = panel_.x + std::max(left, kLeft);
    plot_ = {x, plot_.y, panel_.x + panel_.width - std::max(right, kRight) - x, plot_.height};
  }

  void add_title(const std::string& title, const std::string& note) {
    const std::string mark = note.empty() ? "" : "  (" + note + ")";
    const double room = panel_.width - (plot_.x - panel_.x) - 10 - advance_of(mark, kTitle);
    canvas_.text(fitting(title, kTitle, room) + mark, plot_.x, panel_.y + 22, kTitle, Drawing::Anchor::start);
  }

  void add_lack(std::string_view words) {
    canvas_.text(std::string(words), plot_.x + plot_.width + 8, plot_.y + plot_.height / 2, kNumber,
                 Drawing::Anchor::start);
  }

  void add_frame() {
    const double right = plot_.x + plot_.width, bottom = plot_.y + plot_.height;
    const Points frame = {{plot_.x - 0.5, plot_.y - 0.5},
                          {right + 0.5, plot_.y - 0.5},
                          {right + 0.5, bottom + 0.5},
                          {plot_.x - 0.5, bottom + 0.5},
                          {plot_.x - 0.5, plot_.y - 0.5}};
    canvas_.line(frame, kLineGrey, 1);
  }

  double x_of(const Axis& axis, double value) const {
    return plot_.x + (axis.last > axis.first ? (value - axis.first) / (axis.last - axis.first) : 0.5) * plot_.width;
  }
  double y_of(const Axis& axis, double value, bool is_upwards) const {
    const double part = axis.last > axis.first ? (value - axis.first) / (axis.last - axis.first) : 0.5;
    return plot_.y + (is_upwards ? 1 - part : part) * plot_.height;
  }

  void add_right_axis(const Axis& axis, double least_step) {
    const double bottom = plot_.y + plot_.height;
    const auto tick = [&](double x, const std::string& text) {
      canvas_.line(Points{{x, bottom}, {x, bottom + 4}}, kLineGrey, 1);
      canvas_.text(text, x, bottom + 16, kNumber, Drawing::Anchor::middle);
    };
    if (axis.names.empty()) {
      for (const double value : ticks_of(axis.first, axis.last, static_cast<size_t>(plot_.width / 90) + 1, least_step))
        tick(x_of(axis, value), tick_text(value));
    } else {
      const double each = plot_.width / static_cast<double>(axis.names.size());
      const auto step = static_cast<size_t>(std::ceil(46 / each));
      for (size_t i = 0; i < axis.names.size(); i += step)
        tick(plot_.x + (static_cast<double>(i) + 0.5) * each,
             fitting(std::string(label_of(axis.names[i])), kNumber, each * static_cast<double>(step) - 4));
    }
    canvas_.text(axis.label, plot_.x + plot_.width / 2, bottom + 36, kLabel, Drawing::Anchor::middle);
  }

  void add_down_axis(const Axis& axis, bool is_upwards, double least_step) {
    const auto tick = [&](double y, const std::string& text) {
      canvas_.line(Points{{plot_.x - 4, y}, {plot_.x, y}}, kLineGrey, 1);
      canvas_.text(text, plot_.x - 7, y + 4, kNumber, Drawing::Anchor::end);
    };
    if (axis.names.empty()) {
      for (const double value : ticks_of(axis.first, axis.last, static_cast<size_t>(plot_.height / 45) + 1, least_step))
        tick(y_of(axis, value, is_upwards), tick_text(value));
    } else {
      const double each = plot_.height / static_cast<double>(axis.names.size());
      const auto step = static_cast<size_t>(std::ceil(kRow / each - 1e-9));  // a rounded height is not less than a row
      for (size_t i = 0; i < axis.names.size(); i += step)
        tick(plot_.y + (static_cast<double>(i) + 0.5) * each, fitting(axis.names[i], kNumber, plot_.x - panel_.x - 30));
    }
    canvas_.text(axis.label, panel_.x + 16, plot_.y + plot_.height / 2, kLabel, Drawing::Anchor::middle, true);
  }

  // A square of its colour beside each name.
  void add_legend(const std::vector<std::string>& names) {
    const double x = plot_.x + plot_.width + 8;
    for (size_t i = 0; i < names.size(); ++i) {
      const double y = plot_.y + 12 + kLegendRow * static_cast<double>(i);
      const Rgb colour = line_colour(i);
      canvas_.image(std::span(&colour, 1), 1, 1, x, y - 9, 10, 10);
      canvas_.text(fitting(names[i], kNumber, panel_.width - (x - panel_.x) - 24), x + 14, y, kNumber,
                   Drawing::Anchor::start);
    }
  }

  void add_scale(const HeatMap& map) {
    constexpr size_t kSteps = 128;
    std::vector<Rgb> steps;
    for (size_t i = 0; i < kSteps; ++i)
      steps.push_back(colour_at(map.scale.palette, 1 - static_cast<double>(i) / (kSteps - 1)));
    const double x = plot_.x + plot_.width + 14;
    canvas_.image(steps, 1, kSteps, x, plot_.y, kScaleWidth, plot_.height);
    for (const double value : ticks_of(map.scale, static_cast<size_t>(plot_.height / 45) + 1)) {
      const double y = plot_.y + (1 - map.scale.place_of(value)) * plot_.height;
      canvas_.text(tick_text(value), x + kScaleWidth + 5, y + 4, kNumber, Drawing::Anchor::start);
    }
    canvas_.text(map.scale_label, panel_.x + panel_.width - 8, plot_.y + plot_.height / 2, kLabel,
                 Drawing::Anchor::middle, true);
  }

  Axis vertical_axis(const Curves& curves) {
    double low = INFINITY, high = -INFINITY;
    for (const Curves::Line& line : curves.lines) {
      for (const double value : line.values) {
        if (!std::isfinite(value)) continue;
        low = std::min(low, value);
        high = std::max(high, value);
      }
    }
    if (!(low <= high)) low = 0, high = 1;
    low = std::min(low, 0.0);
    const double margin = high > low ? (high - low) * 0.04 : 0.5;
    return {curves.label, low < 0 ? low - margin : low, high + margin, {}};
  }

  void add_grid(const Axis& vertical) {
    for (const double value : ticks_of(vertical.first, vertical.last, static_cast<size_t>(plot_.height / 45) + 1)) {
      const double y = y_of(vertical, value, true);
      canvas_.line(Points{{plot_.x, y}, {plot_.x + plot_.width, y}}, kGridGrey, 1);
    }
  }

  // A line for each run of finite values.
  std::vector<Points> lines_of(const Curves& curves, const std::vector<double>& values, const Axis& vertical) const {
    const auto count = static_cast<double>(values.size());
    const double intervals = curves.are_steps ? count : std::max(count - 1, 0.5);
    const auto x = [&](double place) { return plot_.x + std::clamp(place / intervals, 0.0, 1.0) * plot_.width; };
    const auto is_finite = [](double value) { return std::isfinite(value); };
    std::vector<Points> lines;
    for (auto begin = std::ranges::find_if(values, is_finite); begin != values.end();) {
      const auto end = std::find_if_not(begin, values.end(), is_finite);
      const bool is_alone = !curves.are_steps && end - begin == 1;  // it has no other to be joined with
      Points& points = lines.emplace_back();
      for (auto value = begin; value != end; ++value) {
        const double y = y_of(vertical, *value, true);
        const auto place = static_cast<double>(value - values.begin());
        points.emplace_back(x(is_alone ? place - 0.5 : place), y);
        if (is_alone || curves.are_steps) points.emplace_back(x(is_alone ? place + 0.5 : place + 1), y);
      }
      begin = std::find_if(end, values.end(), is_finite);
    }
    return lines;
  }

  Drawing& canvas_;
  Area panel_;
  Area plot_;
};

// The height of the plot area in which each name has a line.
double room_of(const HeatMap& map) {
  return std::max(kRow * static_cast<double>(map.down.names.size()),
                  kLegendRow * static_cast<double>(map.categories.size()));
}
double room_of(const Curves& curves) { return kLegendRow * static_cast<double>(curves.lines.size()); }

size_t whole_height(const Picture& picture, double plot) {
  return std::max<size_t>(picture.size(), 1) * static_cast<size_t>(std::ceil(kTop + plot + kBottom));
}

}  // namespace

PictureSize plot_area(const PictureSize& size, size_t panels) {
  const auto inside = [](double whole, double around) { return static_cast<size_t>(std::max(whole - around, 16.0)); };
  return {inside(static_cast<double>(size.width), kLeft + kRight),
          inside(static_cast<double>(size.height / std::max<size_t>(panels, 1)), kTop + kBottom)};
}

PictureSize grown(PictureSize size, const Picture& picture) {
  double plot = kUsualPlot;
  for (const Panel& panel : picture)
    plot = std::max(plot, std::visit([](const auto& one) { return room_of(one); }, panel));
  size.height = std::max(size.height, whole_height(picture, plot));
  return size;
}

PictureSize least_size(const Picture& picture) {
  double plot = kLeastPlot, columns = kLeastColumns;
  for (const Panel& panel : picture) {
    if (const auto* const map = std::get_if<HeatMap>(&panel)) {
      plot = std::max(plot, static_cast<double>(map->down.names.size()));  // a pixel for each
      plot = std::max(plot, kLegendRow * static_cast<double>(map->categories.size()));
      columns = std::max(columns, static_cast<double>(map->right.names.size()));
    } else {
      plot = std::max(plot, room_of(std::get<Curves>(panel)));
    }
  }
  const double left = std::max(kLeft, (columns + kRight) / (kNamesShare - 1));
  return {static_cast<size_t>(std::ceil(columns + left + kRight)), whole_height(picture, plot)};
}

Result<void> draw(const Picture& picture, const PictureSize& size, Drawing& drawing) {
  const PictureSize least = least_size(picture);
  if (size.width < least.width || size.height < least.height)
    return failure(Code::unsupported, fmt::format("{} x {} pixels are too few for this picture; it needs {} x {}",
                                                  size.width, size.height, least.width, least.height));
  const double height = static_cast<double>(size.height) / static_cast<double>(std::max<size_t>(picture.size(), 1));
  for (size_t i = 0; i < picture.size(); ++i) {
    PanelDrawing panel(drawing, {0, height * static_cast<double>(i), static_cast<double>(size.width), height});
    std::visit([&](const auto& one) { panel.draw(one); }, picture[i]);
  }
  return {};
}

Result<Canvas> draw(const Picture& picture, const PictureSize& size) {
  Canvas canvas = TRY(Canvas::create(size.width, size.height));
  TRY_VOID(draw(picture, size, canvas));
  return canvas;
}

}  // namespace weightfs::plot
