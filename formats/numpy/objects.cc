// Pickles of arrays of objects.
#include <algorithm>
#include <array>

#include "formats/numpy/pickled.h"

namespace weightfs::numpy {

bool is_plain_name(std::string_view global) {
  constexpr auto kNames = std::to_array<std::string_view>({
      "_codecs.encode",
      "builtins.bool",
      "builtins.bytearray",
      "builtins.bytes",
      "builtins.complex",
      "builtins.dict",
      "builtins.float",
      "builtins.frozenset",
      "builtins.int",
      "builtins.list",
      "builtins.object",
      "builtins.range",
      "builtins.set",
      "builtins.slice",
      "builtins.str",
      "builtins.tuple",
      "collections.Counter",
      "collections.OrderedDict",
      "collections.defaultdict",
      "collections.deque",
      "copyreg.__newobj__",
      "copyreg.__newobj_ex__",
      "copyreg._reconstructor",
      "numpy.core.multiarray._reconstruct",
      "numpy.core.multiarray.scalar",
      "numpy.core.numeric._frombuffer",
      "numpy.dtype",
      "numpy.ma.core.MaskedArray",
      "numpy.ma.core._mareconstruct",
      "numpy.ndarray",
  });
  const std::string name = numpy_name(pickle::in_python_3(global));
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

Result<void> add_objects(const std::string& prefix, const SourcePtr& file, uint64_t offset, const pickle::File& around,
                         pickle::Contents& out) {
  Cursor cursor(*file, offset, file->size());
  const pickle::Pickle object = TRY(pickle::read_pickle(cursor, *around.budget));
  const pickle::File place{file, around.blobs, around.budget, around.depth};
  TRY_VOID(pickle::report_globals(object, is_plain_name, nullptr, out));
  PickledArrays arrays(object, place, out);
  const std::array<pickle::Objects*, 1> libraries{&arrays};
  return pickle::walk(object, libraries, prefix, out);
}

}  // namespace weightfs::numpy
