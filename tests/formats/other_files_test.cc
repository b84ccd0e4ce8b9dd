// Files that are no models, under the names of models.
#include "formats/other_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/memory_folder.h"

namespace weightfs::other_files_test {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;

Error error_in(const std::string& bytes, const std::string& name, std::shared_ptr<const Folder> folder = nullptr) {
  const auto model = read_model({name, in_memory(bytes), std::move(folder)});
  return model ? Error{Code::io, "a model"} : model.error();
}

std::string error_of(const std::string& bytes, const std::string& name = "model.bin") {
  return error_in(bytes, name).message;
}

// A row of a table: a file, its error after the name, and the name of the error for programs.
struct Row {
  std::string bytes;
  std::string what;
  std::string_view name;
  std::string file = "model.bin";
};

void expect(const std::vector<Row>& rows) {
  for (const auto& [bytes, what, name, file] : rows) {
    const Error error = error_in(bytes, file);
    EXPECT_EQ(error.message, file + ": " + what);
    EXPECT_EQ(error_name(error), name) << what;
    EXPECT_EQ(error.code, Code::unsupported) << what;
  }
}

TEST(OtherFiles, EmptyFileIsNamed) { expect({{"", "an empty file (0 B)", "empty"}}); }

TEST(OtherFiles, PointersSayWhatToDo) {
  const std::string lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a');
  expect({
      {lfs + "\nsize 4976698672\n", "a Git LFS pointer to a file of 4.6 GiB (4,976,698,672 bytes); run git lfs pull",
       "git-lfs-pointer"},
      {lfs + "\nsize 12\n", "a Git LFS pointer to a file of 12 B (12 bytes); run git lfs pull", "git-lfs-pointer"},
      {lfs + "\n", "a Git LFS pointer; run git lfs pull", "git-lfs-pointer"},
      {"# xet version 0\nname = 'a'\n", "a Xet pointer, not the file; download it with a client of the Hub", "pointer"},
      {"/annex/objects/SHA256E-s5--1.bin\n", "a git-annex pointer; run git annex get", "pointer"},
  });
}

// A store that has every blob.
class FullStore final : public Blobs {
 public:
  SourcePtr blob(BlobProducer) override { return nullptr; }
  Result<SourcePtr> materialize(BlobProducer) override { return failure(Code::io, "not used"); }
  bool is_local(const BlobRef& ref) override { return ref.digest.hex() == std::string(64, 'a') && ref.size == 7; }
};

TEST(OtherFiles, PointerToACachedFileSaysSo) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') + "\nsize 7\n";
  const Container container{.name = "m.gguf", .bytes = in_memory(pointer), .blobs = std::make_shared<FullStore>()};
  EXPECT_THAT(check_may_be_model(container).error().message,
              HasSubstr("run git lfs pull; the cache has a file with its digest, sha256:aaaa"));
}

// A pointer has at most 1,024 bytes.
TEST(OtherFiles, LongTextIsNoPointer) {
  EXPECT_EQ(error_of("version https://git-lfs.github.com/spec/v1\n" + std::string(1'000, 'a')),
            "model.bin: a text file, not a model");
}

TEST(OtherFiles, PagesAndErrorsOfServersAreNamed) {
  constexpr const char* kPage = "not a model; the server probably sent a login or error page";
  expect({
      {"\n<!DOCTYPE html><html><head><title>Log in</title>", "an HTML page (\"Log in\"), "s + kPage, "html"},
      {"<HTML lang=\"en\">", "an HTML page, "s + kPage, "html"},
      {" \t<head>", "an HTML page, "s + kPage, "html"},
      {R"({"error": "Repository not found"})", "a JSON document with the error \"Repository not found\"", "json"},
      {R"({"message": "Bad credentials"})", "a JSON document with the error \"Bad credentials\"", "json"},
      {R"({"errors": [{"code": 7}]})", "a JSON document with the error \"[{\\x22code\\x22:7}]\"", "json"},
      {R"({"detail": "Not Found"})", "a JSON document with the error \"Not Found\"", "json"},
      {R"({"a": 1})", "a JSON document, not a model", "json"},
      {"[1, 2]", "a JSON document, not a model", "json"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "an XML document with the error AccessDenied",
       "xml"},
      {"<Error><Code>NoSuchKey</Code></Error>", "an XML document with the error NoSuchKey", "xml"},
      {"<?xml version=\"1.0\"?><a/>", "an XML document, not a model", "xml"},
      {"<?xml version=\"1.0\"?>\n<net name=\"m\">", "an XML document, not a model", "xml"},
  });
}

TEST(OtherFiles, ShortTextIsShown) {
  expect({
      {"Entry not found", "text: \"Entry not found\"", "text"},
      {"\nInvalid username or password.\nTry again.\n", "text: \"Invalid username or password.\"", "text"},
      {std::string(61, 'a'), "text: \"" + std::string(60, 'a') + "\"…", "text"},
      {std::string(59, 'a') + "é", "text: \"" + std::string(59, 'a') + "\"…", "text"},
      {std::string(2'000, 'a'), "a text file, not a model", "text"},
      {std::string(65'535, 'a') + "é", "a text file, not a model", "text"},  // its beginning ends within a character
  });
}

TEST(OtherFiles, UnfinishedDownloadsAreNamed) {
  expect({
      {std::string(100'000, '\0'), "only zero bytes: a download that was interrupted or preallocated", "zeros"},
      {std::string(10, '\0'), "only zero bytes: a download that was interrupted or preallocated", "zeros"},
  });
  for (const char* const suffix : {".part", ".partial", ".incomplete", ".crdownload", ".aria2"})
    expect({{"\1\2\3\4", "an unfinished download; use --format to read what it has", "partial", "model.gguf"s + suffix},
            {"GGUF\3\0\0\0"s, "an unfinished download; use --format to read what it has", "partial", "a"s + suffix}});
}

std::string lz4(const std::string& literals) {
  std::string out = "\x04\x22\x4D\x18\x40\x40\xC0"s + std::string(4, '\1');
  out += literals.size() < 15 ? std::string(1, static_cast<char>(literals.size() << 4))
                              : "\xF0"s + static_cast<char>(literals.size() - 15);
  return out + literals + "\0\0\0\0"s;
}

// "GGUF" and other first bytes, as the programs compress them.
TEST(OtherFiles, CompressedFilesNameTheirCompressionAndContent) {
  const std::string gzip = "\x1F\x8B\x08\x00\x00\x00\x00\x00\x02\x03\x73\x77\x0F\x75\x63\x66\x80\x00\x00\x1E"s +
                           "\xA4\x67\xBC\x0C\x00\x00\x00"s;
  const std::string bzip2 = "\x42\x5A\x68\x39\x31\x41\x59\x26\x53\x59\xCE\xAC\xD6\x68\x00\x00\x03\xC6\x00\x48"s +
                            "\x00\x01\x80\x02\x00\x20\x00\x21\x9A\x01\x9A\x00\x70\xD7\x2E\x2E\xE4\x8A\x70\xA1"s +
                            "\x21\x9D\x59\xAC\xD0"s;
  const std::string xz = "\xFD\x37\x7A\x58\x5A\x00\x00\x04\xE6\xD6\xB4\x46\x02\x00\x21\x01\x16\x00\x00\x00"s +
                         "\x74\x2F\xE5\xA3\x01\x00\x0B\x47\x47\x55\x46\x03\x00\x00\x00\x00\x00\x00\x00\x00"s +
                         "\x5C\xA8\xAA\x8F\x93\x77\xB2\xDC\x00\x01\x24\x0C\xA6\x18\xD8\xD8\x1F\xB6\xF3\x7D"s +
                         "\x01\x00\x00\x00\x00\x04\x59\x5A"s;
  expect({
      {"\x1F\x8B\x08...", "gzip of unknown content; unpack it first", "compressed"},
      {"\x28\xB5\x2F\xFD...", "zstd of unknown content; unpack it first", "compressed"},
      {"\xFD\x37\x7A\x58\x5A\0..."s, "xz of unknown content; unpack it first", "compressed"},
      {"BZh9...", "bzip2 of unknown content; unpack it first", "compressed"},
      {"\x04\x22\x4D\x18...", "lz4 of unknown content; unpack it first", "compressed"},
      {lz4("GGUF\3\0\0\0"s), "lz4 of a GGUF; unpack it first", "compressed"},
      {lz4("\x89HDF\r\n\x1A\n" + std::string(12, 'a')), "lz4 of an HDF5 file; unpack it first", "compressed"},
      {lz4("PK\3\4abcd"), "lz4 of a zip archive; unpack it first", "compressed"},
      {lz4("\x93NUMPY\1\0"s), "lz4 of an npy file; unpack it first", "compressed"},
      {lz4("\x1C\0\0\0TFL3"s), "lz4 of a TFLite model; unpack it first", "compressed"},
      {lz4("\x80\x04\x95\0"s), "lz4 of a pickle; unpack it first", "compressed"},
      {lz4("\x20\0\0\0\0\0\0\0{\"a\":"s), "lz4 of a safetensors file; unpack it first", "compressed"},
      {lz4("\x08\x08\x12\7pytorch"s), "lz4 of an ONNX model; unpack it first", "compressed"},
      {gzip, "gzip of a GGUF; unpack it first", "compressed", "model.gguf.gz"},
      {bzip2, "bzip2 of a GGUF; unpack it first", "compressed"},
      {xz, "xz of a GGUF; unpack it first", "compressed"},
  });
}

TEST(OtherFiles, ArchivesImagesAndProgramsAreNamed) {
  expect({
      {"7z\xBC\xAF\x27\x1C\0\4"s, "a 7-zip archive: not supported; unpack it first", "archive"},
      {"Rar!\x1A\x07\x01\0"s, "a RAR archive: not supported; unpack it first", "archive"},
      {"\x89PNG\r\n\x1A\n", "a PNG image", "image"},
      {"\xFF\xD8\xFF\xE0", "a JPEG image", "image"},
      {"GIF89a", "a GIF image", "image"},
      {"RIFF\1\0\0\0WEBP"s, "a WebP image", "image"},
      {"%PDF-1.7", "a PDF document", "image"},
      {"\x7F"
       "ELF\2\1\1",
       "an ELF executable", "executable"},
      {"MZ\x90\0\3"s, "a Windows executable", "executable"},
      {"\xCF\xFA\xED\xFE\7", "a macOS executable", "executable"},
      {"#!/bin/sh\necho\n", "a script", "executable"},
  });
}

TEST(OtherFiles, DataAreNoModels) {
  expect({
      {"PAR1\x15\4", "a Parquet table, not a model", "data"},
      {"ARROW1\0\0"s, "an Arrow table, not a model", "data"},
      {"FEA1\1\2", "a Feather table, not a model", "data"},
      {"Obj\x01\4", "an Avro file, not a model", "data"},
      {"SQLite format 3\0\x10"s, "an SQLite database, not a model", "data"},
      {std::string(16, '\1') + "\xDE\xC0\xEF\xBE\1\0\0\0"s, "an LMDB database, not a model", "data"},
      {"\5\0\0\0\0\0\0\0\1\2\3\4abcde\1\2\3\4"s, "TFRecord data, not a model", "data", "a.tfrecord"},
  });
}

TEST(OtherFiles, KnownModelsAreNotSupported) {
  const auto row = [](const std::string& bytes, const std::string& what, const std::string& file = "model.bin") {
    return Row{bytes, what + ": not supported", "unsupported", file};
  };
  expect({
      Row{"\1\2\3", "the data of a TensorFlow checkpoint; open its .index", "unsupported",
          "m.ckpt.data-00000-of-00001"},
      row("node {", "a graph of TensorFlow as text (.pbtxt)", "graph.pbtxt"),
      row("model_checkpoint_path: \"m\"", "the list of TensorFlow checkpoints", "checkpoint"),
      row("bs64\tAAAA", "an XGBoost model in base64"),
      row("\x18\0\0\0MSL2"s, "a MindSpore Lite model"),
      row("\x18\0\0\0MSL1"s, "a MindSpore Lite model"),
      row("\x18\0\0\0PTMF"s, "a PyTorch Mobile model"),
      row("IMOD\1\0"s, "an Ascend model (.om)"),
      row("RKNN\1\0"s, "an RKNN model"),
      row("\1\2\3", "a Tengine model", "m.tmfile"),
      row("\1\2\3", "a Paddle Lite model", "m.nb"),
      row("\1\2\3", "a NexaML model", "m.nexa"),
      row("\xDD\x85\x76\0\1"s, "the structure of an ncnn model (.param.bin)"),
      row("\x01HEF\1", "a Hailo model (.hef)"),
      row("24ka\0\0"s, "a llama2.c model"),
      row("\4\0\0\0\1\0\0\0\3\0\0\0"s, "a Lua Torch model", "m.t7"),
      row("B\0C\0N\0\1"s, "a CNTK model"),
  });
}

TEST(OtherFiles, SomeModelsAreRefusedWithAdvice) {
  const auto advice = [](const std::string& bytes, const char* name = "m") { return error_of(bytes, name); };
  EXPECT_EQ(advice("CBM1\1\0\0\0"s), "m: a CatBoost model: not supported; it has decision trees, not tensors");
  for (const std::string& engine : {"ftrt\1\0\0\0"s, "ptrt\1\0\0\0"s, "\2\0\0\0{}ftrt"s})
    EXPECT_EQ(
        advice(engine),
        "m: a TensorRT engine: not supported; it is compiled for one device; open the model that it was built from");
  EXPECT_THAT(advice("\1\2\3", "m.mnn"), HasSubstr("an MNN model: not supported; its weights are compressed"));
  EXPECT_THAT(advice("LITERTLM\1\0\0\0"s), HasSubstr("a LiteRT-LM bundle (.litertlm): not supported; "));
  for (const std::string& kaldi : {"\0B<TransitionModel> "s, "\0B<Nnet3> "s, "<TransitionModel>\n<Topology>"s})
    EXPECT_THAT(advice(kaldi), HasSubstr("a Kaldi model: not supported; convert it"));
  EXPECT_THAT(advice("\x0C\xDB\x3A\x2A\1"),
              HasSubstr("an OCDBT database, in which Orbax stores checkpoints: not supported; "));
  EXPECT_THAT(advice("{\"tree_metadata\": {}}", "_METADATA"),
              HasSubstr("an Orbax checkpoint: not supported; export it"));
}

TEST(OtherFiles, QualcommModelIsNoZip) {
  EXPECT_EQ(error_of("PK\3\4abcd", "m.dlc"), "m.dlc: a Qualcomm model (.dlc): not supported");
}

// The weights have no magic number: the structure beside them tells.
TEST(OtherFiles, WeightsBesideAnOpenVinoModelAreNamed) {
  const auto folder = std::make_shared<test::MemoryFolder>(
      test::Files{{"m.xml", "<?xml version=\"1.0\"?><net name=\"m\">"}, {"other.xml", "<a/>"}});
  EXPECT_EQ(error_in("\1\2\3", "m.bin", folder).message, "m.bin: the weights of an OpenVINO model; open m.xml");
  EXPECT_THAT(error_in("\1\2\3", "other.bin", folder).message, HasSubstr("not a model that weightfs knows"));
}

TEST(OtherFiles, MainFileBesideACompanionIsNamed) {
  const auto folder = std::make_shared<test::MemoryFolder>(test::Files{
      {"m.param", "7767517\n2 2\n"},
      {"net.caffemodel", "x"},
      {"yolo.weights", "x"},
      {"old-0012.params", "x"},
      {"old-symbol.json", "{}"},
      {"new-0000.params", "x"},
      {"new-0007.params", "x"},
      {"model.json", R"({"weightsManifest": [{"paths": ["group1-shard1of1", "./w.bin"], "weights": []}]})"}});
  const auto message = [&](const std::string& bytes, const std::string& name) {
    return error_in(bytes, name, folder).message;
  };
  EXPECT_EQ(message("\1\2\3", "m.bin"), "m.bin: the weights of an ncnn model; open m.param");
  EXPECT_EQ(message("name: \"net\"", "net.prototxt"),
            "net.prototxt: the structure of a Caffe model; open net.caffemodel");
  for (const char* const begin : {"[net]\n", "[network]\n"})
    EXPECT_EQ(message(begin, "yolo.cfg"), "yolo.cfg: the configuration of a Darknet model; open yolo.weights");
  EXPECT_EQ(message("{}", "old-symbol.json"), "old-symbol.json: the graph of an MXNet model; open old-0012.params");
  EXPECT_EQ(message("{}", "new-symbol.json"), "new-symbol.json: the graph of an MXNet model; open new-0000.params");
  for (const std::string name : {"w.bin", "group1-shard1of1"})
    EXPECT_EQ(message("\1\2\3", name), name + ": weights of a TensorFlow.js model; open model.json");
}

TEST(OtherFiles, CompanionWithoutItsMainFileNamesNone) {
  const auto folder = std::make_shared<test::MemoryFolder>(test::Files{
      {"m.param", "text"}, {"a-x.params", "x"}, {"model.json", R"({"weightsManifest": [{"paths": [7]}]})"}});
  for (const char* const layers : {"name: \"net\"\nlayer {\n", "layers{", "layer : {", "layer\n{ name: \"x\" }"})
    expect({{layers, "the structure of a Caffe model; its weights are in a .caffemodel file", "unsupported",
             "net.prototxt"}});
  for (const char* const other : {"name: \"net\"", "net: \"layer.prototxt\"\nbase_lr: 0.1\n", "players {", "layer"})
    EXPECT_THAT(error_in(other, "net.prototxt", folder).message, HasSubstr("text: "));
  expect({{"[net]\nbatch=1\n", "the configuration of a Darknet model; its weights are in a .weights file",
           "unsupported", "yolo.cfg"},
          {R"({"nodes": []})", "a JSON document, not a model", "json", "a-symbol.json"}});
  EXPECT_EQ(error_in("{}", "a-symbol.json", folder).message, "a-symbol.json: a JSON document, not a model");
  EXPECT_THAT(error_in("\1\2\3", "m.bin", folder).message, HasSubstr("not a model that weightfs knows"));
  EXPECT_THAT(error_in("\1\2\3", "w.bin", folder).message, HasSubstr("not a model that weightfs knows"));
}

TEST(OtherFiles, DirectoriesOfUnsupportedModelsAreNamed) {
  for (const char* const name : {"manifest.ocdbt", "_CHECKPOINT_METADATA"})
    EXPECT_THAT(identify_other_directory({"d", name})->message, HasSubstr("an Orbax checkpoint: not supported; "));
  EXPECT_EQ(identify_other_directory({"coremldata.bin", "model.mil"})->message,
            "compiled Core ML: not supported; use the .mlpackage");
  EXPECT_FALSE(identify_other_directory({"config.json", "model.safetensors"}));
}

// The error of the format that the name says comes before "text".
TEST(OtherFiles, BrokenModelIsNotCalledText) {
  EXPECT_THAT(error_of(R"({"weight_map": 7})", "model.safetensors.index.json"), HasSubstr("safetensors index: "));
}

TEST(OtherFiles, BadFilesWithNamesOfModelsAreListed) {
  for (const char* const name : {"m.gguf", "m.gguf.part", "m.safetensors.gz", "m.onnx.crdownload", "m.pt.zst.partial"})
    EXPECT_TRUE(is_named_as_bad_file(name)) << name;
  for (const char* const name : {"README.md", "notes.part", "config.json"})
    EXPECT_FALSE(is_named_as_bad_file(name)) << name;
}

TEST(ErrorName, IsThatOfTheCodeForOtherFailures) {
  EXPECT_EQ(error_name({Code::corrupt, "a: the file ends 5 bytes early"}), "damaged");
  EXPECT_EQ(error_name({Code::not_found, "a: not found"}), "not-found");
  EXPECT_EQ(error_name({Code::unsupported, "a: version 9"}), "unsupported");
  // The text does not decide: names of files are in it.
  EXPECT_EQ(error_name({Code::unsupported, "m: an HTML page.bin: version 9"}), "unsupported");
  EXPECT_EQ(error_name({Code::network, "host: an HTML page"}), "network");
}

}  // namespace
}  // namespace weightfs::other_files_test
