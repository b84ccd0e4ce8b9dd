// The seeds of the corpora: one small input per feature of a format, by TARGET/NAME. Those without a target are
// containers; the target of their format gets them, too.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/support/memory_folder.h"

namespace weightfs::test {

using Seeds = std::map<std::string, std::string>;

/// Names that are not valid file names, and names that collide as paths.
std::vector<std::string> hostile_names();

/// An input with `container` and these files beside it.
std::string with_files(std::string container, const Files& beside);

/// Zips and tars (seeds_archives.cc), cartons and what TVM writes (seeds_models.cc), Ollama's manifests
/// (seeds_ollama.cc), pickles (seeds_pickles.cc).
void add_zips(Seeds& seeds);
void add_tars(Seeds& seeds);
void add_cartons(Seeds& seeds);
void add_tvm(Seeds& seeds);
void add_ollama(Seeds& seeds);
void add_pickles(Seeds& seeds);

/// HDF5 files with each kind of chunk index, filter and attribute (seeds_hdf5.cc).
void add_hdf5(Seeds& seeds);

/// Options of TFLite's operators, instructions of ExecuTorch, Paddle's programs in JSON, OpenVINO's XML, forms of
/// Caffe's layers, manifests of TensorFlow.js (seeds_graphs.cc).
void add_tflite_options(Seeds& seeds);
void add_executorch(Seeds& seeds);
void add_paddle(Seeds& seeds);
void add_openvino(Seeds& seeds);
void add_caffe(Seeds& seeds);
void add_coreml_networks(Seeds& seeds);
void add_tfjs(Seeds& seeds);

/// Checkpoints and graphs of TensorFlow (seeds_tensorflow.cc).
void add_tensorflow(Seeds& seeds);
/// Tree models, ORT, ncnn and Darknet in forms that the small models do not have (seeds_trees.cc).
void add_trees(Seeds& seeds);
void add_layers(Seeds& seeds);

/// Inputs other than containers: TOML, JSON, names, compressed bytes (seeds_texts.cc).
void add_texts(Seeds& seeds);

/// Listings of S3 and of the Hugging Face Hub, and block lists (seeds_servers.cc).
void add_servers(Seeds& seeds);

/// Requests, ranges and conditions (seeds_http.cc).
void add_http(Seeds& seeds);

}  // namespace weightfs::test
