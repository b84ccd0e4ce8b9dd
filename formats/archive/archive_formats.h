// The formats whose files are members of an archive: one row each. A row says how the format is recognized, in a packed
// archive and in an unpacked directory, and how its members become a Model. formats/detect/ makes a Format of every
// row.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "formats/archive/nested.h"

namespace weightfs::archive {

/// The kind of archive that a format is packed in.
enum class Packing { zip, tar };

/// A format that lives in an archive.
struct ArchiveFormat {
  std::string_view name;          ///< as Format::name
  std::string_view title = name;  ///< as Format::title
  Packing packing;
  /// Whether the archive is of this format. Fails when a member's bytes are not available.
  Result<bool> (*matches)(const Archive& archive);
  Result<Model> (*read)(Archive archive, const Container& container);
  Match (*matches_entry)(const Probe& entry) = [](const Probe&) { return Match::no; };  ///< of a directory
  Traits traits = {};
  DirectoryForm unpacked = {};  ///< the directory into which such an archive was unpacked
};

}  // namespace weightfs::archive

namespace weightfs {

// The functions of the rows, each format's in its file.
Result<bool> matches_carton(const archive::Archive& archive);
Match matches_carton_toml(const Probe& entry);
Result<std::vector<std::string>> files_of_unpacked_carton(const Container& entry);
Result<Model> read_carton(archive::Archive archive, const Container& container);

Result<bool> matches_keras(const archive::Archive& archive);
Match matches_keras_config(const Probe& entry);
Result<Model> read_keras(archive::Archive archive, const Container& container);

Result<bool> matches_mlf(const archive::Archive& archive);
Match matches_mlf_metadata(const Probe& entry);
Result<bool> is_mlf_metadata(const SourcePtr& entry);
Result<Model> read_mlf(archive::Archive archive, const Container& container);

Result<bool> matches_dduf(const archive::Archive& archive);
Result<Model> read_dduf(archive::Archive archive, const Container& container);

Result<bool> matches_npz(const archive::Archive& archive);
Result<Model> read_npz(archive::Archive archive, const Container& container);

Result<bool> matches_pt2(const archive::Archive& archive);
Result<Model> read_pt2(archive::Archive archive, const Container& container);

Result<bool> matches_pytorch(const archive::Archive& archive);
Result<bool> is_unpacked_pytorch(const SourcePtr& entry);
Result<Model> read_pytorch(archive::Archive archive, const Container& container);

Result<bool> matches_pytorch_tar(const archive::Archive& archive);
Result<Model> read_pytorch_tar(archive::Archive archive, const Container& container);

Result<bool> matches_oci_layout(const archive::Archive& archive);
Match matches_oci_index(const Probe& entry);
Result<Model> read_oci_layout(archive::Archive archive, const Container& container);

Result<bool> matches_nemo(const archive::Archive& archive);
Result<Model> read_nemo(archive::Archive archive, const Container& container);

Result<bool> matches_saved_model(const archive::Archive& archive);
Match matches_saved_model_pb(const Probe& entry);
Result<std::vector<std::string>> files_of_saved_model(const Container& entry);
Result<Model> read_saved_model(archive::Archive archive, const Container& container);
Result<bool> matches_nnef(const archive::Archive& archive);
Match matches_nnef_graph(const Probe& entry);
Result<Model> read_nnef(archive::Archive archive, const Container& container);

Result<bool> matches_export(const archive::Archive& archive);
Match matches_export_index(const Probe& entry);
Result<bool> is_export_index(const SourcePtr& entry);
Result<Model> read_export(archive::Archive archive, const Container& container);

}  // namespace weightfs

namespace weightfs::archive {

inline constexpr std::array kArchiveFormats = {
    ArchiveFormat{.name = "carton",
                  .packing = Packing::zip,
                  .matches = matches_carton,
                  .read = read_carton,
                  .matches_entry = matches_carton_toml,
                  .unpacked = {.entry = "carton.toml", .companions = "MANIFEST", .files = files_of_unpacked_carton}},
    ArchiveFormat{.name = "keras",
                  .title = "Keras",
                  .packing = Packing::zip,
                  .matches = matches_keras,
                  .read = read_keras,
                  .matches_entry = matches_keras_config,
                  .traits = {.framework = Traits::keras},
                  .unpacked = {.entry = "config.json", .companions = "model.weights.h5"}},
    ArchiveFormat{.name = "weightfs-export",
                  .packing = Packing::tar,
                  .matches = matches_export,
                  .read = read_export,
                  .matches_entry = matches_export_index,
                  .unpacked = {.entry = "tensors.json", .identifies = is_export_index}},
    ArchiveFormat{.name = "tvm-mlf",
                  .packing = Packing::tar,
                  .matches = matches_mlf,
                  .read = read_mlf,
                  .matches_entry = matches_mlf_metadata,
                  .unpacked = {.entry = "metadata.json", .identifies = is_mlf_metadata}},
    ArchiveFormat{.name = "pt2",
                  .title = "torch.export",
                  .packing = Packing::zip,
                  .matches = matches_pt2,
                  .read = read_pt2,
                  .traits = {.content = Traits::graph, .has_version_of_storage = true}},
    ArchiveFormat{.name = "pytorch",
                  .title = "PyTorch",
                  .packing = Packing::zip,
                  .matches = matches_pytorch,
                  .read = read_pytorch,
                  .traits = {.framework = Traits::torch,
                             .may_have_torchscript = true,
                             .has_modules = true,
                             .has_version_of_storage = true},
                  .unpacked = {.entry = "data.pkl",
                               .companions = "version byteorder data/0",
                               .identifies = is_unpacked_pytorch,
                               .is_below_others = true}},
    ArchiveFormat{.name = "pytorch-tar",
                  .packing = Packing::tar,
                  .matches = matches_pytorch_tar,
                  .read = read_pytorch_tar,
                  .traits = {.framework = Traits::torch, .has_modules = true}},
    ArchiveFormat{.name = "oci-layout",
                  .packing = Packing::tar,
                  .matches = matches_oci_layout,
                  .read = read_oci_layout,
                  .matches_entry = matches_oci_index,
                  .unpacked = {.entry = "index.json", .companions = "oci-layout"}},
    ArchiveFormat{.name = "tensorflow-savedmodel",
                  .title = "TensorFlow SavedModel",
                  .packing = Packing::tar,
                  .matches = matches_saved_model,
                  .read = read_saved_model,
                  .matches_entry = matches_saved_model_pb,
                  .traits = {.content = Traits::graph, .framework = Traits::tensorflow, .has_integer_weights = true},
                  .unpacked = {.entry = "saved_model.pb", .files = files_of_saved_model}},
    ArchiveFormat{.name = "nnef",
                  .packing = Packing::tar,
                  .matches = matches_nnef,
                  .read = read_nnef,
                  .matches_entry = matches_nnef_graph,
                  .traits = {.content = Traits::graph},
                  .unpacked = {.entry = "graph.nnef"}},
    ArchiveFormat{.name = "nemo",
                  .packing = Packing::tar,
                  .matches = matches_nemo,
                  .read = read_nemo,
                  .traits = {.framework = Traits::nemo}},
    ArchiveFormat{.name = "dduf",
                  .packing = Packing::zip,
                  .matches = matches_dduf,
                  .read = read_dduf,
                  .traits = {.content = Traits::pipeline}},
    ArchiveFormat{.name = "npz",
                  .packing = Packing::zip,
                  .matches = matches_npz,
                  .read = read_npz,
                  .traits = {.has_version_of_storage = true}},
};

/// Reads a container as this format: a directory if the container is its entry file, else an archive. Fails with
/// unsupported if it has another format.
Result<Model> read_archive_format(const ArchiveFormat& format, const Container& container);

}  // namespace weightfs::archive
