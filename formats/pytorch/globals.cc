#include "formats/pytorch/globals.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "formats/pytorch/rebuild.h"
#include "formats/pytorch/torch_types.h"

namespace weightfs::pytorch {
namespace {

// What torch/_weights_only_unpickler.py permits, besides dtypes, storages and rebuild functions; and the types of plain
// values.
constexpr std::array<std::string_view, 29> kPermitted = {
    "collections.OrderedDict",
    "collections.Counter",
    "collections.defaultdict",
    "builtins.set",
    "builtins.frozenset",
    "builtins.dict",
    "builtins.list",
    "builtins.tuple",
    "builtins.int",
    "builtins.long",
    "builtins.float",
    "builtins.str",
    "builtins.bytes",
    "builtins.bytearray",
    "builtins.complex",
    "_codecs.encode",
    "torch.Size",
    "torch.Tensor",
    "torch.device",
    "torch._tensor.Tensor",
    "torch.nn.parameter.Parameter",
    "torch.nn.parameter.Buffer",
    "torch.serialization._get_layout",
    "torch.storage.TypedStorage",
    "torch.storage._TypedStorage",
    "torch.per_tensor_affine",
    "torch.per_channel_affine",
    "torch.per_tensor_symmetric",
    "torch.per_channel_symmetric",
};

// Modules of Python whose functions run programs, load code, open files or connect, and modules that reach any function
// by its name.
constexpr std::array<std::string_view, 60> kModules = {
    "os",        "posix",     "nt",         "subprocess", "_posixsubprocess", "sys",       "pty",
    "commands",  "popen2",    "runpy",      "code",       "codeop",           "importlib", "imp",
    "pkgutil",   "zipimport", "pickle",     "_pickle",    "cPickle",          "dill",      "cloudpickle",
    "joblib",    "marshal",   "types",      "ctypes",     "_ctypes",          "cffi",      "operator",
    "_operator", "functools", "_functools", "inspect",    "socket",           "_socket",   "ssl",
    "asyncio",   "http",      "urllib",     "urllib2",    "requests",         "aiohttp",   "httplib",
    "ftplib",    "smtplib",   "webbrowser", "shutil",     "tempfile",         "pathlib",   "multiprocessing",
    "threading", "_thread",   "signal",     "timeit",     "cProfile",         "profile",   "pdb",
    "bdb",       "trace",     "distutils",  "platform",
};

// Functions of other modules.
constexpr std::array<std::string_view, 24> kFunctions = {
    "builtins.eval",       "builtins.exec",
    "builtins.compile",    "builtins.getattr",
    "builtins.setattr",    "builtins.delattr",
    "builtins.__import__", "builtins.open",
    "builtins.apply",      "builtins.execfile",
    "builtins.globals",    "builtins.locals",
    "builtins.vars",       "builtins.breakpoint",
    "builtins.input",      "builtins.map",
    "builtins.filter",     "builtins.staticmethod",
    "torch.load",          "torch.hub.load",
    "torch.jit.load",      "torch.serialization.load",
    "numpy.load",          "torch.storage._load_from_bytes",
};

// Python 2 has another name for the module.
std::string in_python_3(std::string_view global) {
  constexpr std::string_view kOld = "__builtin__.";
  return global.starts_with(kOld) ? fmt::format("builtins.{}", global.substr(kOld.size())) : std::string(global);
}

}  // namespace

bool is_permitted(std::string_view global) {
  return std::find(kPermitted.begin(), kPermitted.end(), in_python_3(global)) != kPermitted.end() ||
         is_rebuild_function(global) || type_of_dtype(global) != nullptr || type_of_storage(global) != nullptr ||
         is_untyped_storage(global) || global.starts_with("__torch__.");
}

bool can_run_code(std::string_view global) {
  const std::string name = in_python_3(global);
  const std::string_view top = std::string_view(name).substr(0, name.find('.'));
  if (name.find('?') != name.npos) return true;
  if (std::find(kModules.begin(), kModules.end(), top) != kModules.end()) return true;
  return std::any_of(kFunctions.begin(), kFunctions.end(), [&](std::string_view function) {
    return name == function || (name.starts_with(function) && name[function.size()] == '.');
  });
}

ReportedGlobals report_globals(const std::vector<std::string>& globals, std::string_view subject, Warnings& warnings) {
  constexpr size_t kShown = 10;
  ReportedGlobals reported;
  std::vector<std::string> dangerous, others;
  for (const std::string& global : globals) {
    if (is_permitted(global)) continue;
    reported.all.emplace_back(global);
    (can_run_code(global) ? dangerous : others).push_back(printable(global));
  }
  for (const std::string& name : dangerous)
    warnings.add("{}names {}: torch.load without weights_only can run code from this file; weightfs ran nothing",
                 subject, name);
  reported.dangerous = fmt::format("{}", fmt::join(dangerous, ", "));
  const size_t left_out = others.size() - std::min(others.size(), kShown);
  others.resize(others.size() - left_out);
  if (!others.empty())
    warnings.add("{}names globals that torch.load(weights_only=True) refuses: {}{}", subject, fmt::join(others, ", "),
                 left_out == 0 ? "" : fmt::format(" and {} more", left_out));
  return reported;
}

}  // namespace weightfs::pytorch
