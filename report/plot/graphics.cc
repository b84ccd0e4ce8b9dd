#include "report/plot/graphics.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "base/values/base64.h"

namespace weightfs::plot {
namespace {

constexpr int kWait = 200;            // milliseconds
constexpr size_t kMaxReply = 256;     // bytes
constexpr size_t kKittyChunk = 4096;  // bytes of base64, at most, in one sequence
constexpr unsigned kReds = 6, kGreens = 7, kBlues = 6;

// While it exists, the terminal passes on bytes at once, and shows none.
class RawTerminal {
 public:
  RawTerminal() : is_set_(::tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!is_set_) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    is_set_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
  }
  ~RawTerminal() {
    if (is_set_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  bool is_set() const { return is_set_; }

 private:
  termios before_{};
  bool is_set_;
};

// The reply to "primary device attributes": ESC [ ? 62 ; 4 ; … c. Empty without one.
std::string device_attributes() {
  const RawTerminal raw;
  constexpr std::string_view kRequest = "\033[c";
  if (!raw.is_set() || ::write(STDOUT_FILENO, kRequest.data(), kRequest.size()) < 0) return {};
  std::string reply;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kWait);
  while (reply.size() < kMaxReply && !reply.ends_with('c')) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd readable{STDIN_FILENO, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) <= 0) return {};
    char byte = 0;
    if (::read(STDIN_FILENO, &byte, 1) != 1) return {};
    reply += byte;
  }
  return reply;
}

bool has_sixel(const std::string& attributes) {
  const size_t begin = attributes.find("\033[?");
  if (begin == attributes.npos) return false;
  const std::string list = ";" + attributes.substr(begin + 3, attributes.size() - begin - 4) + ";";
  return list.find(";4;") != list.npos;
}

unsigned colour_index(Rgb colour) {
  const auto level = [](unsigned value, unsigned levels) { return (value * (levels - 1) + 127) / 255; };
  return (level(colour.red, kReds) * kGreens + level(colour.green, kGreens)) * kBlues + level(colour.blue, kBlues);
}

// "!12?" for twelve equal characters.
void append_run(char character, size_t count, std::string& out) {
  if (count > 3)
    out += fmt::format("!{}{}", count, character);
  else
    out.append(count, character);
}

}  // namespace

Graphics graphics_of_terminal() {
  if (::isatty(STDOUT_FILENO) != 1 || environment("TERM") == "dumb") return Graphics::text;
  const std::string program = environment("TERM_PROGRAM");
  if (environment("TERM").find("kitty") != std::string::npos || !environment("KITTY_WINDOW_ID").empty() ||
      program == "ghostty" || program == "WezTerm")
    return Graphics::kitty;
  if (::isatty(STDIN_FILENO) != 1) return Graphics::text;
  return has_sixel(device_attributes()) ? Graphics::sixel : Graphics::text;
}

PictureSize terminal_picture_size() {
  constexpr size_t kMaxWidth = 1200;
  winsize size{};
  size_t width = 640;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    width = size.ws_xpixel > 0 ? size.ws_xpixel : size_t{8} * size.ws_col;
  width = std::clamp<size_t>(width, 320, kMaxWidth);
  return {width, width * 5 / 8};
}

// a=T: show; f=100: PNG; q=2: no reply. m=1: more follows.
std::string kitty_sequence(std::string_view png) {
  const std::string text = base64(png);
  std::string out;
  for (size_t at = 0; at < text.size(); at += kKittyChunk) {
    const bool is_last = at + kKittyChunk >= text.size();
    out += fmt::format("\033_G{}m={};{}\033\\", at == 0 ? "a=T,f=100,q=2," : "", is_last ? 0 : 1,
                       text.substr(at, kKittyChunk));
  }
  return out + "\n";
}

std::string sixel_sequence(std::span<const Rgb> pixels, size_t width) {
  constexpr size_t kBand = 6;  // rows
  std::string out = "\033Pq";
  for (unsigned i = 0; i < kReds * kGreens * kBlues; ++i)
    out += fmt::format("#{};2;{};{};{}", i, i / kBlues / kGreens * 100 / (kReds - 1),
                       i / kBlues % kGreens * 100 / (kGreens - 1), i % kBlues * 100 / (kBlues - 1));
  const size_t height = width == 0 ? 0 : pixels.size() / width;
  for (size_t top = 0; top < height; top += kBand) {
    std::array<std::vector<uint8_t>, kReds * kGreens * kBlues> rows_of;  // the bits of each column, by colour
    for (size_t row = top; row < std::min(top + kBand, height); ++row) {
      for (size_t column = 0; column < width; ++column) {
        auto& bits = rows_of[colour_index(pixels[row * width + column])];
        bits.resize(width);
        bits[column] = static_cast<uint8_t>(bits[column] | 1U << (row - top));
      }
    }
    for (size_t colour = 0; colour < rows_of.size(); ++colour) {
      const auto& bits = rows_of[colour];
      if (bits.empty()) continue;
      out += fmt::format("#{}", colour);
      for (size_t begin = 0; begin < width;) {
        size_t end = begin;
        while (end < width && bits[end] == bits[begin]) ++end;
        append_run(static_cast<char>('?' + bits[begin]), end - begin, out);
        begin = end;
      }
      out += '$';
    }
    out += '-';
  }
  return out + "\033\\\n";
}

}  // namespace weightfs::plot
