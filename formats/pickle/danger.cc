#include "formats/pickle/danger.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"

namespace weightfs::pickle {
namespace {

// Modules of Python whose functions run programs, load code, open files or connect, and modules that reach any function
// by its name.
constexpr auto kModules = std::to_array<std::string_view>({
    "os",       "posix",     "nt",        "subprocess", "_posixsubprocess", "sys",           "pty",        "commands",
    "popen2",   "runpy",     "code",      "codeop",     "importlib",        "imp",           "pkgutil",    "zipimport",
    "pickle",   "_pickle",   "cPickle",   "dill",       "cloudpickle",      "joblib",        "marshal",    "types",
    "ctypes",   "_ctypes",   "cffi",      "operator",   "_operator",        "functools",     "_functools", "inspect",
    "socket",   "_socket",   "ssl",       "_ssl",       "asyncio",          "http",          "urllib",     "urllib2",
    "requests", "aiohttp",   "httplib",   "ftplib",     "smtplib",          "webbrowser",    "shutil",     "tempfile",
    "pathlib",  "_thread",   "threading", "signal",     "multiprocessing",  "timeit",        "cProfile",   "profile",
    "pdb",      "bdb",       "trace",     "distutils",  "platform",         "pip",           "lib2to3",    "pydoc",
    "idlelib",  "ensurepip", "venv",      "setuptools", "doctest",          "_sitebuiltins",
});

// Functions and modules of other modules, with all that is inside of them.
constexpr auto kNames = std::to_array<std::string_view>({
    "builtins.eval",
    "builtins.exec",
    "builtins.compile",
    "builtins.getattr",
    "builtins.setattr",
    "builtins.delattr",
    "builtins.__import__",
    "builtins.open",
    "builtins.apply",
    "builtins.execfile",
    "builtins.globals",
    "builtins.locals",
    "builtins.vars",
    "builtins.breakpoint",
    "builtins.input",
    "builtins.map",
    "builtins.filter",
    "builtins.staticmethod",
    "copyreg.add_extension",
    "io.open",
    "_io.open",
    "torch.load",
    "torch.hub",
    "torch.jit.load",
    "torch.serialization.load",
    "torch.storage._load_from_bytes",
    "numpy.load",
    "numpy.testing._private.utils.runstring",
    "numpy.f2py",
    "pandas.read_pickle",
    "pandas.io.pickle.read_pickle",
});

// Names in the modules above that make plain values.
constexpr auto kValues = std::to_array<std::string_view>({
    "joblib.numpy_pickle.NumpyArrayWrapper",
    "joblib.numpy_pickle.NDArrayWrapper",
    "joblib.numpy_pickle.ZNDArrayWrapper",
    "joblib.numpy_pickle_compat.NDArrayWrapper",
    "joblib.numpy_pickle_compat.ZNDArrayWrapper",
    "functools.partial",
    "pathlib.Path",
    "pathlib.PosixPath",
    "pathlib.WindowsPath",
    "pathlib.PurePath",
    "pathlib.PurePosixPath",
    "pathlib.PureWindowsPath",
});

constexpr auto kRenamed = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"__builtin__", "builtins"},
    {"copy_reg", "copyreg"},
    {"cPickle", "pickle"},
    {"exceptions", "builtins"},
    {"urllib2", "urllib.request"},
});

bool is_dangerous_module(std::string_view module) {
  return std::find(kModules.begin(), kModules.end(), module) != kModules.end();
}

// Whether `name` is `outer` or inside of it.
bool is_within(std::string_view name, std::string_view outer) {
  return name.starts_with(outer) && (name.size() == outer.size() || name[outer.size()] == '.');
}

// Whether a name inside of a module reaches into one of the modules: "core.multiarray.os.system".
bool passes_through_module(std::string_view name) {
  for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.')) {
    if (is_dangerous_module(name.substr(0, dot))) return true;
    name.remove_prefix(dot + 1);
  }
  return false;
}

// keras.models.load_model, tensorflow.keras.models.load_model
bool loads_keras_model(std::string_view name) {
  return (is_within(name, "keras") || is_within(name, "tensorflow") || is_within(name, "tf_keras")) &&
         name.ends_with(".load_model");
}

}  // namespace

std::string in_python_3(std::string_view global) {
  for (const auto& [before, now] : kRenamed)
    if (is_within(global, before)) return fmt::format("{}{}", now, global.substr(before.size()));
  return std::string(global);
}

bool can_run_code(const Global& global) {
  constexpr std::string_view kOldPlace = "sklearn.externals.";  // of joblib
  const std::string_view text = global.text;
  if (text.find('?') != text.npos) return true;
  const std::string name = in_python_3(text.substr(text.starts_with(kOldPlace) ? kOldPlace.size() : 0));
  if (std::find(kValues.begin(), kValues.end(), name) != kValues.end()) return false;
  if (is_dangerous_module(name.substr(0, name.find('.'))) || loads_keras_model(name)) return true;
  if (passes_through_module(text.substr(std::min(global.module_size + 1, text.size())))) return true;
  return std::any_of(kNames.begin(), kNames.end(), [&](std::string_view outer) { return is_within(name, outer); });
}

std::string before_an_error(const std::vector<Global>& globals) {
  constexpr size_t kShown = 10;
  std::vector<std::string> dangerous;
  for (const Global& global : globals)
    if (dangerous.size() < kShown && can_run_code(global)) dangerous.push_back(printable(global.text));
  return dangerous.empty() ? ""
                           : fmt::format(" (before that it names {}, which can run code)", fmt::join(dangerous, ", "));
}

}  // namespace weightfs::pickle
