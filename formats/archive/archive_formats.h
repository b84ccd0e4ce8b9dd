// The formats whose files are members of an archive: one row each. A row says how the format is recognized, in a packed
// archive and in an unpacked directory, and how its members become a Model. detect.cc makes a Format of every row.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/archive/nested.h"

namespace weightfs::archive {

/// The kind of archive that a format is packed in.
enum class Packing { zip, tar };

/// A directory into which such an archive was unpacked. It is named by one of its files.
struct UnpackedForm {
  std::string_view entry_file;  ///< the file's name: "carton.toml"; "" if the format is not unpacked
  std::string_view companions;  ///< paths, separated by spaces, one of which must be in the directory; "" for none
  Match (*matches)(const Probe& entry) = [](const Probe&) { return Match::no; };
  /// Whether the entry file's content identifies the format; null when its name is enough. Fails with io.
  Result<bool> (*identifies)(const SourcePtr& entry) = nullptr;
  /// The paths of files that the directory may have, for a directory on a server that is not asked for a listing; null:
  /// the format is not read there. Empty if the companion is missing. Fails as reading does.
  Result<std::vector<std::string>> (*files)(const Container& entry) = nullptr;

  /// Whether one of the companions exists, or none is needed.
  bool has_companion(const std::function<bool(std::string_view path)>& exists) const;
};

/// A file that an unpacked archive of torch.save has besides its object: some programs write not all of them.
inline constexpr std::string_view kCompanionsOfPytorch = "version byteorder data/0";

/// A format that lives in an archive.
struct ArchiveFormat {
  std::string_view name;  ///< as Format::name
  Packing packing;
  /// Whether the archive is of this format. Fails when a member's bytes are not available.
  Result<bool> (*matches)(const Archive& archive);
  Result<Model> (*read)(Archive archive, const Container& container);
  UnpackedForm unpacked = {};
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
                  .unpacked = {"carton.toml", "MANIFEST", matches_carton_toml, nullptr, files_of_unpacked_carton}},
    ArchiveFormat{.name = "keras",
                  .packing = Packing::zip,
                  .matches = matches_keras,
                  .read = read_keras,
                  .unpacked = {"config.json", "model.weights.h5", matches_keras_config, nullptr}},
    ArchiveFormat{.name = "weightfs-export",
                  .packing = Packing::tar,
                  .matches = matches_export,
                  .read = read_export,
                  .unpacked = {"tensors.json", "", matches_export_index, is_export_index}},
    ArchiveFormat{.name = "tvm-mlf",
                  .packing = Packing::tar,
                  .matches = matches_mlf,
                  .read = read_mlf,
                  .unpacked = {"metadata.json", "", matches_mlf_metadata, is_mlf_metadata}},
    ArchiveFormat{.name = "pt2", .packing = Packing::zip, .matches = matches_pt2, .read = read_pt2},
    ArchiveFormat{
        .name = "pytorch",
        .packing = Packing::zip,
        .matches = matches_pytorch,
        .read = read_pytorch,
        .unpacked = {.entry_file = "data.pkl", .companions = kCompanionsOfPytorch, .identifies = is_unpacked_pytorch}},
    ArchiveFormat{
        .name = "pytorch-tar", .packing = Packing::tar, .matches = matches_pytorch_tar, .read = read_pytorch_tar},
    ArchiveFormat{.name = "oci-layout",
                  .packing = Packing::tar,
                  .matches = matches_oci_layout,
                  .read = read_oci_layout,
                  .unpacked = {"index.json", "oci-layout", matches_oci_index, nullptr}},
    ArchiveFormat{.name = "tensorflow-savedmodel",
                  .packing = Packing::tar,
                  .matches = matches_saved_model,
                  .read = read_saved_model,
                  .unpacked = {"saved_model.pb", "", matches_saved_model_pb, nullptr, files_of_saved_model}},
    ArchiveFormat{.name = "nnef",
                  .packing = Packing::tar,
                  .matches = matches_nnef,
                  .read = read_nnef,
                  .unpacked = {"graph.nnef", "", matches_nnef_graph, nullptr}},
    ArchiveFormat{.name = "nemo", .packing = Packing::tar, .matches = matches_nemo, .read = read_nemo},
    ArchiveFormat{.name = "dduf", .packing = Packing::zip, .matches = matches_dduf, .read = read_dduf},
    ArchiveFormat{.name = "npz", .packing = Packing::zip, .matches = matches_npz, .read = read_npz},
};

/// Reads a container as this format: a directory if the container is its entry file, else an archive. Fails with
/// unsupported if it has another format.
Result<Model> read_archive_format(const ArchiveFormat& format, const Container& container);

}  // namespace weightfs::archive
