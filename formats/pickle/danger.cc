#include "formats/pickle/danger.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"

namespace weightfs::pickle {
namespace {

// Modules of Python (2.7 to 3.13) and of common libraries whose functions run programs, load code, open files or
// connect, and modules that reach any function by its name. A module that users may have under the same name, as `test`
// and `user`, is not among them. A space stands before and after each.
constexpr std::string_view kModules =
    " aifc aiohttp _aix_support antigravity anydbm asynchat _asyncio asyncio asyncore atexit BaseHTTPServer bdb "
    "_bootsubprocess bsddb bz2 cffi cgi CGIHTTPServer cgitb cloudpickle code codeop commands compileall compiler "
    "concurrent cPickle cProfile _ctypes ctypes _curses curses dbhash _dbm dbm dill distutils doctest dumbdbm "
    "_dummy_thread dummy_thread dummy_threading ensurepip faulthandler fcntl filecmp fileinput _frozen_importlib "
    "_frozen_importlib_external ftplib _functools functools gc _gdbm gdbm glob gzip hotshot http httplib httplib2 "
    "idlelib ihooks imaplib imghdr _imp imp importlib imputil inspect _interpreters joblib lib2to3 linecache lzma "
    "mailbox mailcap marshal mhlib mimetools mimetypes mmap modulefinder msilib msvcrt _multiprocessing "
    "multiprocessing netrc nis nntplib nt ntpath _operator operator os os2emxpath _osx _osx_support paramiko "
    "pathlib pdb pexpect _pickle pickle pip pkgutil platform plistlib popen2 poplib posix posixfile _posixshmem "
    "_posixsubprocess profile pstats psutil pty py_compile pyclbr pydoc _pyio _pyrepl readline requests resource "
    "rexec rfc822 rlcompleter runpy _scproxy setuptools shelve shutil signal SimpleHTTPServer site _sitebuiltins "
    "smtpd smtplib sndhdr _socket socket SocketServer socketserver _sqlite3 sqlite3 _ssl ssl subprocess sunau sys "
    "sysconfig syslog tabnanny tarfile telnetlib tempfile termios _testcapi _testinternalcapi _thread threading "
    "timeit Tkinter _tkinter tkinter tokenize trace tracemalloc tty turtle turtledemo types unittest urllib "
    "urllib2 uu venv wave webbrowser whichdb _winapi winreg winsound wsgiref xdrlib xmlrpc xmlrpclib "
    "_xxsubinterpreters zipapp zipfile zipimport ";

constexpr std::string_view kBeforeThat = " (before that it names ";

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
    "codecs.open",
    "io.open",
    "_io.open",
    "io.FileIO",
    "_io.FileIO",
    "io.open_code",
    "_io.open_code",
    "logging.FileHandler",
    "logging.basicConfig",
    "logging.config",
    "logging.handlers",
    "torch.load",
    "torch._ops._Ops",
    "torch.fx.graph_module.reduce_graph_module",
    "torch.fx.graph_module.reduce_package_graph_module",
    "torch.jit.unsupported_tensor_ops",
    "torch.utils.collect_env",
    "torch.hub",
    "torch.classes",
    "torch.ops",
    "torch.package",
    "torch.utils.cpp_extension",
    "torch.jit.load",
    "torch.serialization.load",
    "torch.storage._load_from_bytes",
    "numpy.load",
    "numpy.testing._private.utils.runstring",
    "numpy.testing.runstring",
    "numpy.lib.npyio.load",
    "numpy.lib._npyio_impl.load",
    "numpy.distutils",
    "numpy.f2py",
    "pandas.eval",
    "pandas.core.computation.eval.eval",
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
  return module.find(' ') == module.npos && kModules.find(fmt::format(" {} ", module)) != kModules.npos;
}

// Whether `name` is `outer` or inside of it.
bool is_within(std::string_view name, std::string_view outer) {
  return name.starts_with(outer) && (name.size() == outer.size() || name[outer.size()] == '.');
}

// Without underscores at its beginning and end: modules import others under such names.
std::string_view plain(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('_'), word.size()));
  return word.substr(0, word.find_last_not_of('_') + 1);
}

bool is_dangerous_name(std::string_view name) {
  return std::any_of(kNames.begin(), kNames.end(), [&](std::string_view outer) { return is_within(name, outer); });
}

// Whether a name inside of a module reaches into one of the modules, also under a name with underscores:
// "core.multiarray.os.system" of numpy, "_os.system" of random, "builtins.exec" of codecs.
bool passes_through_module(std::string_view name) {
  for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.')) {
    const std::string_view word = plain(name.substr(0, dot));
    if (is_dangerous_module(name.substr(0, dot)) || is_dangerous_module(word)) return true;
    if (is_dangerous_name(in_python_3(fmt::format("{}{}", word, name.substr(dot))))) return true;
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
  return is_dangerous_name(name);
}

std::string before_an_error(const std::vector<Global>& globals) {
  constexpr size_t kShown = 10;
  std::vector<std::string> dangerous;
  for (const Global& global : globals)
    if (dangerous.size() < kShown && can_run_code(global)) dangerous.push_back(printable(global.text));
  return dangerous.empty() ? "" : fmt::format("{}{}, which can run code)", kBeforeThat, fmt::join(dangerous, ", "));
}

bool names_danger(std::string_view message) { return message.find(kBeforeThat) != message.npos; }

}  // namespace weightfs::pickle
