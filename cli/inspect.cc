// weightfs ls, weightfs cat: read the tree of a source without mounting it.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <set>

#include "base/os/system_error.h"
#include "base/text.h"
#include "cli/console/outcome.h"
#include "cli/console/report_error.h"
#include "cli/open_source.h"
#include "cli/sandbox/output_file.h"
#include "cli/verbs.h"
#include "formats/completeness.h"
#include "formats/verify.h"
#include "report/inspect/named_file.h"
#include "report/text/errors.h"
#include "report/text/words.h"

namespace weightfs {
namespace {

struct ListArguments {
  SourceInput input;
  std::string path;
  bool long_form = false;
  bool recursive = false;
  bool json = false;
};

char type_letter(NodeKind kind) {
  if (kind == NodeKind::directory || kind == NodeKind::tree) return 'd';
  return kind == NodeKind::link ? 'l' : '-';
}

std::string iso_time(Time time) {
  const std::time_t seconds = time / 1'000'000'000;
  std::tm local{};
  ::localtime_r(&seconds, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &local);
  return text.data();
}

// An error at a path in the source, with both as they were given: "model.gguf: nope: does not exist".
Error error_of_path(const std::string& source, const std::string& path, const Error& error) {
  std::string message = error.message;
  if (const std::string name = quoted(path.substr(path.rfind('/') + 1)) + " "; message.starts_with(name))
    message.erase(0, name.size());
  return with_message(error, fmt::format("{}: {}: {}", printable(printable_source(source)), printable(path), message));
}

// Prints the output of `ls` in one of its three forms. main() checks for write errors.
class Lister {
 public:
  Lister(Forest& forest, const ListArguments& arguments) : forest_(forest), arguments_(arguments) {}

  Result<void> list(Ino ino, const std::string& name) {
    const Attributes attributes = TRY(forest_.attributes(ino));
    if (arguments_.json) std::fputs("[", stdout);
    if (!attributes.is_directory()) {
      TRY_VOID(print(ino, name, attributes.kind));
    } else {
      TRY_VOID(list_directory(ino, ""));
    }
    if (arguments_.json) std::fputs("\n]\n", stdout);
    return {};
  }

  Exit status() const { return outcome_.status(); }  ///< of models that could not be read, or are incomplete

 private:
  // `path` is relative to the requested directory; "" is that directory.
  Result<void> list_directory(Ino directory, const std::string& path) {
    const Forest::Listing all = TRY(forest_.list(directory));
    if (const ModelPtr model = all.tree->model(); model != nullptr && checked_.insert(model.get()).second)
      outcome_.check(*model, full_path(path));
    if (arguments_.recursive && !arguments_.json)
      std::printf("%s%s:\n", first_ ? "" : "\n", path.empty() ? "." : shown(path).c_str());
    first_ = false;
    for (uint32_t i = 0; i < all.count; ++i) {
      const Node node = all.tree->node(all.first + i);
      // JSON output has no headings, so entries have complete paths.
      const std::string name = arguments_.json ? join_path(path, node.name()) : std::string(node.name());
      note(print(all.ino_of(i), name, node.kind), join_path(path, node.name()));
      if (arguments_.json && arguments_.recursive && is_directory(node))
        enter(all.ino_of(i), join_path(path, node.name()));
    }
    if (arguments_.json || !arguments_.recursive) return {};
    for (uint32_t i = 0; i < all.count; ++i) {
      const Node node = all.tree->node(all.first + i);
      if (is_directory(node)) enter(all.ino_of(i), join_path(path, node.name()));
    }
    return {};
  }

  void enter(Ino directory, const std::string& path) { note(list_directory(directory, path), path); }

  // Reports an unreadable entry and continues.
  void note(const Result<void>& listed, const std::string& path) {
    if (!listed) outcome_.fail(error_at(full_path(path), listed.error()));
  }

  Result<void> print(Ino ino, const std::string& name, NodeKind kind) {
    if (!arguments_.json && !arguments_.long_form) {
      std::printf("%s\n", shown(name).c_str());
      return {};
    }
    const Attributes attributes = TRY(forest_.attributes(ino));
    const std::string target = kind == NodeKind::link ? TRY(forest_.link(ino)) : "";
    if (!arguments_.json) {
      std::printf("%c%s %4u %14llu %s %s%s%s\n", type_letter(kind),
                  attributes.is_directory() ? "r-xr-xr-x" : "r--r--r--", attributes.links,
                  static_cast<unsigned long long>(attributes.size), iso_time(attributes.modified).c_str(),
                  shown(name).c_str(), target.empty() ? "" : " -> ", shown(target).c_str());
      return {};
    }
    std::string line = first_entry_ ? "\n  {\"path\": " : ",\n  {\"path\": ";
    first_entry_ = false;
    append_json_string(line, name);
    line += fmt::format(", \"type\": \"{}\", \"size\": {}",
                        attributes.is_directory() ? "directory"
                        : kind == NodeKind::link  ? "link"
                                                  : "file",
                        attributes.size);
    if (!target.empty()) {
      line += ", \"target\": ";
      append_json_string(line, target);
    }
    std::fputs((line + "}").c_str(), stdout);
    return {};
  }

  // Programs get the name that opens the file.
  static std::string shown(const std::string& name) { return ::isatty(STDOUT_FILENO) == 1 ? printable(name) : name; }

  // The source, the requested path and a path below it.
  std::string full_path(const std::string& path) const {
    const std::string requested = join_path(printable_source(arguments_.input.source), arguments_.path);
    return join_path(requested, path);
  }

  static bool is_directory(const Node& node) { return node.kind == NodeKind::directory || node.kind == NodeKind::tree; }

  Forest& forest_;
  const ListArguments& arguments_;
  bool first_ = true;
  bool first_entry_ = true;
  Outcome outcome_;
  std::set<const Model*> checked_;
};

// A model on a server is read as far as these paths need it.
void set_needed(SourceInput& input, const std::vector<std::string>& paths) {
  if (input.layout.has(LayoutPart::tensors)) input.open_options.needed_tensors = tensors_needed_for(paths);
}

Exit ls(ListArguments& arguments) {
  set_needed(arguments.input, {arguments.path});
  const auto opened = open_source(arguments.input);
  if (!opened) return report_error(opened.error());
  Forest& forest = *opened->forest;
  const TypedPath typed{"ls", arguments.input.source, join_path(opened->path, arguments.path)};
  const auto ino = resolve_typed(forest, typed, Forest::FinalLink::kept);
  if (!ino) return report_error(error_of_path(arguments.input.source, arguments.path, ino.error()));
  Lister lister(forest, arguments);
  const auto listed = lister.list(*ino, arguments.path);
  if (listed) return lister.status();
  return report_error(error_at(join_path(printable_source(arguments.input.source), arguments.path), listed.error()));
}

// Where cat writes.
struct CatOutput {
  std::unique_ptr<sandbox::OutputFile> file;  // null for standard output
  std::string name = "standard output";

  Result<void> write(std::span<const std::byte> bytes) const {
    const int descriptor = file == nullptr ? STDOUT_FILENO : file->descriptor();
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return failure(io_error(name));
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return {};
  }
};

Result<void> copy_out(const Source& source, const CatOutput& output) {
  std::vector<std::byte> buffer(256 * 1024);
  std::shared_ptr<const void> held;  // the reader of standard output may be slow
  for (uint64_t offset = 0;;) {
    if (held == nullptr) held = source.keep_cached();
    const size_t got = TRY(source.read_ahead(offset, buffer, {0, source.size()}));
    if (got == 0) return {};
    TRY_VOID(output.write(std::span(buffer).first(got)));
    offset += got;
  }
}

// Whether the numbers of tensors are in the file at this path, made of them or not.
bool has_tensors(const std::string& path) {
  constexpr std::array<std::string_view, 3> kFolders = {"/views/", "/npy/", "/float32/"};
  return std::ranges::any_of(kFolders,
                             [&](std::string_view folder) { return ("/" + path).find(folder) != std::string::npos; });
}

// Compares the checksums of the files that the bytes of this one are in. A text about the model is in no file: it is
// wrong if a part of the model did not match when it was opened.
Result<void> compare_files(Forest& forest, Ino ino, const Source& bytes, const std::string& path) {
  const ModelPtr model = forest.model_of(ino);
  if (model == nullptr) return {};
  if (const auto tensor = forest.tensor_of(ino))
    return compare_files_of_tensors(*tensor->model, std::array{tensor->index});
  ReadBytes read;
  const bool is_in_files = read.add(bytes);
  const Completeness completeness = is_in_files ? Completeness{} : completeness_of(*model);
  if (!completeness.is_complete() && completeness.reason->code == Code::mismatch)
    return failure(Code::mismatch, to_sentence(completeness));
  return compare_files_of(*model, read, is_in_files || !has_tensors(path) ? Others::none : Others::any);
}

struct CatArguments {
  SourceInput input;
  std::vector<std::string> paths;
  std::string out;  // of --output; empty for standard output
  bool force = false;
};

Result<CatOutput> open_cat_output(const CatArguments& arguments) {
  if (arguments.out.empty() || arguments.out == "-") return CatOutput{};
  const auto existing = arguments.force ? sandbox::Existing::replaced : sandbox::Existing::kept;
  return CatOutput{TRY(sandbox::OutputFile::create(arguments.out, existing)), arguments.out};
}

void copy_path(const OpenedSource& opened, const CatArguments& arguments, const std::string& path,
               const CatOutput& output, Outcome& outcome) {
  Forest& forest = *opened.forest;
  Ino copied_ino = 0;
  const TypedPath typed{"cat", arguments.input.source, join_path(opened.path, path)};
  const auto copied =
      resolve_typed(forest, typed, Forest::FinalLink::followed)
          .and_then([&](Ino ino) { return forest.open(copied_ino = ino); })
          .and_then([&](const SourcePtr& bytes) {
            return copy_out(*bytes, output).and_then([&] { return compare_files(forest, copied_ino, *bytes, path); });
          });
  if (copied) return;
  const auto refused = copied_ino == 0 ? std::nullopt : error_of_refused(forest, copied_ino);
  const Error& error = refused ? *refused : copied.error();
  outcome.fail(error_of_path(arguments.input.source, path, error));
}

Exit cat(CatArguments& arguments) {
  const auto output = open_cat_output(arguments);
  if (!output) return report_error(output.error());
  set_needed(arguments.input, arguments.paths);
  const auto opened = open_source(arguments.input, output->file.get());
  if (!opened) return report_error(opened.error());
  Outcome outcome;
  for (const std::string& path : arguments.paths) copy_path(*opened, arguments, path, *output, outcome);
  if (const auto verified = opened->store->verify_complete(); !verified) outcome.fail_once(verified.error());
  if (output->file == nullptr) return outcome.status();
  if (outcome.status() != Exit::ok) {
    log_to_stderr(fmt::format("{}: nothing was written", printable(arguments.out)));
    return outcome.status();
  }
  const auto published = output->file->publish();
  return published ? Exit::ok : report_error(published.error());
}

Options cat_options(CatArguments& given) {
  Option output =
      text("output", "FILE", "write FILE, when all is read and verified (default: standard output)", given.out);
  output.letter = 'o';
  return {output, flag("force", "replace FILE", given.force), layout_option(given.input.layout)};
}

}  // namespace

Command ls_command() {
  const auto given = std::make_shared<ListArguments>();
  given->input.takes_paths = true;
  return {"ls",
          "list the files of a model without mounting it",
          {source_argument(given->input),
           argument("PATH", "path in the model, or the name of a tensor (default: its top directory)", given->path,
                    Argument::Count::optional)},
          source_options(given->input, {flag('l', "long", "print modes, sizes and times", given->long_form),
                                        flag('R', "recursive", "list subdirectories recursively", given->recursive),
                                        flag("json", "print a JSON array of {path, type, size}", given->json),
                                        layout_option(given->input.layout)}),
          {},
          [given] { return ls(*given); }};
}

Command cat_command() {
  const auto given = std::make_shared<CatArguments>();
  given->input.takes_paths = true;
  return {"cat",
          "write files of a model without mounting it",
          {source_argument(given->input),
           arguments("PATH", "path in the model, such as metadata.json, or the name of a tensor", given->paths,
                     Argument::Count::some)},
          source_options(given->input, cat_options(*given)),
          {},
          [given] { return cat(*given); }};
}

}  // namespace weightfs
