#include "formats/code/names.h"

#include "base/text.h"

namespace weightfs::code {
namespace {

// Modules of Python that packages import.
constexpr auto kModules = std::to_array<std::string_view>({"os",
                                                           "sys",
                                                           "subprocess",
                                                           "builtins",
                                                           "importlib",
                                                           "runpy",
                                                           "shutil",
                                                           "pickle",
                                                           "cloudpickle",
                                                           "dill",
                                                           "socket",
                                                           "ctypes",
                                                           "pty",
                                                           "posix",
                                                           "nt",
                                                           "code",
                                                           "codeop",
                                                           "marshal",
                                                           "requests",
                                                           "urllib",
                                                           "http",
                                                           "webbrowser",
                                                           "platform",
                                                           "multiprocessing",
                                                           "threading",
                                                           "pathlib",
                                                           "io",
                                                           "hub",
                                                           "cpp_extension",
                                                           "python_utils",
                                                           "serialization_lib",
                                                           "file_utils",
                                                           "io_utils",
                                                           "tempfile",
                                                           "pydoc",
                                                           "timeit",
                                                           "pdb",
                                                           "operator",
                                                           "functools",
                                                           "inspect",
                                                           "types",
                                                           "gc"});

constexpr auto kMembers = std::to_array<std::string_view>({"load",
                                                           "save",
                                                           "eval",
                                                           "exec",
                                                           "compile",
                                                           "system",
                                                           "popen",
                                                           "Popen",
                                                           "call",
                                                           "check_call",
                                                           "check_output",
                                                           "run",
                                                           "run_path",
                                                           "run_module",
                                                           "import_module",
                                                           "get_file",
                                                           "load_model",
                                                           "save_model",
                                                           "load_weights",
                                                           "save_weights",
                                                           "load_img",
                                                           "save_img",
                                                           "from_file",
                                                           "open",
                                                           "getattr",
                                                           "setattr",
                                                           "get_method",
                                                           "get_class",
                                                           "get_object",
                                                           "get_static_method",
                                                           "load_op_library",
                                                           "load_library",
                                                           "read_file",
                                                           "write_file",
                                                           "py_function",
                                                           "numpy_function",
                                                           "py_func",
                                                           "model_from_json",
                                                           "model_from_yaml",
                                                           "model_from_config",
                                                           "deserialize",
                                                           "deserialize_keras_object",
                                                           "func_load",
                                                           "enable_unsafe_deserialization",
                                                           "load_url",
                                                           "load_inline",
                                                           "load_state_dict_from_url",
                                                           "download_url_to_file",
                                                           "urlopen",
                                                           "urlretrieve",
                                                           "savetxt",
                                                           "memmap",
                                                           "fromfile",
                                                           "optional_import",
                                                           "download_url",
                                                           "download_and_extract"});

}  // namespace

bool leads_to_danger(std::string_view name) {
  bool is_first = true, leads = false;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view word = name.substr(begin, end - begin);
    leads = leads || word.starts_with("__") || (!is_first && is_one_of(word, kModules));
    is_first = false;
    begin = end + 1;
  }
  return leads || is_one_of(member_of(name), kMembers);
}

}  // namespace weightfs::code
