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

// Names that Python sets lead to every function, in any module.
TEST(Danger, NamesOfPythonItselfCanRunCode) {
  for (const char* name :
       {"__builtins__", "__globals__", "__dict__", "__loader__", "__spec__", "__import__", "__class__",
        "__subclasses__", "__getattribute__", "__reduce__", "Net.__init__.__globals__", "a.__new__"})
    EXPECT_TRUE(is_dangerous("any.module", name)) << name;
  EXPECT_TRUE(is_dangerous("builtins", "object.__getattribute__"));
  EXPECT_TRUE(is_dangerous("torch.utils.bottleneck.__main__", "Anything"));
  EXPECT_TRUE(is_dangerous("any.module", "__anything"));
  EXPECT_FALSE(is_dangerous("__main__", "Net"));
  EXPECT_FALSE(is_dangerous("__torch__.torch.nn", "___torch_mangle_0"));
  EXPECT_FALSE(is_dangerous("copyreg", "__newobj__"));
  EXPECT_FALSE(is_dangerous("numpy.random", "__RandomState_ctor"));
  EXPECT_FALSE(is_dangerous("numpy.random._pickle", "__bit_generator_ctor"));
  EXPECT_FALSE(is_dangerous("sklearn._loss._loss", "__pyx_unpickle_CyHalfBinomialLoss"));
}

// Functions of the standard library that are not known to compute only, and those that libraries have for other ends.
TEST(Danger, FunctionsThatDoMoreThanComputeCanRunCode) {
  for (const auto& [module, name] : std::initializer_list<std::pair<const char*, const char*>>{
           {"uuid", "_get_command_stdout"},
           {"uuid", "_ifconfig_getnode"},
           {"dataclasses", "_create_fn"},
           {"dataclasses", "make_dataclass"},
           {"typing", "_eval_type"},
           {"typing", "ForwardRef._evaluate"},
           {"string", "Formatter.get_field"},
           {"enum", "bltns.eval"},
           {"argparse", "_os"},
           {"argparse", "FileType"},
           {"weakref", "finalize"},
           {"xml.etree.ElementTree", "ElementTree.write"},
           {"six.moves.builtins", "eval"},
           {"pandas.compat.pickle_compat", "pkl.loads"},
           {"pandas", "read_pickle"},
           {"numpy.testing", "rundocs"},
           {"numpy", "savetxt"},
           {"numpy.f2py.crackfortran", "getlincoef"},
           {"sympy", "sympify"},
           {"hydra.utils", "instantiate"},
           {"torch._inductor.codecache", "compile_file"},
           {"torch._inductor.runtime.compile_tasks", "_reload_python_module"},
           {"torch._dynamo.guards", "GuardBuilder.get"},
           {"torch._utils", "_import_dotted_name"},
           {"torch._C", "import_ir_module"},
           {"pipes", "Template"},
           {"torch.utils._config_module", "ConfigModule.load_config"},
           {"torch.utils.collect_env", "run"},
           {"torch.utils.data.datapipes.utils.decoder", "basichandlers"},
           {"torch.fx.experimental.symbolic_shapes", "ShapeEnv.evaluate_guards_expression"},
           {"torch.serialization", "load"},
           {"distutils.file_util", "write_file"},
           {"idlelib.pyshell", "ModifiedInterpreter.runcode"},
           {"lib2to3.pgen2.pgen", "ParserGenerator.make_label"},
           {"test.support.script_helper", "assert_python_ok"}})
    EXPECT_TRUE(is_dangerous(module, name)) << module << "." << name;
}

TEST(Danger, WhatCheckpointsNeedCannot) {
  for (const auto& [module, name] : std::initializer_list<std::pair<const char*, const char*>>{
           {"torch._utils", "_rebuild_tensor_v2"},
           {"torch._tensor", "_rebuild_from_type_v2"},
           {"torch.serialization", "_get_layout"},
           {"torch", "relu"},
           {"torch.nn.functional", "gelu"},
           {"torch._C._nn", "gelu"},
           {"torch.cuda.amp.grad_scaler", "_refresh_per_optimizer_state"},
           {"torch.utils.data._utils.collate", "default_collate"},
           {"torch.utils.data.sampler", "RandomSampler"},
           {"torch.distributed.tensor", "DTensor"},
           {"torch.jit._script", "unpackage_script_module"},
           {"numpy", "log1p"},
           {"numpy.core", "_ufunc_reconstruct"},
           {"scipy.sparse._csr", "csr_matrix"},
           {"nltk.tokenize", "word_tokenize"},
           {"collections", "deque"},
           {"datetime", "timedelta"},
           {"itertools", "count"},
           {"math", "log"},
           {"re", "_compile"},
           {"random", "Random"},
           {"uuid", "UUID"},
           {"optparse", "Values"},
           {"configparser", "ConfigParser"},
           {"io", "BytesIO"},
           {"types", "SimpleNamespace"},
           {"my.project", "Outer.Inner"},
           {"my.project", "collate"},
           {"test", "collate"},
           {"parser", "tree"}})
    EXPECT_FALSE(is_dangerous(module, name)) << module << "." << name;
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
