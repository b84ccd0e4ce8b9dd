// Writes what pickle.dump and joblib.dump write of arrays and estimators, opcode by opcode. Nothing of Python is
// needed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/builders/pickle_builder.h"

namespace weightfs::test {

/// numpy.dtype(code) with its state.
inline PickleBuilder dtype(std::string_view code, std::string_view order = "<") {
  PickleBuilder b;
  b.call("numpy", "dtype", PickleBuilder().text(code).boolean(false).boolean(true));
  b.mark().integer(3).text(order).none().none().none().integer(-1).integer(-1).integer(0).tuple();
  return b.build();
}

/// The type of records: fields of these types at these offsets.
struct PickledField {
  std::string name;
  PickleBuilder type;
  int64_t offset;
};
inline PickleBuilder record_dtype(const std::vector<PickledField>& fields, int64_t size) {
  PickleBuilder names, dict;
  for (const PickledField& field : fields) {
    names.text(field.name);
    dict.text(field.name).mark().add(field.type).integer(field.offset).tuple();
  }
  PickleBuilder b;
  b.call("numpy", "dtype", PickleBuilder().text("V" + std::to_string(size)).boolean(false).boolean(true));
  b.mark().integer(3).text("|").none().mark().add(names).tuple();
  b.raw("}").mark().add(dict).raw("u").integer(size).integer(1).integer(16).tuple();
  return b.build();
}

/// An array, whose data are any value.
inline PickleBuilder array_of(const PickleBuilder& type, const std::vector<int64_t>& shape, const PickleBuilder& data,
                              bool fortran_order = false) {
  PickleBuilder arguments;
  arguments.global("numpy", "ndarray").integers({0}).bytes("b");
  PickleBuilder b;
  b.call("numpy.core.multiarray", "_reconstruct", arguments);
  b.mark().integer(1).integers(shape).add(type).boolean(fortran_order).add(data).tuple();
  return b.build();
}

inline PickleBuilder array(std::string_view code, const std::vector<int64_t>& shape, std::string_view data) {
  return array_of(dtype(code), shape, PickleBuilder().bytes(data));
}

/// A dict; `items` are the opcodes of keys and values.
inline PickleBuilder dict(const PickleBuilder& items) { return PickleBuilder().raw("}").mark().add(items).raw("u"); }

/// An object of a class with attributes.
inline PickleBuilder object(std::string_view module, std::string_view name, const PickleBuilder& attributes) {
  return PickleBuilder().global(module, name).raw(")\x81").add(dict(attributes)).build();
}

/// An array as joblib 1.2 writes it: `padding` bytes before the data.
inline PickleBuilder joblib_array(std::string_view code, const std::vector<int64_t>& shape, std::string_view data,
                                  size_t padding = 5, std::string_view order = "C") {
  PickleBuilder attributes;
  attributes.text("subclass").global("numpy", "ndarray").text("shape").integers(shape).text("order").text(order);
  attributes.text("dtype").add(dtype(code)).text("allow_mmap").boolean(true);
  attributes.text("numpy_array_alignment_bytes").integer(16);
  PickleBuilder b = object("joblib.numpy_pickle", "NumpyArrayWrapper", attributes);
  return b.raw(le(padding, 1)).raw(std::string(padding, '\xFF')).raw(data);
}

/// The members of a file of torch before 0.1.10: a matrix of 2 x 2 floats with these strides, named "w". Its storage
/// is 5.
struct TorchTar {
  std::string sys_info, pickle, storages, tensors;
};
inline TorchTar torch_tar(std::string_view data = "0123456789abcdef", const std::vector<int64_t>& strides = {2, 1}) {
  TorchTar tar;
  tar.sys_info = dict({}).pickle();
  tar.pickle = dict(PickleBuilder().text("w").text("7").raw("Q")).pickle();
  const auto tuple = [](const PickleBuilder& items) { return PickleBuilder().mark().add(items).tuple().pickle(); };
  tar.storages = PickleBuilder().integer(1).pickle() +
                 tuple(PickleBuilder().integer(5).text("cpu").global("torch", "FloatStorage")) +
                 le(data.size() / 4, 8) + std::string(data) + PickleBuilder().raw("]").pickle();
  tar.tensors = PickleBuilder().integer(1).pickle() +
                tuple(PickleBuilder().integer(7).integer(5).global("torch", "FloatTensor")) + le(2, 4) + le(0, 4);
  for (const int64_t number : {int64_t{2}, int64_t{2}, strides[0], strides[1], int64_t{0}})
    tar.tensors += le(static_cast<uint64_t>(number), 8);
  return tar;
}

/// A booster of XGBoost with this model.
inline PickleBuilder booster_of(std::string_view model) {
  const PickleBuilder handle = PickleBuilder().call("builtins", "bytearray", PickleBuilder().bytes(model));
  return object("xgboost.core", "Booster", PickleBuilder().text("handle").add(handle));
}

/// A pipeline of two steps, of an old and a new version of scikit-learn if they differ.
inline std::string small_pipeline(std::string_view scaler_version = "1.2.1") {
  const auto step = [](std::string_view name, const PickleBuilder& estimator) {
    return PickleBuilder().text(name).add(estimator).raw("\x86");
  };
  const PickleBuilder scaler = object("sklearn.preprocessing._data", "StandardScaler",
                                      PickleBuilder()
                                          .text("with_mean")
                                          .boolean(true)
                                          .text("mean_")
                                          .add(array("f4", {2}, "01234567"))
                                          .text("_sklearn_version")
                                          .text(scaler_version));
  const PickleBuilder ridge = object("sklearn.linear_model._ridge", "Ridge",
                                     PickleBuilder()
                                         .text("alpha")
                                         .real(0.5)
                                         .text("coef_")
                                         .add(array("f8", {1}, "abcdefgh"))
                                         .text("_sklearn_version")
                                         .text("1.2.1"));
  PickleBuilder steps;
  steps.raw("]").mark().add(step("scale", scaler)).add(step("ridge", ridge)).raw("e");
  return object("sklearn.pipeline", "Pipeline",
                PickleBuilder().text("steps").add(steps).text("_sklearn_version").text("1.2.1"))
      .pickle();
}

}  // namespace weightfs::test
