#include "cli/plot/cairo.h"

#include <vector>

#ifdef WEIGHTFS_PLOT
#include <cairo/cairo.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/text.h"
#endif

namespace weightfs::plot {

#ifdef WEIGHTFS_PLOT

namespace {

constexpr const char* kLibrary = "libcairo.so.2";
constexpr const char* kFont = "sans-serif";

// The functions of Cairo that are used.
#define WEIGHTFS_CAIRO(use)                                                                                         \
  use(cairo_image_surface_create) use(cairo_create) use(cairo_destroy) use(cairo_surface_destroy) use(cairo_status) \
      use(cairo_surface_status) use(cairo_surface_flush) use(cairo_surface_mark_dirty)                              \
          use(cairo_image_surface_get_data) use(cairo_image_surface_get_stride) use(cairo_image_surface_get_width)  \
              use(cairo_image_surface_get_height) use(cairo_surface_write_to_png_stream) use(cairo_set_source_rgb)  \
                  use(cairo_rectangle) use(cairo_fill) use(cairo_move_to) use(cairo_line_to) use(cairo_stroke)      \
                      use(cairo_set_line_width) use(cairo_set_dash) use(cairo_save) use(cairo_restore)              \
                          use(cairo_translate) use(cairo_scale) use(cairo_rotate) use(cairo_select_font_face)       \
                              use(cairo_set_font_size) use(cairo_show_text) use(cairo_text_extents)                 \
                                  use(cairo_set_source_surface) use(cairo_get_source) use(cairo_pattern_set_filter) \
                                      use(cairo_paint) use(cairo_set_antialias) use(cairo_status_to_string)

struct Functions {
#define WEIGHTFS_MEMBER(name) decltype(&::name) name = nullptr;
  WEIGHTFS_CAIRO(WEIGHTFS_MEMBER)
#undef WEIGHTFS_MEMBER
};

Functions cairo;  // set by load()

Result<void> load_functions() {
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);  // until the process ends
  if (library == nullptr)
    return failure(Code::unsupported, std::string("pictures need Cairo: install libcairo2 (") + ::dlerror() + ")");
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    return function != nullptr;
  };
  bool has_all = true;
#define WEIGHTFS_FIND(name) has_all = find(#name, cairo.name) && has_all;
  WEIGHTFS_CAIRO(WEIGHTFS_FIND)
#undef WEIGHTFS_FIND
  if (!has_all) return failure(Code::unsupported, "pictures need a newer libcairo2");
  return {};
}

// Cairo refuses texts with code points that are no characters, and then draws nothing more.
std::string drawable(const std::string& text) {
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t length = utf8_sequence(rest);
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(rest[i]); };
    const bool is_last_of_plane = length >= 3 && byte(length - 2) == 0xBF && byte(length - 1) >= 0xBE &&
                                  (length == 3 ? byte(0) == 0xEF : (byte(1) & 0x0F) == 0x0F);
    const bool is_of_fdd0 = length == 3 && byte(0) == 0xEF && byte(1) == 0xB7 && byte(2) >= 0x90 && byte(2) <= 0xAF;
    out += length == 0 || is_last_of_plane || is_of_fdd0 ? "?" : rest.substr(0, length);
    rest.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

struct Write {
  const std::function<Result<void>(std::span<const std::byte>)>& write;
  Result<void> result;
};

cairo_status_t write_part(void* closure, const unsigned char* data, unsigned int size) {
  auto& to = *static_cast<Write*>(closure);
  to.result = to.write(std::as_bytes(std::span(data, size)));
  return to.result ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

}  // namespace

struct Canvas::State {
  cairo_surface_t* surface = nullptr;
  cairo_t* context = nullptr;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (context != nullptr) cairo.cairo_destroy(context);
    if (surface != nullptr) cairo.cairo_surface_destroy(surface);
  }

  void set(Rgb colour) const {
    cairo.cairo_set_source_rgb(context, colour.red / 255.0, colour.green / 255.0, colour.blue / 255.0);
  }
};

Canvas::Canvas(std::unique_ptr<State> state) : state_(std::move(state)) {}
Canvas::Canvas(Canvas&&) noexcept = default;
Canvas::~Canvas() = default;

// The font stays open after the first text, so later ones read no more files.
Result<void> Canvas::load() {
  TRY_VOID(load_functions());
  auto canvas = TRY(create(1, 1));
  std::string all;
  for (char c = ' '; c <= '~'; ++c) all += c;
  for (const double size : {11.0, 13.0, 16.0}) {
    canvas.text_width(all, size);
    canvas.text(all, 0, 0, size, Anchor::start);
    canvas.text(all, 0, 0, size, Anchor::start, true);
  }
  return {};
}

Result<Canvas> Canvas::create(size_t width, size_t height) {
  auto state = std::make_unique<State>();
  state->surface =
      cairo.cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(width), static_cast<int>(height));
  state->context = cairo.cairo_create(state->surface);
  if (const auto status = cairo.cairo_status(state->context); status != CAIRO_STATUS_SUCCESS)
    return failure(Code::resource, std::string("cairo: ") + cairo.cairo_status_to_string(status));
  cairo.cairo_select_font_face(state->context, kFont, CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
  Canvas canvas(std::move(state));
  canvas.fill(0, 0, static_cast<double>(width), static_cast<double>(height), {255, 255, 255});
  return canvas;
}

void Canvas::fill(double x, double y, double width, double height, Rgb colour) {
  state_->set(colour);
  cairo.cairo_set_antialias(state_->context, CAIRO_ANTIALIAS_NONE);
  cairo.cairo_rectangle(state_->context, x, y, width, height);
  cairo.cairo_fill(state_->context);
  cairo.cairo_set_antialias(state_->context, CAIRO_ANTIALIAS_DEFAULT);
}

void Canvas::line(std::span<const std::pair<double, double>> points, Rgb colour, double width, Dashes dashes) {
  constexpr std::array kDashes = {4.0, 2.0};  // pixels drawn, and left out
  if (points.empty()) return;
  state_->set(colour);
  cairo.cairo_set_dash(state_->context, kDashes.data(), dashes == Dashes::none ? 0 : kDashes.size(), 0);
  cairo.cairo_set_line_width(state_->context, width);
  cairo.cairo_move_to(state_->context, points.front().first, points.front().second);
  for (const auto& [x, y] : points.subspan(1)) cairo.cairo_line_to(state_->context, x, y);
  cairo.cairo_stroke(state_->context);
}

double Canvas::text_width(const std::string& text, double size) {
  cairo_text_extents_t extents;
  cairo.cairo_set_font_size(state_->context, size);
  cairo.cairo_text_extents(state_->context, drawable(text).c_str(), &extents);
  return extents.x_advance;
}

void Canvas::text(const std::string& text, double x, double y, double size, Anchor anchor, bool upwards) {
  const double width = text_width(text, size);
  const double shift = anchor == Anchor::start ? 0 : anchor == Anchor::middle ? width / 2 : width;
  cairo_t* const context = state_->context;
  state_->set({40, 40, 40});
  cairo.cairo_save(context);
  cairo.cairo_translate(context, x, y);
  if (upwards) cairo.cairo_rotate(context, -1.5707963267948966);
  cairo.cairo_move_to(context, -shift, 0);
  cairo.cairo_show_text(context, drawable(text).c_str());
  cairo.cairo_restore(context);
}

void Canvas::image(std::span<const Rgb> cells, size_t columns, size_t rows, double x, double y, double width,
                   double height) {
  if (columns == 0 || rows == 0) return;
  cairo_surface_t* const surface =
      cairo.cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(columns), static_cast<int>(rows));
  if (cairo.cairo_surface_status(surface) != CAIRO_STATUS_SUCCESS) return cairo.cairo_surface_destroy(surface);
  unsigned char* const data = cairo.cairo_image_surface_get_data(surface);
  const auto stride = static_cast<size_t>(cairo.cairo_image_surface_get_stride(surface));
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      const Rgb& cell = cells[row * columns + column];
      const uint32_t pixel = uint32_t{cell.red} << 16 | uint32_t{cell.green} << 8 | cell.blue;
      std::memcpy(data + row * stride + column * sizeof(pixel), &pixel, sizeof(pixel));
    }
  }
  cairo.cairo_surface_mark_dirty(surface);
  cairo_t* const context = state_->context;
  cairo.cairo_save(context);
  cairo.cairo_rectangle(context, x, y, width, height);
  cairo.cairo_translate(context, x, y);
  cairo.cairo_scale(context, width / static_cast<double>(columns), height / static_cast<double>(rows));
  cairo.cairo_set_source_surface(context, surface, 0, 0);
  cairo.cairo_pattern_set_filter(cairo.cairo_get_source(context), CAIRO_FILTER_NEAREST);
  cairo.cairo_fill(context);
  cairo.cairo_restore(context);
  cairo.cairo_surface_destroy(surface);
}

Result<void> Canvas::check() const {
  const auto status = cairo.cairo_status(state_->context);
  if (status == CAIRO_STATUS_SUCCESS) return {};
  return failure(Code::resource, std::string("cairo: ") + cairo.cairo_status_to_string(status));
}

size_t Canvas::width() const { return static_cast<size_t>(cairo.cairo_image_surface_get_width(state_->surface)); }
size_t Canvas::height() const { return static_cast<size_t>(cairo.cairo_image_surface_get_height(state_->surface)); }

std::vector<Rgb> Canvas::pixels() const {
  cairo.cairo_surface_flush(state_->surface);
  const unsigned char* const data = cairo.cairo_image_surface_get_data(state_->surface);
  const auto stride = static_cast<size_t>(cairo.cairo_image_surface_get_stride(state_->surface));
  std::vector<Rgb> out;
  out.reserve(width() * height());
  for (size_t row = 0; row < height(); ++row) {
    for (size_t column = 0; column < width(); ++column) {
      uint32_t pixel = 0;
      std::memcpy(&pixel, data + row * stride + column * sizeof(pixel), sizeof(pixel));
      out.push_back({static_cast<uint8_t>(pixel >> 16), static_cast<uint8_t>(pixel >> 8), static_cast<uint8_t>(pixel)});
    }
  }
  return out;
}

Result<void> Canvas::write_png(const std::function<Result<void>(std::span<const std::byte>)>& write) const {
  Write to{write, {}};
  const auto status = cairo.cairo_surface_write_to_png_stream(state_->surface, write_part, &to);
  if (!to.result) return to.result;
  if (status != CAIRO_STATUS_SUCCESS)
    return failure(Code::resource, std::string("cairo: ") + cairo.cairo_status_to_string(status));
  return {};
}

#else

struct Canvas::State {};
Canvas::Canvas(std::unique_ptr<State> state) : state_(std::move(state)) {}
Canvas::Canvas(Canvas&&) noexcept = default;
Canvas::~Canvas() = default;
Result<void> Canvas::load() {
  return failure(Code::unsupported, "this weightfs was built without Cairo (WEIGHTFS_PLOT), so it draws no pictures");
}
Result<Canvas> Canvas::create(size_t, size_t) { return failure(Code::unsupported, "no Cairo"); }
void Canvas::fill(double, double, double, double, Rgb) {}
void Canvas::line(std::span<const std::pair<double, double>>, Rgb, double, Dashes) {}
void Canvas::text(const std::string&, double, double, double, Anchor, bool) {}
double Canvas::text_width(const std::string&, double) { return 0; }
void Canvas::image(std::span<const Rgb>, size_t, size_t, double, double, double, double) {}
Result<void> Canvas::check() const { return {}; }
size_t Canvas::width() const { return 0; }
size_t Canvas::height() const { return 0; }
std::vector<Rgb> Canvas::pixels() const { return {}; }
Result<void> Canvas::write_png(const std::function<Result<void>(std::span<const std::byte>)>&) const { return {}; }

#endif

}  // namespace weightfs::plot
