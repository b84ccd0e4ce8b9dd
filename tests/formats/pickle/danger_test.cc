// Names in pickles that can run code.
#include "formats/pickle/danger.h"

#include <gtest/gtest.h>

namespace weightfs::pickle::danger_test {
namespace {

bool is_dangerous(const std::string& module, const std::string& name) {
  return can_run_code({module + "." + name, module.size()});
}

TEST(Danger, NamesOfMalwareCanRunCode) {
  for (const auto& [module, name] :
       std::initializer_list<std::pair<const char*, const char*>>{{"os", "system"},
                                                                  {"posix", "system"},
                                                                  {"nt", "system"},
                                                                  {"subprocess", "Popen"},
                                                                  {"builtins", "eval"},
                                                                  {"__builtin__", "eval"},
                                                                  {"builtins", "getattr"},
                                                                  {"builtins", "exec.__call__"},
                                                                  {"random", "_os.system"},
                                                                  {"argparse", "_os.system"},
                                                                  {"codecs", "builtins.exec"},
                                                                  {"dataclasses", "builtins.exec.__call__"},
                                                                  {"reprlib", "__builtins__.exec"},
                                                                  {"numpy.testing", "runstring"},
                                                                  {"pandas", "eval"},
                                                                  {"runpy", "_run_code"},
                                                                  {"webbrowser", "open"},
                                                                  {"?", "system"},
                                                                  {"os", "?"},
                                                                  {"torch", "load"},
                                                                  {"os.path", "join"},
                                                                  {"cPickle", "loads"},
                                                                  {"urllib2", "urlopen"},
                                                                  {"pydoc", "pipepager"},
                                                                  {"copyreg", "add_extension"},
                                                                  {"joblib", "load"},
                                                                  {"joblib.numpy_pickle", "load"},
                                                                  {"keras.models", "load_model"},
                                                                  {"sqlite3", "connect"},
                                                                  {"telnetlib", "Telnet"},
                                                                  {"shelve", "open"},
                                                                  {"logging.config", "fileConfig"},
                                                                  {"logging", "FileHandler"},
                                                                  {"io", "FileIO"},
                                                                  {"codecs", "open"},
                                                                  {"torch.ops", "load_library"},
                                                                  {"xmlrpc.client", "ServerProxy"},
                                                                  {"tensorflow.keras.models", "load_model"},
                                                                  {"pandas", "read_pickle"},
                                                                  {"numpy", "core.multiarray.os.system"},
                                                                  {"numpy.testing._private.utils", "runstring"}})
    EXPECT_TRUE(is_dangerous(module, name)) << module << "." << name;
}

TEST(Danger, ClassesAndPlainValuesCannot) {
  for (const auto& [module, name] : std::initializer_list<std::pair<const char*, const char*>>{
           {"argparse", "Namespace"},
           {"builtins", "evaluate"},
           {"osmium", "system"},
           {"numpy", "ndarray"},
           {"", ""},
           {"joblib.numpy_pickle", "NumpyArrayWrapper"},
           {"sklearn.externals.joblib.numpy_pickle", "NumpyArrayWrapper"},
           {"sklearn.tree._tree", "Tree"},
           {"my.platform.models", "Net"},
           {"pathlib", "PosixPath"},
           {"logging", "getLogger"},
           {"test", "Net"},
           {"user.models", "Net"},
           {"codecs", "encode"},
           {"functools", "partial"}})
    EXPECT_FALSE(is_dangerous(module, name)) << module << "." << name;
}

TEST(Danger, ErrorsNameWhatCouldHaveRunBefore) {
  EXPECT_EQ(before_an_error({{"numpy.dtype", 5}}), "");
  EXPECT_EQ(before_an_error({{"os.system", 2}, {"numpy.dtype", 5}, {"pty.spawn", 3}}),
            " (before that it names os.system, pty.spawn, which can run code)");
}

}  // namespace
}  // namespace weightfs::pickle::danger_test
