#include "report/plot/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "report/text/bars.h"
#include "report/text/shown_names.h"
#include "report/text/table.h"

namespace weightfs::plot {
namespace {

constexpr size_t kMaxLines = 24;  // of a heat map
constexpr size_t kMinLines = 6;
constexpr size_t kBarLines = 8;
constexpr size_t kMaxNames = 24;  // columns for the names of rows
constexpr const char* kPlain = "\033[0m";
constexpr std::array kShades = {" ", ".", ":", "-", "=", "+", "*", "%", "#"};

// The nearest of the 216 colours of a cube (xterm's palette).
unsigned palette_index(Rgb colour) {
  const auto level = [](uint8_t value) -> unsigned { return value < 48 ? 0 : value < 115 ? 1 : (value - 35U) / 40U; };
  return 16 + 36 * level(colour.red) + 6 * level(colour.green) + level(colour.blue);
}

std::string escape(Rgb colour, TextColours colours, bool is_background) {
  const unsigned what = is_background ? 48 : 38;
  if (colours == TextColours::palette_256) return fmt::format("\033[{};5;{}m", what, palette_index(colour));
  return fmt::format("\033[{};2;{};{};{}m", what, colour.red, colour.green, colour.blue);
}

class TextDrawing {
 public:
  TextDrawing(const info::Style& style, TextColours colours) : style_(style), colours_(colours) {}

  std::vector<std::string> lines(const HeatMap& map) const {
    std::vector<std::string> out = {title_line(map.title, map.note)};
    if (const std::string sentence = map.sentence(); !sentence.empty()) {
      add_text(sentence, out);
      return out;
    }
    const std::vector<std::string> shown = row_names(map);
    const size_t names = std::min(widest(shown), most_name_width());
    const size_t each = is_halved(map) ? 2 : 1;
    for (size_t row = 0; row < map.rows; row += each) {
      std::string line(1, ' ');
      if (names > 0) line += info::left(info::shortened(shown[row], names, style_), names + 1);
      out.push_back(line + cells_of(map, row, each, names));
    }
    add_axis(map, names, out);
    add_scale(map, out);
    return out;
  }

  std::vector<std::string> lines(const Curves& curves) const {
    std::vector<std::string> out = {title_line(curves.title, curves.note)};
    if (!curves.lack().empty()) {
      add_text(std::string(curves.lack()), out);
      return out;
    }
    const auto bar_style = style_.charset == info::Charset::utf8 ? BarStyle::blocks : BarStyle::ascii;
    for (const Curves::Line& line : curves.lines) {
      if (curves.lines.size() > 1) out.push_back(" " + info::clean(line.name, style_));
      const std::vector<double> shown = resampled(line.values, style_.width - 2);
      const double most = std::ranges::max(shown);
      std::vector<uint64_t> heights;
      for (const double value : shown)
        heights.push_back(most > 0 && value > 0 ? static_cast<uint64_t>(std::lround(value / most * 1e6)) : 0);
      for (const std::string& bar : bars(heights, heights.size(), kBarLines, bar_style)) out.push_back(" " + bar);
      out.push_back(" " + ends(tick_text(curves.right.first), tick_text(curves.right.last), shown.size()));
      add_text(fmt::format("{}: highest {}", info::clean(curves.label, style_), tick_text(most)), out);
    }
    return out;
  }

 private:
  // The title may be cut, the note is not.
  std::string title_line(const std::string& title, const std::string& note) const {
    const std::string mark = note.empty() ? "" : "  (" + note + ")";
    const size_t room = style_.width - std::min(style_.width, info::width_of(mark));
    return info::painted(info::cut(info::clean(title, style_), room, style_) + mark, info::Paint::bold);
  }

  // Two rows of cells are in one line if there are colours and no names of rows.
  bool is_halved(const HeatMap& map) const {
    return colours_ != TextColours::none && style_.charset == info::Charset::utf8 && map.down.names.empty();
  }

  size_t most_name_width() const { return std::min(kMaxNames, style_.width / 3); }

  static size_t widest(const std::vector<std::string>& texts) {
    size_t width = 0;
    for (const std::string& text : texts) width = std::max(width, info::width_of(text));
    return width;
  }

  // If a name would be cut, all lack what most of them begin with: the layers differ at their ends.
  std::vector<std::string> row_names(const HeatMap& map) const {
    std::vector<std::string> names;
    for (const std::string& name : map.down.names) names.push_back(info::clean(name, style_));
    if (widest(names) <= most_name_width()) return names;
    const info::ShownNames shown(names.size(), [&](size_t row) { return names[row]; });
    if (shown.shortest() == info::NameForm::whole) return names;
    for (std::string& name : names) name = std::string(shown.shown(name, info::NameForm::without_beginning));
    return names;
  }

  // The characters of a cell beside names of `names` columns: several if the cells have names and fit.
  size_t cell_width(const HeatMap& map, size_t names) const {
    if (map.right.names.empty()) return 1;
    const size_t room = style_.width - 2 - names;
    return std::clamp<size_t>(room / std::max<size_t>(map.columns, 1), 1, 8);
  }

  size_t shown_columns(const HeatMap& map, size_t names) const {
    const size_t room = style_.width - 1 - (names > 0 ? names + 1 : 0);
    return std::min(map.columns, std::max<size_t>(room / cell_width(map, names), 1));
  }

  std::string cells_of(const HeatMap& map, size_t row, size_t each, size_t names) const {
    std::string line;
    const size_t width = cell_width(map, names);
    const size_t shown = shown_columns(map, names);
    for (size_t column = 0; column < shown; ++column) line += cell_of(map, row, column, each, width);
    return colours_ == TextColours::none ? line : line + kPlain;
  }

  std::string cell_of(const HeatMap& map, size_t row, size_t column, size_t each, size_t width) const {
    if (colours_ == TextColours::none) return repeated(shade_of(map, row, column), width);
    if (each == 1) {
      if (map.is_blank(row, column)) return kPlain + std::string(width, ' ');
      return escape(map.colour_of(row, column), colours_, true) + std::string(width, ' ');
    }
    std::string out = escape(map.colour_of(row, column), colours_, false);
    out += row + 1 < map.rows ? escape(map.colour_of(row + 1, column), colours_, true) : "\033[49m";
    return out + "▀";
  }

  static std::string letter_of(size_t category) {
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";
    return std::string(1, kLetters[category % kLetters.size()]);
  }

  static std::string repeated(const std::string& text, size_t times) {
    std::string out;
    for (size_t i = 0; i < times; ++i) out += text;
    return out;
  }

  // Without colours, the distance from 0 (or from the lowest number) is shown; of a category a letter.
  static std::string shade_of(const HeatMap& map, size_t row, size_t column) {
    const double value = map.at(row, column);
    if (map.is_blank(row, column)) return " ";
    if (std::isnan(value)) return "?";
    if (!map.categories.empty()) return letter_of(static_cast<size_t>(value));
    const bool has_signs = map.scale.palette == Palette::blue_orange;
    const plot::Scale scale = has_signs ? plot::Scale{Palette::cividis, 0, map.scale.high} : map.scale;
    const double part = std::clamp(scale.place_of(has_signs ? std::abs(value) : value), 0.0, 1.0);
    // A blank is 0; the lowest magnitude of a model is not.
    const size_t least = has_signs ? 0 : 1;
    return kShades[least + static_cast<size_t>(part * static_cast<double>(kShades.size() - 1 - least) + 0.5)];
  }

  void add_axis(const HeatMap& map, size_t names, std::vector<std::string>& out) const {
    const std::string indent(1 + (names > 0 ? names + 1 : 0), ' ');
    if (map.right.names.empty()) {
      out.push_back(indent + ends(tick_text(map.right.first), tick_text(map.right.last), map.columns));
      const std::string down = map.down.label.empty()
                                   ? ""
                                   : fmt::format("; down: {}, {} to {}", map.down.label, tick_text(map.down.first),
                                                 tick_text(map.down.last));
      return add_text(fmt::format("right: {}{}", map.right.label, down), out);
    }
    // Names of columns are numbered below the map.
    const size_t width = cell_width(map, names);
    const size_t shown = shown_columns(map, names);
    std::string numbers = indent;
    for (size_t i = 0; i < shown && width > 1; ++i)
      numbers += info::left(info::cut(std::to_string(i + 1), width - 1, style_), width);
    out.push_back(numbers);
    std::string list;
    if (shown < map.columns) list = fmt::format("the first {} of {} columns: ", shown, map.columns);
    for (size_t i = 0; i < shown; ++i)
      list += fmt::format("{}{} {}", i == 0 ? "" : ", ", i + 1, info::clean(label_of(map.right.names[i]), style_));
    add_text(list, out);
  }

  void add_text(const std::string& text, std::vector<std::string>& out) const {
    for (const std::string& line : info::wrapped(text, style_.width - 1, style_)) out.push_back(" " + line);
  }

  static std::string ends(const std::string& first, const std::string& last, size_t width) {
    if (first.size() + last.size() + 1 > width) return first + " " + last;
    return first + std::string(width - first.size() - last.size(), ' ') + last;
  }

  // The names with their colours, or their letters.
  void add_legend(const std::vector<std::string>& names, std::vector<std::string>& out) const {
    if (colours_ == TextColours::none) {
      std::string list;
      for (size_t i = 0; i < names.size(); ++i)
        list += fmt::format("{}{} {}", i == 0 ? "" : ", ", letter_of(i), info::clean(names[i], style_));
      return add_text(list, out);
    }
    for (size_t i = 0; i < names.size(); ++i)
      out.push_back(fmt::format(" {}  {} {}", escape(line_colour(i), colours_, true), kPlain,
                                info::cut(info::clean(names[i], style_), style_.width - 4, style_)));
  }

  // With a bar of the colours, if there is room for it.
  void add_scale(const HeatMap& map, std::vector<std::string>& out) const {
    if (!map.categories.empty()) return add_legend(map.categories, out);
    if (!map.lack().empty()) return add_text(fmt::format("{}: {}", map.scale_label, map.lack()), out);
    constexpr size_t kMinSteps = 4, kMaxSteps = 16;
    const std::string begin = fmt::format(" {}: {} ", map.scale_label, tick_text(map.scale.low));
    const std::string end = tick_text(map.scale.high);
    const size_t others = info::width_of(begin) + 1 + info::width_of(end);
    const size_t steps = std::min(kMaxSteps, style_.width - std::min(style_.width, others));
    if (colours_ == TextColours::none || steps < kMinSteps) return add_text(begin.substr(1) + "to " + end, out);
    std::string bar;
    for (size_t i = 0; i < steps; ++i)
      bar += escape(colour_at(map.scale.palette, static_cast<double>(i) / static_cast<double>(steps - 1)), colours_,
                    true) +
             " ";
    out.push_back(fmt::format("{}{}{} {}", begin, bar, kPlain, end));
  }

  // The highest of the values of each of at most `width` columns.
  static std::vector<double> resampled(const std::vector<double>& values, size_t width) {
    std::vector<double> out(std::clamp<size_t>(values.size(), 1, width), 0);
    for (size_t i = 0; i < values.size(); ++i) {
      double& column = out[i * out.size() / values.size()];
      if (std::isfinite(values[i])) column = std::max(column, values[i]);
    }
    return out;
  }

  const info::Style& style_;
  TextColours colours_;
};

}  // namespace

TextColours text_colours() {
  if (!stdout_has_colors()) return TextColours::none;
  const std::string colours = environment("COLORTERM");
  return colours == "truecolor" || colours == "24bit" ? TextColours::true_colour : TextColours::palette_256;
}

TextCells text_cells(const info::Style& style, TextColours colours, size_t panels) {
  const size_t lines = std::max(kMinLines, kMaxLines / std::max<size_t>(panels, 1));
  const bool is_halved = colours != TextColours::none && style.charset == info::Charset::utf8;
  return {is_halved ? 2 * lines : lines, style.width - 2};
}

std::vector<std::string> to_text(const Picture& picture, const info::Style& style, TextColours colours) {
  std::vector<std::string> out;
  const TextDrawing drawing(style, colours);
  for (const Panel& panel : picture) {
    if (!out.empty()) out.emplace_back();
    for (std::string& line : std::visit([&](const auto& one) { return drawing.lines(one); }, panel))
      out.push_back(std::move(line));
  }
  return out;
}

}  // namespace weightfs::plot
