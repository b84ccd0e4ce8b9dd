// weightfs export: writes a model in another format.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/os/system_error.h"
#include "base/text.h"
#include "cli/console/outcome.h"
#include "cli/console/progress.h"
#include "cli/open_source.h"
#include "cli/verbs.h"
#include "formats/completeness.h"
#include "formats/verify.h"
#include "report/compare/select_tensors.h"
#include "report/export/files.h"
#include "report/export/left_out.h"
#include "report/export/names.h"
#include "report/export/tar.h"
#include "report/export/writer.h"
#include "report/inspect/single_model.h"
#include "report/text/words.h"

namespace weightfs {
namespace {

using exporting::ExportedFile;
using exporting::ExportedFiles;
using exporting::Form;
using exporting::Writer;

struct ExportArguments {
  SourceInput input;
  std::string out;
  std::optional<Form> form;
  std::vector<std::string> patterns;
  views::FileTypes types = views::FileTypes::stored;
  exporting::Naming naming;
  uint64_t shard_size = 0;
  bool force = false;
  bool skip_unsupported = false;
};

Error usage(const std::string& message) {
  return {Code::unsupported, fmt::format("{} (see weightfs export --help)", message)};
}

// Where the export is written: exactly one of these.
struct Destination {
  Descriptor opened;  // of a pipe
  int stream = -1;    // a pipe, or standard output
  std::unique_ptr<sandbox::OutputFile> file;
  std::unique_ptr<sandbox::OutputDirectory> directory;

  sandbox::Output* output() const {
    if (directory != nullptr) return directory.get();
    return file.get();
  }
};

bool is_written_to_directory(const ExportArguments& arguments) {
  return *arguments.form == Form::npy || *arguments.form == Form::dir || arguments.shard_size > 0;
}

bool is_one_of(Form form, std::initializer_list<Form> forms) { return std::ranges::find(forms, form) != forms.end(); }

// Whether the format of the output has what is asked for.
Result<void> check_form(const ExportArguments& arguments) {
  const Form form = *arguments.form;
  if (arguments.shard_size > 0 && !is_one_of(form, {Form::safetensors, Form::gguf}))
    return failure(usage("--shard-size needs --to safetensors or gguf"));
  if (arguments.naming.is_q8_0 && form != Form::gguf) return failure(usage("--dtype q8_0 needs --to gguf"));
  if (arguments.naming.names == exporting::Names::hub && is_one_of(form, {Form::npy, Form::dir, Form::tar}))
    return failure(usage("--names hf needs --to safetensors, gguf or npz"));
  if (arguments.types == views::FileTypes::bfloat16 && !is_one_of(form, {Form::safetensors, Form::gguf}))
    return failure(usage("--dtype bfloat16 needs --to safetensors or gguf: NumPy has no such type"));
  return {};
}

// Checks the arguments, and completes the format: shards are of safetensors unless another format is named.
Result<void> check(ExportArguments& arguments) {
  if (!arguments.form) arguments.form = exporting::form_of_suffix(arguments.out);
  if (!arguments.form && arguments.shard_size > 0) arguments.form = Form::safetensors;
  if (!arguments.form)
    return failure(usage(fmt::format("{}: name the format of the output with --to: {}", printable(arguments.out),
                                     exporting::list_of_forms())));
  TRY_VOID(check_form(arguments));
  if (is_written_to_directory(arguments) && arguments.out == "-")
    return failure(usage("this format is a directory, which cannot be written to standard output"));
  std::error_code absent;
  if (is_path(arguments.input.source) && std::filesystem::equivalent(arguments.input.source, arguments.out, absent))
    return failure(usage(fmt::format("{}: is SOURCE itself", arguments.out)));
  return {};
}

// Waits ten seconds for the reader of a named pipe: without one, open(2) would wait for ever.
Result<Descriptor> open_stream(const std::string& path) {
  constexpr int kTries = 200;
  constexpr int kPauseMs = 50;
  Descriptor opened;
  for (int i = 0; i < kTries && !opened; ++i) {
    if (i > 0) ::poll(nullptr, 0, kPauseMs);
    opened = Descriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (!opened && errno != ENXIO) break;
  }
  if (!opened && errno == ENXIO)
    return failure(Code::io, fmt::format("{}: no program reads this pipe; start the reader first", path));
  if (!opened || ::fcntl(opened.number(), F_SETFL, O_WRONLY) != 0) return failure(io_error(path));
  return opened;
}

Result<Destination> open_destination(const ExportArguments& arguments) {
  Destination to;
  struct stat found {};
  const bool exists = ::stat(arguments.out.c_str(), &found) == 0;
  if (arguments.out == "-") {
    to.stream = STDOUT_FILENO;
  } else if (is_written_to_directory(arguments)) {
    to.directory = TRY(sandbox::OutputDirectory::create(arguments.out));
  } else if (exists && (S_ISFIFO(found.st_mode) || S_ISCHR(found.st_mode))) {
    to.opened = TRY(open_stream(arguments.out));
    to.stream = to.opened.number();
  } else {
    to.file = TRY(sandbox::OutputFile::create(arguments.out,
                                              arguments.force ? sandbox::Existing::replaced : sandbox::Existing::kept));
  }
  return to;
}

// Writes the files, and shows the progress.
class Exporter {
 public:
  Exporter(const ExportArguments& arguments, const Destination& to, const ExportedFiles& what)
      : arguments_(arguments), to_(to), what_(what) {
    for (const ExportedFile& file : what.files) total_ += file.size;
  }

  // `verify` is called when all bytes were read, before the result gets its name.
  Result<void> write(const std::function<Result<void>()>& verify) {
    if (to_.directory != nullptr) {
      for (const ExportedFile& file : what_.files) TRY_VOID(write_to_directory(file));
      bar_.clear();
      TRY_VOID(verify());
      return to_.directory->publish();
    }
    Writer writer(to_.file == nullptr ? to_.stream : to_.file->descriptor(),
                  to_.stream == STDOUT_FILENO ? "standard output" : arguments_.out, report());
    for (const ExportedFile& file : what_.files) TRY_VOID(write_to(writer, file));
    if (*arguments_.form == Form::tar) TRY_VOID(writer.write(exporting::tar_end()));
    bar_.clear();
    TRY_VOID(verify());
    return to_.file == nullptr ? Result<void>() : to_.file->publish();
  }

 private:
  Writer::Report report() {
    return [this](uint64_t bytes) {
      done_ += bytes;
      bar_.show(done_, total_, current_);
    };
  }

  Result<void> write_to_directory(const ExportedFile& file) {
    const Descriptor created = TRY(to_.directory->create_file(file.path));
    Writer writer(created.number(), fmt::format("{}/{}", arguments_.out, file.path), report());
    current_ = quoted(file.path);
    return writer.copy(*TRY(file.open()));
  }

  Result<void> write_to(Writer& writer, const ExportedFile& file) {
    const bool is_tar = *arguments_.form == Form::tar;
    current_ = quoted(file.path);
    const SourcePtr bytes = TRY(file.open());
    if (is_tar) TRY_VOID(writer.write(exporting::tar_header(file.path, bytes->size(), file.modified)));
    TRY_VOID(writer.copy(*bytes));
    return is_tar ? writer.write(exporting::tar_padding(bytes->size())) : Result<void>();
  }

  const ExportArguments& arguments_;
  const Destination& to_;
  const ExportedFiles& what_;
  ProgressBar bar_;
  std::string current_;  // the name of the file that is written
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

// The types by the names of this program and of llama.cpp's converter.
constexpr std::array kTypes = {
    std::pair("float32", views::FileTypes::float32),   std::pair("f32", views::FileTypes::float32),
    std::pair("float16", views::FileTypes::float16),   std::pair("f16", views::FileTypes::float16),
    std::pair("bfloat16", views::FileTypes::bfloat16), std::pair("bf16", views::FileTypes::bfloat16),
    std::pair("auto", views::FileTypes::stored),       std::pair("q8_0", views::FileTypes::stored),
};

void report_overflows(const views::Overflows& overflows, views::FileTypes types) {
  const auto [numbers, tensors] = overflows.counts();
  if (numbers == 0) return;
  log_to_stderr(fmt::format("{} in {} {} too large for {}: written as {}", counted(numbers, "number", "numbers"),
                            counted(tensors, "tensor", "tensors"), numbers == 1 ? "is" : "are",
                            types == views::FileTypes::float16    ? "float16"
                            : types == views::FileTypes::bfloat16 ? "bfloat16"
                                                                  : "float32",
                            numbers == 1 ? "an infinity" : "infinities"));
}

// Whether the tensors of the request are all that was asked for.
Result<void> check_whole(const ModelPtr& model, const exporting::Request& request, const ExportArguments& arguments) {
  const std::string name = printable_source(arguments.input.source);
  const Completeness completeness = arguments.patterns.empty() ? completeness_of(*model) : Completeness{};
  const bool has_rest =
      !std::ranges::all_of(request.tensors, [&](size_t tensor) { return model->tensors.is_refused(tensor); });
  if (!completeness.is_complete() && (!arguments.skip_unsupported || !has_rest))
    return failure(completeness.reason->code,
                   fmt::format("{}: {}; nothing was written{}", name, to_sentence(completeness),
                               has_rest ? "; use --skip-unsupported to export the rest" : ""));
  if (const auto reason = reason_of_incomplete({{"", model}}, arguments.patterns);
      reason && !arguments.skip_unsupported)
    return failure(reason->code, fmt::format("{}: {}; nothing was written; use --skip-unsupported to export the rest",
                                             name, reason->message));
  return {};
}

// The status is that of what the model lacks, if the rest is asked for.
Result<Exit> export_model(ExportArguments& arguments, const Destination& to) {
  const OpenedSource opened = TRY(open_source(arguments.input, to.output()));
  const SingleModel only = TRY(single_model(*opened.forest, arguments.input.source));
  const ModelPtr& model = only.model;
  const std::string name = printable_source(arguments.input.source);
  if (model->tensors.empty() && model->has_members)
    return failure(Code::unsupported,
                   fmt::format("{}: has no tensors of its own; mount it, and export a model in nested/", name));
  exporting::Request request{.path = only.path,
                             .form = *arguments.form,
                             .tensors = {},
                             .types = arguments.types,
                             .shard_size = arguments.shard_size,
                             .overflows = std::make_shared<views::Overflows>()};
  request.tensors = TRY(select_tensors(model, arguments.patterns));
  TRY_VOID(check_whole(model, request, arguments));
  arguments.naming.has_patterns = !arguments.patterns.empty();
  const ModelPtr written = TRY(
      exporting::named_model(model, arguments.input.source, arguments.naming, request).map_error([&](const Error& e) {
        return with_message(e, fmt::format("{}: {}", name, e.message));
      }));
  const std::vector<size_t> read = request.tensors;
  if (written != model) request.tensors = TRY(select_tensors(written, {}));
  const auto unsupported =
      arguments.skip_unsupported ? exporting::Unsupported::left_out : exporting::Unsupported::refused;
  const ExportedFiles what = TRY(exporting::writable_files(*opened.forest, written, request, unsupported));
  for (const std::string& line : what.left_out.lines()) log_to_stderr(fmt::format("left out: {}", line));
  if (!what.other_types.empty()) log_to_stderr(what.other_types);
  if (const std::string keys = what.left_out_keys.to_sentence(); !keys.empty()) log_to_stderr(keys);
  const auto compare = [&]() -> Result<void> {
    TRY_VOID(opened.store->verify_complete());
    return compare_files_of_tensors(*model, read).map_error([&](const Error& error) {
      return with_message(error, fmt::format("{}: {}; nothing was written", name, error.message));
    });
  };
  TRY_VOID(Exporter(arguments, to, what).write(compare));
  report_overflows(*request.overflows, arguments.types);
  Outcome outcome;
  if (arguments.patterns.empty()) outcome.check(*model, name);
  return outcome.status();
}

Exit run_export(ExportArguments& arguments) {
  if (const auto checked = check(arguments); !checked) return report_error(checked.error(), Exit::usage);
  auto to = open_destination(arguments);
  if (!to) return report_error(to.error());
  const auto written = export_model(arguments, *to);
  return written ? *written : report_error(written.error());
}

// The types and names of the tensors of the output.
Options tensor_options(ExportArguments& arguments) {
  const auto take_dtype = [&arguments](const std::string& name) -> Result<void> {
    const auto* const type = std::ranges::find(kTypes, name, &std::pair<const char*, views::FileTypes>::first);
    if (type == kTypes.end())
      return failure(Code::unsupported,
                     fmt::format("unknown type {}; use float32, float16, bfloat16, q8_0 or auto", quoted(name)));
    arguments.types = type->second;
    arguments.naming.is_q8_0 = name == "q8_0";
    return {};
  };
  const auto take_names = [&arguments](const std::string& name) -> Result<void> {
    if (name != "gguf" && name != "hf")
      return failure(Code::unsupported, fmt::format("unknown names {}; use gguf or hf", quoted(name)));
    arguments.naming.names = name == "gguf" ? exporting::Names::gguf : exporting::Names::hub;
    return {};
  };
  return {
      {"dtype",
       "TYPE",
       "write every number as TYPE: float32, float16 or bfloat16; q8_0 quantises the matrices of a GGUF (default: as "
       "stored)",
       take_dtype,
       0,
       {"float32", "float16", "bfloat16", "q8_0", "auto"}},
      {"names",
       "NAMES",
       "names of tensors: gguf, those of llama.cpp, or hf, those of transformers (default: gguf in a GGUF of a "
       "repository "
       "of the Hub, else as stored)",
       take_names,
       0,
       {"gguf", "hf"}}};
}

Options export_options(ExportArguments& arguments) {
  const auto take_form = [&arguments](const std::string& name) -> Result<void> {
    arguments.form = exporting::form_named(name);
    if (!arguments.form)
      return failure(Code::unsupported,
                     fmt::format("unknown format {}; use {}", quoted(name), exporting::list_of_forms()));
    return {};
  };
  Options options = {
      {"to", "FORMAT",
       "format of the output: safetensors, gguf, npz, tar (a file), npy, dir (a directory) (default: by the suffix of "
       "OUT)",
       take_form, 0, exporting::form_names()},
      list("tensors", "PATTERN", "write the tensors of this name or pattern; may be repeated (default: all)",
           arguments.patterns),
      size(
          "shard-size",
          "write a directory of files of at most SIZE, such as 5G: of safetensors with their index, or of a split GGUF "
          "(default: one file)",
          arguments.shard_size, {"is not a size", [](uint64_t bytes) { return bytes > 0; }}),
      flag("skip-unsupported", "leave out tensors that this format cannot hold (default: write nothing)",
           arguments.skip_unsupported),
      flag("force", "replace OUT if it is a file that exists", arguments.force)};
  Options of_tensors = tensor_options(arguments);
  options.insert(options.begin() + 2, of_tensors.begin(), of_tensors.end());
  return options;
}

}  // namespace

Command export_command() {
  const auto given = std::make_shared<ExportArguments>();
  return {"export",
          "write a model as a file or directory of another format",
          {source_argument(given->input),
           argument("OUT", "the file or directory to write, a pipe, or - for standard output", given->out)},
          source_options(given->input, export_options(*given)),
          {},
          [given] { return run_export(*given); }};
}

}  // namespace weightfs
