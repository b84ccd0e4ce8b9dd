// The allow list: names that unpickling may import and call without running more than constructors of plain values. All
// others are unknown or dangerous.
#pragma once

#include <array>
#include <string_view>

namespace weightfs::pickle {

/// Names of one module; if it ends with `.*`, also of the modules inside of it. A space stands between names. `*_score`
/// and `_foo*` stand for any name with that end or beginning, `@classes` for the names that are spelled as classes,
/// but for those in kNotOwnClasses.
struct HarmlessNames {
  std::string_view module, names;
};

// Classes that modules of libraries import from elsewhere, and that do more than hold values.
inline constexpr std::string_view kNotOwnClasses =
    " CDLL CodeType DataSource ExcelFile ExcelWriter FileHandler ForwardRef FunctionType Generic GraphModule HDFStore "
    "Interpreter LambdaType Lock Logger Memory MethodType ModuleType NamedTemporaryFile NpzFile Parallel Path Popen "
    "PosixPath PurePath Process ProcessPoolExecutor Pool Queue Request ScriptModule Session SourceFileLoader "
    "TempMemmap "
    "Template TemporaryDirectory Thread ThreadPool ThreadPoolExecutor ThreadpoolController TopologicalSorter Tracer "
    "Unpickler WindowsPath ZipFile ";

inline constexpr auto kHarmlessNames = std::to_array<HarmlessNames>({
    // Values of Python. codecs.encode and copyreg only call what the pickle names besides them.
    {"builtins",
     "bool bytearray bytes complex dict float frozenset int list long object range set slice str tuple unicode xrange"},
    {"collections", "Counter OrderedDict defaultdict deque"},
    {"_codecs", "encode"},
    {"codecs", "encode"},
    {"copyreg", "__newobj__ __newobj_ex__ _reconstructor"},
    {"argparse", "Namespace"},
    {"array", "_array_reconstructor array"},
    {"datetime", "date datetime time timedelta timezone"},
    {"decimal", "Decimal"},
    {"fractions", "Fraction"},
    {"_io", "BytesIO StringIO"},
    {"io", "BytesIO StringIO"},
    {"itertools", "chain count cycle repeat"},
    {"math",
     "acos asin atan ceil cos cosh degrees erf exp expm1 fabs floor hypot log log10 log1p log2 pow radians sin sinh "
     "sqrt "
     "tan tanh trunc"},
    {"pathlib", "Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath"},
    {"pathlib._local", "Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath"},
    {"random", "Random"},
    {"re", "_compile"},
    {"types", "SimpleNamespace"},
    {"uuid", "SafeUUID UUID"},
    {"zoneinfo", "ZoneInfo"},
    {"pytz", "_UTC _p"},
    {"dateutil.tz.tz", "tzlocal tzutc"},

    // torch/_weights_only_unpickler.py: _get_allowed_globals(), and what importing torch.distributed.tensor adds.
    {"torch",
     "*Storage *Tensor Size Tensor bfloat16 bits* bool cdouble cfloat chalf channels_last channels_last_3d complex128 "
     "complex32 complex64 contiguous_format device double dtype float float16 float32 float4_* float64 float8_* half "
     "int "
     "int1 int16 int2 int3 int32 int4 int5 int6 int64 int7 int8 long per_channel_affine "
     "per_channel_affine_float_qparams per_channel_symmetric per_tensor_affine per_tensor_symmetric preserve_format "
     "qint32 qint8 quint2x4 quint4x2 quint8 short sparse_coo sparse_csr strided uint1 uint16 uint2 uint3 uint32 uint4 "
     "uint5 uint6 uint64 uint7 uint8"},
    {"torch.cuda", "*Storage *Tensor"},
    {"torch.cuda.sparse", "*Tensor"},
    {"torch.sparse", "*Tensor"},
    {"torch._tensor", "Tensor _rebuild_from_type _rebuild_from_type_v2"},
    {"torch.tensor", "Tensor"},
    {"torch._utils",
     "_rebuild_device_tensor_from_cpu_tensor _rebuild_device_tensor_from_numpy _rebuild_meta_tensor_no_storage "
     "_rebuild_nested_tensor _rebuild_parameter _rebuild_parameter_with_state _rebuild_qtensor "
     "_rebuild_sparse_csr_tensor _rebuild_sparse_tensor _rebuild_tensor _rebuild_tensor_v2 _rebuild_tensor_v3 "
     "_rebuild_wrapper_subclass _rebuild_xla_tensor"},
    {"torch.nn.parameter", "Buffer Parameter UninitializedBuffer UninitializedParameter"},
    {"torch.serialization", "_get_layout"},
    {"torch.jit._script", "unpackage_script_module"},  // TorchScript in the same package
    {"torch.storage", "TypedStorage UntypedStorage _TypedStorage _UntypedStorage"},
    {"torch.distributed.device_mesh", "DeviceMesh"},
    {"torch.distributed.tensor", "DTensor"},
    {"torch.distributed.tensor._dtensor_spec", "DTensorSpec TensorMeta"},
    {"torch.distributed.tensor.placement_types", "Partial Replicate Shard"},
    // torch/jit/_pickle.py: values of TorchScript, and the debug_pkl files beside its code.
    {"torch.jit._pickle",
     "build_boollist build_doublelist build_intlist build_tensor_from_id build_tensorlist restore_type_tag"},
    // torch/distributed/checkpoint/metadata.py: dataclasses of numbers.
    {"torch.distributed.checkpoint.metadata",
     "BytesStorageMetadata ChunkStorageMetadata Metadata MetadataIndex StorageMeta TensorProperties "
     "TensorStorageMetadata _MEM_FORMAT_ENCODING"},
    {"torch.distributed._shard.checkpoint.metadata",
     "BytesStorageMetadata ChunkStorageMetadata Metadata MetadataIndex TensorStorageMetadata"},
    {"torch.distributed._shard.sharded_tensor.metadata", "MEM_FORMAT_ENCODING TensorProperties"},
    {"torch.distributed.checkpoint.filesystem", "_StorageInfo _StoragePrefix"},
    {"torch.distributed._shard.checkpoint.filesystem", "_StorageInfo"},
    // Whole modules: torch.nn.Module.__setstate__ and torch.optim.Optimizer.__setstate__ only set attributes.
    {"torch.nn", "@classes"},
    {"torch.nn.modules.*", "@classes"},
    {"torch.nn.backends.thnn", "_get_thnn_function_backend"},
    {"torch.nn.parallel.data_parallel", "DataParallel"},
    {"torch.nn.parallel.distributed", "DistributedDataParallel"},
    {"torch.nn.utils.parametrizations", "@classes"},
    {"torch.nn.utils.rnn", "PackedSequence"},
    {"torch.nn.utils.spectral_norm", "@classes"},
    {"torch.nn.utils.weight_norm", "@classes"},
    {"torch.optim.*", "@classes"},
    {"torch.nn.functional",
     "cross_entropy elu gelu glu hardswish hardtanh l1_loss leaky_relu log_softmax logsigmoid mish mse_loss nll_loss "
     "normalize relu relu6 selu sigmoid silu smooth_l1_loss softmax softplus softsign tanh"},
    {"torch._C._nn",
     "elu elu_ gelu glu hardswish hardtanh leaky_relu leaky_relu_ log_sigmoid mish relu6 silu softplus"},
    {"torch", "abs cos erf exp log relu selu sigmoid sin softmax sqrt tanh"},
    {"torchvision.models.*", "@classes"},
    {"torchvision.ops.*", "@classes"},
    // fickling/ml.py, ML_ALLOWLIST: modules of Ultralytics are those of torch.
    {"ultralytics.nn.modules.*", "@classes"},
    {"ultralytics.nn.tasks", "*Model"},
    {"ultralytics.utils.loss", "*Loss"},
    {"ultralytics.utils.tal", "TaskAlignedAssigner"},
    {"ultralytics.utils", "IterableSimpleNamespace"},
    {"ultralytics.yolo.utils", "IterableSimpleNamespace"},
    // Dictionaries with attributes, and names of callbacks, which are keys.
    {"pytorch_lightning.utilities.parsing", "AttributeDict"},
    {"lightning_fabric.utilities.data", "AttributeDict"},
    {"lightning.fabric.utilities.data", "AttributeDict"},
    {"pytorch_lightning.callbacks.*", "@classes"},
    {"lightning.pytorch.callbacks.*", "@classes"},
    {"yacs.config", "CfgNode"},
    {"fvcore.common.config", "CfgNode"},
    {"detectron2.config.config", "CfgNode"},
    {"omegaconf.base", "ContainerMetadata Metadata"},
    {"omegaconf.dictconfig", "DictConfig"},
    {"omegaconf.listconfig", "ListConfig"},
    {"omegaconf.nodes", "AnyNode BooleanNode BytesNode EnumNode FloatNode IntegerNode PathNode StringNode"},
    {"tokenizers", "AddedToken Tokenizer"},
    {"tokenizers.models", "Model"},

    // numpy/_core/multiarray.py, numpy/random/_pickle.py: constructors of arrays, numbers and generators.
    {"numpy",
     "bool bool8 bool_ byte bytes_ cdouble cfloat clongdouble complex128 complex256 complex64 complex_ csingle "
     "datetime64 double dtype float128 float16 float32 float64 float_ half int16 int32 int64 int8 int_ intc intp "
     "longdouble longlong matrix ndarray object_ recarray record short single str_ string_ timedelta64 ubyte uint "
     "uint16 "
     "uint32 uint64 uint8 uintc uintp ulonglong unicode_ ushort void"},
    {"numpy.dtypes", "*DType"},
    {"numpy.core.multiarray", "_reconstruct scalar"},
    {"numpy.core.numeric", "_frombuffer"},
    {"numpy.core", "_ufunc_reconstruct"},
    {"numpy.core._internal", "_reconstruct"},
    {"numpy.core.records", "recarray record"},
    {"numpy.rec", "recarray record"},
    {"numpy.ma.core", "MaskedArray MaskedConstant _mareconstruct"},
    {"numpy.matrixlib.defmatrix", "matrix"},
    {"numpy.polynomial.*", "@classes"},
    {"numpy.random", "__RandomState_ctor"},
    {"numpy.random._pickle", "__bit_generator_ctor __generator_ctor __randomstate_ctor"},
    {"numpy.random.mtrand", "RandomState"},
    {"numpy.random._generator", "Generator"},
    {"numpy.random._mt19937", "MT19937"},
    {"numpy.random._pcg64", "PCG64 PCG64DXSM"},
    {"numpy.random._philox", "Philox"},
    {"numpy.random._sfc64", "SFC64"},
    {"numpy.random.bit_generator", "SeedSequence __pyx_unpickle_SeedSequence"},
    // Universal functions.
    {"numpy",
     "abs absolute add arccos arcsin arctan cbrt ceil cos cosh deg2rad divide exp exp2 expm1 floor log log10 log1p "
     "log2 "
     "maximum minimum multiply negative power rad2deg reciprocal rint sign sin sinh sqrt square subtract tan tanh "
     "trunc "
     "mean median std var sum max min amax amin"},
    {"numpy.core._multiarray_umath",
     "absolute add cbrt ceil cos divide exp expm1 floor log log10 log1p log2 maximum minimum multiply negative power "
     "sign sin sqrt square subtract tan tanh"},
    {"ml_dtypes", "bfloat16 float4_* float6_* float8_* int2 int4 uint2 uint4"},
    {"jaxlib.xla_extension", "bfloat16 float8_*"},
    {"jax._src.array", "_reconstruct_array"},
    {"jax._src.device_array", "reconstruct_device_array"},
    {"jax.interpreters.xla", "_reconstruct_device_array"},
    {"flax.core.frozen_dict", "FrozenDict"},

    // joblib/numpy_pickle.py: what stands for an array.
    {"joblib.numpy_pickle", "NDArrayWrapper NumpyArrayWrapper ZNDArrayWrapper"},
    {"joblib.numpy_pickle_compat", "NDArrayWrapper ZNDArrayWrapper"},

    // Estimators: BaseEstimator.__setstate__ only sets attributes. So do skops' trusted types.
    {"sklearn.*", "@classes __pyx_unpickle_*"},
    {"sklearn.utils", "Bunch"},
    {"sklearn.utils._bunch", "Bunch"},
    {"sklearn.utils.deprecation", "DeprecationDict"},
    {"sklearn.neighbors._kd_tree", "newObj"},
    {"sklearn.neighbors._ball_tree", "newObj"},
    {"sklearn.neighbors.kd_tree", "newObj"},
    {"sklearn.neighbors.ball_tree", "newObj"},
    {"sklearn.neighbors.dist_metrics", "newObj"},
    {"sklearn.neighbors._dist_metrics", "newObj"},
    {"sklearn.metrics._dist_metrics", "newObj"},
    {"sklearn.metrics.*", "*_distances *_error *_kernel *_loss *_score"},
    {"sklearn.preprocessing._function_transformer", "_identity"},
    {"sklearn.feature_selection._univariate_selection", "chi2 f_classif f_regression r_regression"},
    {"sklearn.feature_selection._mutual_info", "mutual_info_classif mutual_info_regression"},
    {"scipy.sparse.*", "*_array *_matrix"},
    {"scipy.interpolate.*", "@classes interp1d interp2d"},
    {"scipy.spatial.*", "@classes cKDTree"},
    {"scipy.special._ufuncs", "boxcox erf expit inv_boxcox log1p logit softmax"},
    // pandas/core, pandas/_libs: blocks, indexes and scalars.
    {"pandas.core.frame", "DataFrame"},
    {"pandas.core.series", "Series"},
    {"pandas.core.flags", "Flags"},
    {"pandas.core.indexes.*", "@classes _new_DatetimeIndex _new_Index _new_PeriodIndex"},
    {"pandas.core.index", "_new_Index"},
    {"pandas.core.internals.*", "@classes new_block"},
    {"pandas.core.arrays.*", "@classes"},
    {"pandas.core.dtypes.dtypes", "@classes"},
    {"pandas._libs.internals", "BlockManager _unpickle_block"},
    {"pandas._libs.arrays", "NDArrayBacked __pyx_unpickle_*"},
    {"pandas._libs.interval", "Interval __pyx_unpickle_*"},
    {"pandas._libs.missing", "NAType"},
    {"pandas._libs.tslibs.nattype", "NaTType __nat_unpickle _nat_unpickle"},
    {"pandas._libs.tslibs.offsets", "@classes __pyx_unpickle_*"},
    {"pandas._libs.tslibs.period", "Period __pyx_unpickle_*"},
    {"pandas._libs.tslibs.timedeltas", "Timedelta _timedelta_unpickle"},
    {"pandas._libs.tslibs.timestamps", "Timestamp _unpickle_timestamp"},
    // Boosters: the state is a model file, which weightfs shows.
    {"xgboost.core", "Booster"},
    {"xgboost.sklearn", "XGB*"},
    {"lightgbm.basic", "Booster"},
    {"lightgbm.sklearn", "LGBM*"},
    {"catboost.core", "CatBoost*"},
});

// Modules inside of those whose classes are in the list, but which are for other ends: downloads, tests, copies of
// other libraries.
inline constexpr auto kNotHarmlessModules = std::to_array<std::string_view>({
    "sklearn.conftest",
    "sklearn.datasets",
    "sklearn.externals",
    "sklearn.tests",
    "sklearn.utils",
});

}  // namespace weightfs::pickle
