// Models in OCI artifacts and images: media types, paths of files, and layers that hide others.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/flat_formats.h"
#include "formats/format.h"
#include "formats/oci/manifest.h"
#include "formats/verify.h"
#include "tests/support/compressed.h"
#include "tests/support/memory_folder.h"
#include "tests/support/model_text.h"
#include "tests/support/reading.h"
#include "tests/support/small_disk.h"
#include "tests/support/small_models.h"

namespace weightfs::oci_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

Model read_artifact(const artifacts::ArtifactBuilder& artifact) {
  Container container{"latest", in_memory(artifact.manifest()), std::make_shared<MemoryFolder>(blobs_beside(artifact)),
                      std::make_shared<SmallDisk>()};
  return well(read_model(container, format_named("oci")));
}

Model read_tar(std::string bytes) {
  return well(read_model({"m.tar", in_memory(std::move(bytes)), nullptr, std::make_shared<SmallDisk>()}));
}

std::vector<std::string> files_of(const Model& model) {
  std::vector<std::string> lines;
  for (const Part& part : model.parts)
    lines.push_back(part.path + (part.link_target.empty() ? "" : " -> " + part.link_target));
  std::sort(lines.begin(), lines.end());
  return lines;
}

oci::LayerForm form(std::string_view media_type, Map annotations = {}) {
  oci::Descriptor layer;
  layer.media_type = media_type;
  layer.annotations = std::move(annotations);
  return oci::form_of(layer);
}

TEST(OciLayers, MediaTypeTellsPackingAndCompression) {
  const auto text = [](const oci::LayerForm& of) {
    return fmt::format("{}{}{}", of.is_tar ? "tar " : "", of.compression, of.is_of_image ? " image" : "");
  };
  EXPECT_EQ(text(form("application/vnd.cncf.model.weight.v1.raw")), "");
  EXPECT_EQ(text(form("application/vnd.cncf.model.weight.v1.tar")), "tar ");
  EXPECT_EQ(text(form("application/vnd.cncf.model.weight.v1.tar+zstd")), "tar zstd");
  EXPECT_EQ(text(form("application/vnd.kitops.modelkit.model.v1.raw+gzip")), "gzip");
  EXPECT_EQ(text(form("application/vnd.docker.ai.vllm.config.tar")), "tar ");
  EXPECT_EQ(text(form("application/vnd.oci.image.layer.v1.tar+gzip")), "tar gzip image");
  EXPECT_EQ(text(form("application/vnd.docker.image.rootfs.diff.tar.gzip")), "tar gzip image");
  EXPECT_EQ(text(form("application/octet-stream; charset=x")), "");
}

// ORAS gives files the media type of layers of images.
TEST(OciLayers, LayerOfImageWithTitleIsFile) {
  Map file;
  file.append("org.opencontainers.image.title", "model.gguf");
  EXPECT_FALSE(form("application/vnd.oci.image.layer.v1.tar", file).is_tar);
  file.append("io.deis.oras.content.unpack", "true");
  const auto directory = form("application/vnd.oci.image.layer.v1.tar+gzip", file);
  EXPECT_TRUE(directory.is_tar);
  EXPECT_FALSE(directory.is_of_image);
}

TEST(OciArtifact, IsOneModelWithItsFiles) {
  const Model model = read_artifact(small_artifact());
  EXPECT_EQ(model.format, "safetensors");
  EXPECT_EQ(model.tensors.size(), 1U);
  EXPECT_THAT(files_of(model), ElementsAre("m.safetensors", "src/a.py"));
  EXPECT_EQ(json_at(model.common, "name"), R"("tiny")");
  EXPECT_EQ(json_at(model.common, "license"), R"("MIT")");
  EXPECT_THAT(test::metadata_of(model, "oci"),
              HasSubstr(R"("artifact_type":"application/vnd.cncf.model.manifest.v1+json","config":{"descriptor")"));
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(OciArtifact, DirectoryOfTarIsWrittenOnceOrTwice) {
  for (const char* const member : {"a.py", "src/a.py", "code/src/a.py"}) {
    const Model model = read_artifact(artifacts::ArtifactBuilder("{}").layer(
        {"application/vnd.cncf.model.code.v1.tar", tars::TarBuilder().file(member, "").build(), "code/src"}));
    EXPECT_THAT(files_of(model), ElementsAre("code/src/a.py")) << member;
  }
}

TEST(OciArtifact, CompressedRawLayerIsShownDecompressed) {
  const std::string text = "a text that is compressed as a whole";
  for (const auto& [suffix, bytes] :
       {std::pair("gzip", gzip_stored(text)), std::pair("zstd", zstd::sized_frame(text))}) {
    const Model model = read_artifact(artifacts::ArtifactBuilder("{}").layer(
        {fmt::format("application/vnd.kitops.modelkit.docs.v1.raw+{}", suffix), bytes, "README.md"}));
    EXPECT_THAT(files_of(model), ElementsAre("README.md"));
    EXPECT_EQ(text_of(*well(model.parts[0].source.get())), text);
    EXPECT_TRUE(model.parts[0].checksums.empty()) << "that of the layer is of other bytes";
    EXPECT_THAT(model.warnings, IsEmpty());
  }
}

TEST(OciArtifact, CompressedModelHasItsTensors) {
  const Model model = read_artifact(artifacts::ArtifactBuilder("{}").layer(
      {"application/vnd.kitops.modelkit.model.v1.raw+gzip", gzip_stored(inner_model()), "m.safetensors"}));
  EXPECT_EQ(model.tensors.size(), 1U);
}

TEST(OciArtifact, RawLayerThatCannotBeDecompressedKeepsItsSuffix) {
  const Model model = read_artifact(
      artifacts::ArtifactBuilder("{}").layer({"application/vnd.kitops.modelkit.docs.v1.raw+gzip", "x", "README.md"}));
  EXPECT_THAT(files_of(model), ElementsAre("README.md.gz"));
  EXPECT_EQ(text_of(*well(model.parts[0].source.get())), "x");
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("\"README.md.gz\": shown compressed: ")));
}

// weightfs verify compares them.
TEST(OciArtifact, FilesHaveTheDigestsOfTheirLayers) {
  const std::string weights = inner_model();
  const Model model = read_artifact(
      artifacts::ArtifactBuilder("{}")
          .layer({"application/vnd.cncf.model.weight.v1.raw", weights, "m.safetensors"})
          .layer({"text/plain", "text", "d/a.txt"})
          .layer({"application/vnd.cncf.model.code.v1.tar", tars::TarBuilder().file("a.py", "").build(), "src"}));
  EXPECT_EQ(model.tensors.size(), 1U);
  std::map<std::string, std::string> digests;
  for (const Part& part : model.parts) {
    const Digest* const digest = part.checksums.get<Digest>();
    digests[part.path] = digest != nullptr ? digest->hex() : "";
  }
  EXPECT_THAT(digests,
              ElementsAre(testing::Pair("d/a.txt", sha256("text").hex()),
                          testing::Pair("m.safetensors", sha256(weights).hex()), testing::Pair("src/a.py", "")));
  const Verification verified = verify(model, {});
  EXPECT_EQ(verified.checked, 2U);
  EXPECT_EQ(verified.unchecked, 1U);
}

TEST(OciArtifact, EqualPathsAreNumbered) {
  const Model model =
      read_artifact(artifacts::ArtifactBuilder("{}").layer({"text/plain", "1", "a"}).layer({"text/plain", "2", "a"}));
  EXPECT_THAT(files_of(model), ElementsAre("a", "a-2"));
}

TEST(OciImage, LaterLayersHideFiles) {
  const auto first = tars::TarBuilder().file("d/a", "1").file("d/b", "1").file("f", "1").file("g/h", "1").build();
  const auto second = tars::TarBuilder().file("d/.wh.a", "").file("d/c", "2").file("f", "2").file("g", "2").build();
  const auto third = tars::TarBuilder().file("d/.wh..wh..opq", "").file("d/z", "3").link("l", "d/z").build();
  const Model model = read_artifact(artifacts::ArtifactBuilder("{}")
                                        .layer({artifacts::kImageLayer, first})
                                        .layer({artifacts::kImageLayer, second})
                                        .layer({artifacts::kImageLayer, third}));
  EXPECT_EQ(model.format, "oci");
  EXPECT_THAT(files_of(model), ElementsAre("d/z", "f", "g", "l -> d/z"));
}

TEST(OciImage, ForeignLayersAreLeftOutWithAWarning) {
  const auto layer = tars::TarBuilder().file("f", "1").build();
  for (const char* type : {"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
                           "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"}) {
    const Model model = read_artifact(
        artifacts::ArtifactBuilder("{}").layer({type, "elsewhere"}).layer({artifacts::kImageLayer, layer}));
    EXPECT_THAT(files_of(model), ElementsAre("f"));
    EXPECT_THAT(model.warnings, ElementsAre(HasSubstr(type))) << type;
  }
}

TEST(OciLayout, IsReadFromTar) {
  const Model model = read_tar(artifacts::tar_of(artifacts::layout_files({small_artifact()})));
  EXPECT_EQ(model.tensors.size(), 1U);
  EXPECT_THAT(files_of(model), ElementsAre("m.safetensors", "src/a.py"));
}

TEST(OciLayout, SeveralModelsAreNested) {
  const auto model = std::make_shared<Model>(
      read_tar(artifacts::tar_of(artifacts::layout_files({small_artifact(), artifacts::ArtifactBuilder("{}")}))));
  EXPECT_EQ(model->format, "oci");
  EXPECT_EQ(model->parts.size(), 2U);
  const auto nested = well(model->nested(model));
  ASSERT_EQ(nested.size(), 2U);
  EXPECT_EQ(well(nested[0].model.get())->tensors.size(), 1U);
}

// A header is parsed before the blob is verified; its tensors are not served.
TEST(OciLayout, WrongDigestIsErrorOfItsTensors) {
  for (const char* const path : {"m.safetensors", "./m.safetensors", "/d//./m.safetensors"}) {
    const auto artifact = artifacts::ArtifactBuilder("{}").layer({artifacts::kRawWeight, inner_model(), path});
    auto files = artifacts::layout_files({artifact});
    for (auto& [name, bytes] : files)
      if (bytes == inner_model()) bytes.back() = '!';
    const Model model = read_tar(artifacts::tar_of(files));
    ASSERT_EQ(model.tensors.size(), 1U) << path;
    std::byte first;
    const auto read = model.tensors[0].source.read(0, std::span(&first, 1));
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, Code::mismatch) << read.error().message;
  }
}

// The header and the tensors are of the same file: the last one with the path.
TEST(OciArtifact, FileOfTarReplacesLayerWithItsPath) {
  const std::string layer = SafetensorsBuilder().tensor("a", "U8", "1", "1").build();
  const std::string member = SafetensorsBuilder().tensor("b", "U8", "1", "2").build();
  const Model model = read_artifact(artifacts::ArtifactBuilder("{}")
                                        .layer({artifacts::kRawWeight, layer, "./m.safetensors"})
                                        .layer({"application/vnd.cncf.model.weight.v1.tar",
                                                tars::TarBuilder().file("m.safetensors", member).build(), ""}));
  ASSERT_EQ(model.tensors.size(), 1U);
  EXPECT_EQ(model.tensors[0].name, "b");
  EXPECT_EQ(well(read_text(model.tensors[0].source, 0, 1)), "2");
}

TEST(OciKitfile, FirstPathOfEachDigestIsUsed) {
  const auto section = [](const char* digest, const char* path) {
    Map map;
    map.append("digest", digest);
    map.append("path", path);
    return Value(std::move(map));
  };
  Map model = std::get<Map>(section("sha256:a", "m.gguf"));
  model.append("parts", List{section("sha256:b", "lora.gguf"), section("sha256:a", "again")});
  Map kitfile;
  kitfile.append("manifestVersion", "1.0");
  kitfile.append("model", std::move(model));
  kitfile.append("docs", List{section("sha256:c", ""), section("sha256:c", "README.md"), Value("text")});
  EXPECT_THAT(oci::kitfile_paths(kitfile),
              ElementsAre(Pair("sha256:a", "m.gguf"), Pair("sha256:b", "lora.gguf"), Pair("sha256:c", "README.md")));
}

TEST(OciManifest, IsNotOllamas) {
  const auto matches = [](const char* type) {
    const std::string text = fmt::format(R"({{"layers":[{{"mediaType":"{}"}}]}})", type);
    return matches_oci({"", text, text, text.size()});
  };
  EXPECT_EQ(matches("application/vnd.docker.ai.gguf.v3"), Match::yes);
  EXPECT_EQ(matches("application/vnd.ollama.image.model"), Match::no);
  EXPECT_EQ(matches("text/plain"), Match::no);
}

}  // namespace
}  // namespace weightfs::oci_test
