#include "report/plot/vector/pdf.h"

#include <fmt/core.h>

#include <cmath>
#include <string_view>
#include <utility>

#include "report/plot/raster/deflate.h"
#include "report/plot/raster/font.h"
#include "report/plot/vector/numbers.h"

namespace weightfs::plot {
namespace {

constexpr double kPoint = 0.75;  // of a pixel: 96 pixels are an inch, as are 72 points

std::string colour_numbers(Rgb colour) {
  const auto part = [](uint8_t value) { return fmt::format("{:.3f}", value / 255.0); };
  return fmt::format("{} {} {}", part(colour.red), part(colour.green), part(colour.blue));
}

// Objects with their offsets, which the end of the file lists.
class PdfFile {
 public:
  PdfFile() : out_("%PDF-1.4\n%\xE2\xE3\xCF\xD3\n") {}

  void add(std::string_view dictionary) {
    begin();
    out_ += fmt::format("<< {} >>\nendobj\n", dictionary);
  }
  Result<void> add_stream(std::string_view dictionary, std::string_view bytes) {
    const std::string compressed = TRY(deflated(bytes));
    begin();
    out_ += fmt::format("<< {}/Filter /FlateDecode /Length {} >>\nstream\n", dictionary, compressed.size());
    out_ += compressed;
    out_ += "\nendstream\nendobj\n";
    return {};
  }
  // ISO 32000-1, 7.5.4: an entry has 20 bytes.
  std::string finish() && {
    const size_t table = out_.size();
    out_ += fmt::format("xref\n0 {}\n0000000000 65535 f \n", offsets_.size() + 1);
    for (const size_t offset : offsets_) out_ += fmt::format("{:010} 00000 n \n", offset);
    out_ += fmt::format("trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{}\n%%EOF\n", offsets_.size() + 1, table);
    return std::move(out_);
  }

 private:
  void begin() {
    offsets_.push_back(out_.size());
    out_ += fmt::format("{} 0 obj\n", offsets_.size());
  }

  std::string out_;
  std::vector<size_t> offsets_;
};

}  // namespace

// Pixels from the upper left corner.
PdfDrawing::PdfDrawing(size_t width, size_t height)
    : width_(width),
      height_(height),
      content_(fmt::format("{0} 0 0 -{0} 0 {1} cm\n", kPoint, number_text(kPoint * static_cast<double>(height)))) {}

void PdfDrawing::line(std::span<const Point> points, Rgb colour, double width, Dashes dashes) {
  const std::string dash = dashes == Dashes::some ? fmt::format("[{} {}] 0 d", kDash, kPeriod - kDash) : "[] 0 d";
  for (const std::span<const Point> run : finite_runs(points)) {
    content_ += fmt::format("{} RG {} w {}\n", colour_numbers(colour), number_text(width), dash);
    for (const Point& point : run)
      content_ += fmt::format("{} {} {}\n", number_text(point.first), number_text(point.second),
                              &point == run.data() ? 'm' : 'l');
    content_ += "S\n";
  }
}

// The outlines are made large, where they do not depend on pixels.
void PdfDrawing::text(const std::string& text, double x, double y, double size, Anchor anchor, bool upwards) {
  constexpr double kFiner = 16;
  if (!std::isfinite(x) || !std::isfinite(y)) return;
  const double width = advance_of(text, size * kFiner) / kFiner;
  const double shift = anchor == Anchor::start ? 0 : anchor == Anchor::middle ? width / 2 : width;
  content_ += fmt::format("q {} rg ", colour_numbers(kInk));
  if (upwards)
    content_ += fmt::format("0 -1 1 0 {} {} cm\n", number_text(x), number_text(y + shift));
  else
    content_ += fmt::format("1 0 0 1 {} {} cm\n", number_text(x - shift), number_text(y));
  for (const std::vector<Point>& polygon : outlines_of(text, size * kFiner)) {
    for (const Point& point : polygon)
      content_ += fmt::format("{} {} {}\n", number_text(point.first / kFiner), number_text(point.second / kFiner),
                              &point == polygon.data() ? 'm' : 'l');
    content_ += "h\n";
  }
  content_ += "f Q\n";
}

void PdfDrawing::image(std::span<const Rgb> cells, size_t columns, size_t rows, double x, double y, double width,
                       double height) {
  if (columns == 0 || rows == 0 || !is_area(x, y, width, height)) return;
  Image& image = images_.emplace_back(Image{columns, rows, ""});
  image.pixels.reserve(3 * columns * rows);
  for (const Rgb& cell : cells.first(columns * rows))
    for (const uint8_t part : {cell.red, cell.green, cell.blue}) image.pixels += static_cast<char>(part);
  content_ += fmt::format("q {} 0 0 -{} {} {} cm /I{} Do Q\n", number_text(width), number_text(height), number_text(x),
                          number_text(y + height), images_.size());
}

Result<std::string> PdfDrawing::finish() && {
  constexpr size_t kFirstImage = 5;  // the number of its object
  PdfFile file;
  file.add("/Type /Catalog /Pages 2 0 R");
  file.add("/Type /Pages /Kids [3 0 R] /Count 1");
  std::string names;
  for (size_t i = 0; i < images_.size(); ++i) names += fmt::format("/I{} {} 0 R ", i + 1, kFirstImage + i);
  file.add(fmt::format(
      "/Type /Page /Parent 2 0 R /MediaBox [0 0 {} {}] /Contents 4 0 R /Resources << /XObject << {}>> >>",
      number_text(kPoint * static_cast<double>(width_)), number_text(kPoint * static_cast<double>(height_)), names));
  TRY_VOID(file.add_stream("", content_));
  for (const Image& image : images_)
    TRY_VOID(file.add_stream(fmt::format("/Type /XObject /Subtype /Image /Width {} /Height {} /ColorSpace /DeviceRGB "
                                         "/BitsPerComponent 8 /Interpolate false ",
                                         image.columns, image.rows),
                             image.pixels));
  return std::move(file).finish();
}

}  // namespace weightfs::plot
