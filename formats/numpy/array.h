// One .npy file: its header, and the tensor that it becomes. The format is numpy/lib/_format_impl.py of NumPy.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "formats/common/warnings.h"
#include "formats/model.h"
#include "formats/numpy/descr.h"
#include "formats/string_pool.h"

namespace weightfs::numpy {

inline constexpr std::string_view kMagic = "\x93NUMPY";
inline constexpr std::string_view kSuffix = ".npy";

/// The maximum size of a header in bytes. NumPy refuses 10,000 characters, unless it is told not to.
inline constexpr uint64_t kMaxHeaderSize = 1 << 20;

/// The bytes that are read first: enough for almost all headers.
inline constexpr size_t kUsualHeaderSize = 1024;

/// A header that fulfils all rules; the data may be too short.
struct Header {
  std::string version;  ///< "1.0"
  ElementType type;
  Shape shape;
  bool fortran_order = false;
  uint64_t data = 0;    ///< offset of the first element in the file
  uint64_t nbytes = 0;  ///< of all elements
};

/// The elements as a tensor has them: C order, numbers little-endian. `file`: all bytes of the .npy file. Fails with
/// unsupported if they are pickled objects, which are never opened, and with corrupt if the file is too short.
Result<Slice> elements_of(const Header& header, const Slice& file);

/// Reads the first `most` bytes of a file, or all if it has fewer.
using ReadHead = std::function<Result<std::string>(size_t most)>;

/// Reads the header of a file with these first kUsualHeaderSize bytes; `read_head` is called for a longer one. What
/// parsing takes is charged to `budget` and released. Fails with corrupt and unsupported, as `read_head` does, and as
/// the budget does.
Result<Header> read_header(std::string head, const ReadHead& read_head, Budget& budget);

/// The name of the array in a file of this name or path.
std::string_view array_name(std::string_view path);

/// Adds the tensors of .npy files to a model.
class ArrayAdder {
 public:
  ArrayAdder(Model& model, Warnings& warnings, Budget& budget) : model_(model), warnings_(warnings), budget_(budget) {}

  /// Adds the array of a file with this header. `file`: all of its bytes. The tensor is refused, with a warning, if it
  /// holds pickled objects or if the file is too short. Fails as the budget does.
  Result<void> add(std::string_view name, const Header& header, const Slice& file);

  /// Adds a refused tensor: a file whose header is invalid.
  Result<void> add_refused(std::string_view name, std::string_view reason);

 private:
  Result<Tensor> new_tensor(std::string_view name, size_t kept);

  Model& model_;
  Warnings& warnings_;
  Budget& budget_;
  StringPool spellings_{model_.string_pool};
};

}  // namespace weightfs::numpy
