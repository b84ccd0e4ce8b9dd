// The names that danger.cc decides by: what the functions of modules of Python and of common libraries can do.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace weightfs::pickle {

// Modules of Python (2.7 to 3.13) and of common libraries whose functions and classes run programs, load code, open
// files or connect, and modules that reach any function by its name. A module that users may have under the same name,
// as `test` and `user`, is not among them. A space stands before and after each.
inline constexpr std::string_view kModules =
    " aifc aiohttp _aix_support antigravity anydbm asynchat _asyncio asyncio asyncore atexit BaseHTTPServer bdb "
    "_bootsubprocess boto3 botocore bsddb bz2 cffi cgi CGIHTTPServer cgitb cloudpickle code codeop commands "
    "compileall compiler concurrent cPickle cProfile _ctypes ctypes _curses curses Cython cython dbhash _dbm dbm "
    "dill distutils docker doctest dumbdbm _dummy_thread dummy_thread dummy_threading ensurepip execnet fabric "
    "faulthandler fcntl filecmp fileinput _frozen_importlib _frozen_importlib_external fsspec ftplib _functools "
    "functools gc _gdbm gdbm gdown git glob gzip hotshot http httplib httplib2 httpx hydra idlelib ihooks "
    "imaplib imghdr _imp imp importlib imputil inspect _interpreters invoke IPython joblib jsonpickle lib2to3 "
    "linecache lzma mailbox mailcap marshal mhlib mimetools mimetypes mmap modulefinder msilib msvcrt "
    "multiprocess _multiprocessing multiprocessing netrc nis nntplib nose nt ntpath _operator operator os "
    "os2emxpath _osx _osx_support paramiko pathlib pathos pdb pexpect _pickle pickle pip pipes pkg_resources pkgutil "
    "platform plistlib plumbum popen2 poplib posix posixfile _posixshmem _posixsubprocess ppft profile pstats "
    "psutil pty py_compile pyclbr pycurl pydoc _pyio _pyrepl _pytest pytest pyximport readline requests resource "
    "rexec rfc822 rlcompleter rpyc runpy _scproxy setuptools sh shelve shutil signal SimpleHTTPServer site "
    "_sitebuiltins smart_open smtpd smtplib sndhdr _socket socket SocketServer socketserver _sqlite3 sqlite3 "
    "_ssl ssl subprocess sunau sys sysconfig syslog tabnanny tarfile telnetlib tempfile termios _testcapi "
    "_testinternalcapi _thread threading timeit Tkinter _tkinter tkinter tokenize trace tracemalloc tty turtle "
    "turtledemo twisted types unittest urllib urllib2 urllib3 uu venv virtualenv wave webbrowser websocket wget "
    "whichdb _winapi winreg winsound wsgiref xdrlib xmlrpc xmlrpclib _xxsubinterpreters zipapp zipfile zipimport "
    "zmq ";

// The other modules of Python: their classes are plain values. Those of the first list have functions that do more than
// compute; the functions of the second one only compute, but for those with `_` in front.
inline constexpr std::string_view kClassModules =
    " _abc abc argparse ast audioop calendar _codecs codecs _collections _collections_abc _compat_pickle "
    "configparser contextlib _contextvars contextvars copyreg _crypt crypt _csv dataclasses dis _elementtree "
    "email encodings enum fpformat genericpath getopt getpass gettext graphlib grp hmac htmllib _io io _json "
    "_locale locale logging nturl2path opcode optparse ossaudiodev pickletools posixpath pprint pwd "
    "_pydecimal pydoc_data pyexpat _queue queue _random reprlib sched secrets select selectors sgmllib shlex "
    "spwd sre_compile sre_constants sre_parse _strptime _symtable symtable _threading_local tomllib traceback "
    "_tracemalloc _typing typing _uuid uuid _warnings warnings _weakref weakref _weakrefset xml _zoneinfo ";
inline constexpr std::string_view kComputingModules =
    " array base64 binascii bisect cmath collections colorsys copy csv _datetime datetime _decimal decimal "
    "difflib errno fnmatch fractions _hashlib hashlib heapq html ipaddress itertools json keyword math numbers "
    "quopri random re _sre stat statistics string stringprep _struct struct textwrap time unicodedata zlib "
    "zoneinfo ";

// Libraries whose classes are common in checkpoints. A method of such a class is not common.
inline constexpr std::string_view kLibraries =
    " accelerate catboost datasets diffusers fastai flax gensim h5py huggingface_hub jax jaxlib keras lightgbm "
    "lightning matplotlib nltk numpy pandas PIL pytorch_lightning ray scipy six sklearn spacy sympy tensorflow "
    "tf_keras torch torchaudio torchvision transformers xgboost yaml ";

// Functions, classes and modules of other modules, with all that is inside of them.
inline constexpr auto kNames = std::to_array<std::string_view>({
    "_io.FileIO",
    "_io.open",
    "_io.open_code",
    "argparse.FileType",
    "builtins.__import__",
    "builtins.apply",
    "builtins.breakpoint",
    "builtins.compile",
    "builtins.delattr",
    "builtins.dir",
    "builtins.eval",
    "builtins.exec",
    "builtins.execfile",
    "builtins.exit",
    "builtins.file",
    "builtins.filter",
    "builtins.getattr",
    "builtins.globals",
    "builtins.help",
    "builtins.input",
    "builtins.locals",
    "builtins.map",
    "builtins.open",
    "builtins.quit",
    "builtins.raw_input",
    "builtins.reduce",
    "builtins.reload",
    "builtins.setattr",
    "builtins.staticmethod",
    "builtins.vars",
    "codecs.open",
    "copyreg.add_extension",
    "h5py.File",
    "io.FileIO",
    "io.open",
    "io.open_code",
    "logging.basicConfig",
    "logging.config",
    "logging.FileHandler",
    "logging.handlers",
    "nltk.data.load",
    "numpy.core.multiarray.fromfile",
    "numpy.core.records.fromfile",
    "numpy.DataSource",
    "numpy.distutils",
    "numpy.f2py",
    "numpy.fromfile",
    "numpy.fromregex",
    "numpy.genfromtxt",
    "numpy.lib._npyio_impl.load",
    "numpy.lib.npyio.load",
    "numpy.load",
    "numpy.loadtxt",
    "numpy.lookfor",
    "numpy.rec.fromfile",
    "numpy.safe_eval",
    "numpy.save",
    "numpy.savetxt",
    "numpy.savez",
    "numpy.savez_compressed",
    "numpy.source",
    "numpy.testing._private.utils.runstring",
    "numpy.testing.runstring",
    "pandas.core.computation.eval.eval",
    "pandas.eval",
    "pandas.ExcelFile",
    "pandas.ExcelWriter",
    "pandas.HDFStore",
    "pandas.io.pickle.read_pickle",
    "pandas.read_pickle",
    "PIL.Image.open",
    "six.exec_",
    "six.moves",
    "sympy.core.sympify",
    "sympy.lambdify",
    "sympy.parse_expr",
    "sympy.parsing",
    "sympy.S",
    "sympy.sympify",
    "sympy.utilities.lambdify",
    "tensorflow.load_library",
    "tensorflow.load_op_library",
    "tensorflow.python.framework.load_library",
    "test.libregrtest",
    "test.regrtest",
    "test.support",
    "torch._inductor",
    "torch._ops._Ops",
    "torch.classes",
    "torch.compile",
    "torch.from_file",
    "torch.fx.graph_module.reduce_graph_module",
    "torch.fx.graph_module.reduce_package_graph_module",
    "torch.hub",
    "torch.jit.load",
    "torch.jit.unsupported_tensor_ops",
    "torch.load",
    "torch.ops",
    "torch.package",
    "torch.save",
    "torch.serialization.load",
    "torch.storage._load_from_bytes",
    "torch.utils.bottleneck",
    "torch.utils.collect_env",
    "torch.utils.cpp_extension",
    "torch.utils.model_zoo",
    "transformers.utils.import_utils",
});

// Modules of libraries whose functions do so, with the modules in them. Their classes are no danger.
inline constexpr auto kFunctionModules = std::to_array<std::string_view>({
    "huggingface_hub",
    "keras.src.utils",
    "keras.utils",
    "numba.core.serialize",
    "numba.serialize",
    "numpy.compat",
    "numpy.ctypeslib",
    "numpy.lib._datasource",
    "numpy.lib._format_impl",
    "numpy.lib._npyio_impl",
    "numpy.lib._utils_impl",
    "numpy.lib.format",
    "numpy.lib.npyio",
    "numpy.lib.utils",
    "numpy.testing",
    "pandas.compat",
    "pandas.core.computation",
    "pandas.io",
    "pandas.util",
    "pyspark.cloudpickle",
    "pyspark.serializers",
    "ray.cloudpickle",
    "scipy.datasets",
    "scipy.io",
    "scipy.weave",
    "sklearn.datasets",
    "sympy.external",
    "sympy.utilities",
    "tensorflow.io",
    "tensorflow.python.lib.io",
    "tensorflow.python.platform",
    "torch._C",
    "torch._appdirs",
    "torch._dynamo",
    "torch._export",
    "torch._functorch",
    "torch._jit_internal",
    "torch._lazy",
    "torch._library",
    "torch._sources",
    "torch._tensor",
    "torch._utils",
    "torch._utils_internal",
    "torch._vendor",
    "torch._weights_only_unpickler",
    "torch.backends",
    "torch.compiler",
    "torch.contrib",
    "torch.distributed",
    "torch.export",
    "torch.fx",
    "torch.jit",
    "torch.library",
    "torch.multiprocessing",
    "torch.onnx",
    "torch.overrides",
    "torch.profiler",
    "torch.serialization",
    "torch.storage",
    "torch.testing",
    "torch.utils",
    "transformers.dynamic_module_utils",
    "transformers.utils",
    "yaml",
});

// Names of the modules in kModules that make plain values, and two names with `__`.
inline constexpr auto kValues = std::to_array<std::string_view>({
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
    "copyreg.__newobj__",
    "copyreg.__newobj_ex__",
    "types.SimpleNamespace",
});

// Functions of the other modules that make plain values; a `*` stands for a rest without a dot.
inline constexpr auto kPlainFunctions = std::to_array<std::string_view>({
    "_codecs.decode",
    "_codecs.encode",
    "array._array_reconstructor",
    "codecs.decode",
    "codecs.encode",
    "collections._tuplegetter",
    "copyreg._reconstructor",
    "csv.excel",
    "logging.getLogger",
    "re._compile",
    "torch._C._fft.*",
    "torch._C._linalg.*",
    "torch._C._nn.*",
    "torch._C._special.*",
    "torch._tensor._rebuild_from_type",
    "torch._tensor._rebuild_from_type_v2",
    "torch._utils._rebuild_*",
    "torch.serialization._get_layout",
    "torch.utils.checkpoint.*",
    "torch.utils.data._utils.collate.*",
    "torch.utils.data.dataset.*",
    "torch.utils.hooks.*",
});

inline constexpr auto kRenamed = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"__builtin__", "builtins"},
    {"copy_reg", "copyreg"},
    {"cPickle", "pickle"},
    {"exceptions", "builtins"},
    {"urllib2", "urllib.request"},
});

}  // namespace weightfs::pickle
