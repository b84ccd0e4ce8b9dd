// weightfs verify: whether a model's bytes are those that its container says it has.
#include "formats/verify.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>

#include "base/text.h"
#include "cli/verbs.h"
#include "fs/forest.h"

namespace weightfs {
namespace {

// One line that is written over again and again, on a terminal only.
class ProgressBar {
 public:
  ProgressBar() : shown_(::isatty(STDERR_FILENO) == 1) {}
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(const Progress& progress) {
    const auto now = Clock::now();
    if (!shown_ || progress.whole == 0 || now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    const auto rate = static_cast<uint64_t>(static_cast<double>(progress.bytes) / std::max(seconds, 0.001));
    constexpr size_t kWidth = 24;
    const auto full =
        static_cast<size_t>(static_cast<double>(progress.bytes) / static_cast<double>(progress.whole) * kWidth);
    const std::string line =
        str("[", std::string(std::min(full, kWidth), '#'), std::string(kWidth - std::min(full, kWidth), '.'), "] ",
            human_size(progress.bytes), " of ", human_size(progress.whole), ", ", human_size(rate), "/s  ",
            quoted(progress.path));
    std::fprintf(stderr, "\r\033[K%s", line.substr(0, columns() - 1).c_str());
    drawn_ = true;
  }

  void clear() {
    if (drawn_) std::fputs("\r\033[K", stderr);
    drawn_ = false;
  }

 private:
  using Clock = std::chrono::steady_clock;

  static size_t columns() {
    winsize size{};
    return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
  }

  bool shown_;
  bool drawn_ = false;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
};

// What there is to say of a model whose bytes are right.
std::string praise(const Model& model, const Verification& found) {
  if (found.checked == 0)
    return str(model.format, " carries no checksums; its structure is sound, ", model.tensors.size(), " tensors");
  return str(found.checked == 1 ? "1 file matches its checksum" : str(found.checked, " files match their checksums"),
             found.unchecked == 0 ? "" : str(", ", found.unchecked, " carry none"));
}

Exit verify_model(const Model& model, const std::string& name) {
  ProgressBar bar;
  const Verification found = verify(model, [&](const Progress& progress) { bar.show(progress); });
  bar.clear();
  const auto say = [&](const char* what, const std::string& line) {
    std::printf("%s: %s%s\n", printable(name).c_str(), what, printable(line).c_str());
  };
  for (const std::string& line : found.wrong) say("", line);
  for (const Error& error : found.unreadable) say("", error.message);
  if (!found.wrong.empty()) return Exit::mismatch;
  if (!found.unreadable.empty()) return exit_of(found.unreadable.front().code);
  for (const std::string& warning : model.warnings) say("warning: ", warning);
  say("", praise(model, found));
  return Exit::ok;
}

// Every model in a directory, to the last; the first failure is the status.
Exit verify_all(Forest& forest, Ino directory, const std::string& name) {
  const auto all = forest.list(directory);
  if (!all) return complain(all.error());
  Exit status = Exit::ok;
  const auto note = [&](Exit other) { status = status == Exit::ok ? other : status; };
  if (const ModelPtr model = forest.model_of(all->count > 0 ? all->ino : directory)) return verify_model(*model, name);
  for (uint32_t i = 0; i < all->count; ++i) {
    const Node& node = all->tree->node(all->first + i);
    if (node.kind == Kind::tree || node.kind == Kind::directory)
      note(verify_all(forest, all->ino + i, str(name, "/", node.name())));
  }
  return status;
}

Exit verify_source(const std::string& source, const Opening& opening) {
  // The container's own bytes are looked at, not what a cache has of them.
  Opening anew = opening;
  anew.blobs = unstored_blobs();
  auto tree = open_sources({source}, anew);
  if (!tree) return complain(tree.error());
  Forest forest(std::move(*tree));
  return verify_all(forest, Forest::kRoot, source);
}

}  // namespace

void add_verify(CLI::App& app, Run& run) {
  auto source = std::make_shared<std::string>();
  auto opening = std::make_shared<Opening>();
  CLI::App* verb = app.add_subcommand("verify", "compare every file with the checksum that its container has for it");
  verb->add_option("SOURCE", *source, "a model file or a directory of models")->required();
  add_opening_options(*verb, *opening);
  verb->callback([&run, source, opening] { run = [=] { return verify_source(*source, *opening); }; });
}

}  // namespace weightfs
