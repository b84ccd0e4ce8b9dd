// Contract of all formats: from the bytes of a container to the mounted tree.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "tests/support/invariants.h"
#include "tests/support/sanitized.h"
#include "tests/support/small_models.h"

namespace weightfs::contract_test {
namespace {

using namespace test;
using testing::ElementsAreArray;
using testing::StartsWith;

// All paths without those below views/, as find(1) lists them; directories end in `/`, links include their target,
// unreadable files end in `!`.
std::vector<std::string> walk(Forest& forest, Ino directory = Forest::kRoot) {
  std::vector<std::string> out;
  const auto all = forest.list(directory).value();
  for (uint32_t i = 0; i < all.count; ++i) {
    const Ino ino = all.ino + i;
    const auto attributes = forest.attributes(ino);
    const bool is_directory = attributes && attributes->is_directory();
    const bool is_link = attributes && attributes->kind == NodeKind::link;
    out.push_back(forest.path(ino) + (is_directory ? "/"
                                      : is_link    ? " -> " + *forest.link(ino)
                                      : attributes ? ""
                                                   : " !"));
    if (!is_directory || all.tree->node(all.first + i).text == "views") continue;
    for (std::string& below : walk(forest, ino)) out.push_back(std::move(below));
  }
  return out;
}

// A file that fails at a given read, or has zeros from a given byte on.
class Scripted final : public Source {
 public:
  explicit Scripted(std::string bytes) : bytes_(std::move(bytes)), size_(bytes_.size()) {}
  Scripted(std::string bytes, uint64_t size) : bytes_(std::move(bytes)), size_(size) {}

  void fail_at(uint64_t read) { failing_ = read; }
  uint64_t reads() const { return reads_; }
  uint64_t bytes_read() const { return bytes_read_; }

  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (reads_++ == failing_) return failure(Code::io, "disk on fire");
    const auto count = static_cast<size_t>(offset >= size_ ? 0 : std::min<uint64_t>(out.size(), size_ - offset));
    bytes_read_ += count;
    for (size_t i = 0; i < count; ++i)
      out[i] = offset + i < bytes_.size() ? static_cast<std::byte>(bytes_[offset + i]) : std::byte{0};
    return count;
  }

 private:
  std::string bytes_;
  uint64_t size_;
  uint64_t failing_ = UINT64_MAX;
  mutable std::atomic<uint64_t> reads_ = 0;
  mutable std::atomic<uint64_t> bytes_read_ = 0;
};

// The directory of a container, including the container.
class Surroundings final : public Folder {
 public:
  Surroundings(Files beside, std::string name, SourcePtr own)
      : beside_(std::move(beside)), name_(std::move(name)), own_(std::move(own)) {}

  Result<std::vector<std::string>> names() const override {
    auto names = TRY(beside_.names());
    names.insert(std::lower_bound(names.begin(), names.end(), name_), name_);
    return names;
  }
  Result<SourcePtr> open(std::string_view name) const override {
    return name == name_ ? Result<SourcePtr>(own_) : beside_.open(name);
  }
  Result<std::vector<Part>> parts() const override {
    auto parts = TRY(beside_.parts());
    const auto less = [](const Part& part, const std::string& name) { return part.path < name; };
    parts.insert(std::lower_bound(parts.begin(), parts.end(), name_, less), Part{name_, Later<SourcePtr>::of(own_)});
    return parts;
  }

 private:
  MemoryFolder beside_;
  std::string name_;
  SourcePtr own_;
};

class EveryFormat : public testing::TestWithParam<SmallModel> {
 protected:
  static const Format* forced() { return format_named(GetParam().format); }
  static const Format* needed() { return GetParam().detected ? nullptr : forced(); }

  static Container container(SourcePtr bytes) {
    const std::string& name = GetParam().file_name;
    return {name, bytes, std::make_shared<Surroundings>(GetParam().beside, name, bytes), std::make_shared<SmallDisk>()};
  }
  static Container container(std::string bytes) { return container(in_memory(std::move(bytes))); }
  static Container container() { return container(GetParam().bytes); }

  // "" if `bytes` are refused as they should be, or read and everything that is mounted of them is in order.
  static std::string wrong_with(std::string bytes) {
    auto model = read_model(container(std::move(bytes)), forced());
    if (model) return ModelInvariants(std::make_shared<Model>(std::move(*model))).violation();
    const std::string& message = model.error().message;
    if (!message.starts_with(GetParam().file_name)) return "does not name the container: " + message;
    if (!is_one_line(message)) return "not one line: " + message;
    return model.error().code == Code::io && !SmallDisk::refused(model.error()) ? "no bytes in memory can fail: " + message : "";
  }
};

// Formats detected by the content of one file: not shards, which are found by name, nor forced layouts.
class EveryLoneFormat : public EveryFormat {};

std::vector<SmallModel> lone_models() {
  auto models = small_models();
  std::erase_if(models, [](const SmallModel& m) { return !m.detected || !m.beside.empty(); });
  return models;
}

using Names = std::vector<std::string>;

// Each of `names`, with `directory` in front.
Names in(const std::string& directory, Names names) {
  for (std::string& name : names) name.insert(0, directory);
  return names;
}

Names joined(std::initializer_list<Names> lists) {
  Names all;
  for (const Names& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// The files of every tree, and the files of each format. `texts` are the entries of npy/ without numbers.
Names tree(const Names& files, const Names& documents, const Names& npy, const Names& tensors, const Names& nested = {},
           const Names& texts = {}) {
  Names float32 = npy;
  std::erase_if(float32, [&](const std::string& name) { return std::ranges::count(texts, name) > 0; });
  return joined({{"files/"},
                 in("files/", files),
                 {"float32/"},
                 in("float32/", float32),
                 documents,
                 {"metadata.json", "metadata.toml"},
                 nested,
                 {"npy/"},
                 in("npy/", npy),
                 {"tensors/"},
                 in("tensors/", tensors),
                 {"tensors.json", "views/"}});
}

// A container of one file and one tensor, in another one at `path`.
Names nested(const std::string& directory, const std::string& name, const std::string& tensor) {
  const std::string at = fmt::format("nested/{}{}/", directory, name);
  const Names above = directory.empty() ? Names{"nested/"} : Names{"nested/", "nested/" + directory};
  return joined({above, {at}, in(at, tree({name}, {}, {tensor + ".npy"}, {tensor}))});
}

Names with_warnings(Names names) {
  names.emplace_back("warnings.txt");
  return names;
}

// The tree of each, as find(1) shows it.
Names golden(std::string_view title) {
  if (title == "GgufShards")
    return tree({"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}, {}, {"first.npy", "second.npy"},
                {"first", "second"});
  if (title.starts_with("Gguf")) return tree({"m.gguf"}, {}, {"q.npy", "scalar.npy", "w.npy"}, {"q", "scalar", "w"});
  if (title == "RtenVersion1")  // without a section for the tensor of the branch, which is refused
    return with_warnings(tree({"m.rten"}, {"graph.json"}, {"w.npy"}, {"2.then_branch/", "2.then_branch/w", "w"}));
  if (title == "RtenVersion2")
    return tree({"m.rten"}, {"graph.json"}, {"2.then_branch/", "2.then_branch/w.npy", "w.npy"},
                {"2.then_branch/", "2.then_branch/w", "w"});
  if (title == "ExecutorchData")
    return tree({"m.ptd", "named_data/", "named_data/blob"}, {}, {"a/", "a/t.npy", "w.npy"}, {"a/", "a/t", "w"});
  if (title == "ExecutorchProgram")
    return tree({"delegates/", "delegates/0.Xnnpack", "m.pte"}, {"graph.json"},
                {"constant_1.npy", "extra.npy", "state.npy"}, {"constant_1", "extra", "state"});
  if (title == "Tflite")
    return with_warnings(tree(
        {"inner.safetensors", "labels.txt", "m.tflite", "metadata/", "metadata/min_runtime_version", "weights.bin"},
        {"graph.json"}, {"ext.npy", "q.npy", "s.npy", "subgraphs/", "subgraphs/body/", "subgraphs/body/w.npy", "w.npy"},
        {"ext", "q", "s", "sparse", "subgraphs/", "subgraphs/body/", "subgraphs/body/w", "w"},
        nested("", "inner.safetensors", "t"), {"s.npy"}));
  if (title == "Safetensors")
    return tree({"m.safetensors"}, {}, {"empty.npy", "f4.npy", "s.npy", "w.npy"}, {"empty", "f4", "s", "w"});
  if (title == "SafetensorsIndex")
    return tree({"a.safetensors", "m.safetensors.index.json"}, {}, {"empty.npy", "f4.npy", "s.npy", "w.npy"},
                {"empty", "f4", "s", "w"});
  if (title == "TvmParams")
    return tree({"m.params"}, {}, {"a/", "a/b.npy", "empty.npy", "mask.npy", "w.npy"},
                {"a/", "a/b", "empty", "mask", "w"});
  if (title == "Nemo")
    return tree({"model_config.yaml", "model_weights.ckpt"}, {}, {"w.npy"}, {"w"},
                joined({{"nested/", "nested/model_weights.ckpt/"},
                        in("nested/model_weights.ckpt/",
                           tree({"archive/", "archive/data/", "archive/data/0", "archive/data.pkl", "archive/version"},
                                {}, {"w.npy"}, {"w"}))}));
  const Names of_checkpoint = {"half", "inner.tied", "t", "w"};
  const Names of_checkpoint_npy = {"half.npy", "inner.tied.npy", "t.npy", "w.npy"};
  if (title == "PytorchLegacy") return tree({"m.pt"}, {}, of_checkpoint_npy, of_checkpoint);
  if (title == "Pytorch")
    return tree({"archive/", "archive/data/", "archive/data/0", "archive/data/1", "archive/data/2", "archive/data.pkl",
                 "archive/version"},
                {}, of_checkpoint_npy, of_checkpoint);
  if (title == "TensorCache") return tree({"0.bin", "tensor-cache.json"}, {}, {"b.npy", "w.npy"}, {"b", "w"});
  if (title.starts_with("Export"))
    return tree({"metadata.json", "tensors/", "tensors/a/", "tensors/a/w", "tensors/s", "tensors.json"}, {},
                {"a/", "a/w.npy", "s.npy"}, {"a/", "a/w", "s"});
  if (title == "Ggml") return tree({"m.bin"}, {}, {"decoder.q.npy", "encoder.w.npy"}, {"decoder.q", "encoder.w"});
  if (title == "Flax")
    return with_warnings(tree({"m.msgpack"}, {}, {"params/", "params/c.npy", "params/w.npy", "s.npy"},
                              {"params/", "params/c", "params/w", "s"}));
  if (title == "Dduf")
    return tree({"model_index.json", "vae/", "vae/config.json", "vae/m.safetensors"}, {}, {"vae/", "vae/t.npy"},
                {"vae/", "vae/t"}, nested("vae/", "m.safetensors", "t"));
  if (title == "Llamafile") return tree({".args", "m.gguf"}, {}, {"t.npy"}, {"t"}, nested("", "m.gguf", "t"));
  if (title == "Hdf5")
    return tree({"m.h5"}, {}, {"deflated.npy", "dense/", "dense/bias:0.npy", "dense/kernel:0.npy", "text.npy"},
                {"deflated", "dense/", "dense/bias:0", "dense/kernel:0", "text"}, {}, {"text.npy"});
  if (title == "Hdf5New")
    return tree({"m.h5"}, {}, {"alias.npy", "vars/", "vars/0.npy", "vars/1.npy"},
                {"alias", "vars/", "vars/0", "vars/1"});
  const Names vars = {"alias", "vars/", "vars/0", "vars/1"};
  const Names vars_npy = {"alias.npy", "vars/", "vars/0.npy", "vars/1.npy"};
  if (title == "Keras")
    return with_warnings(tree({"config.json", "metadata.json", "model.weights.h5"}, {}, vars_npy, vars));
  if (title == "KerasDirectory") return with_warnings(tree({"config.json", "model.weights.h5"}, {}, vars_npy, vars));
  if (title == "KerasSharded") return tree({"m.weights.json", "m_00000.weights.h5"}, {}, vars_npy, vars);
  if (title.starts_with("Oci")) return tree({"m.safetensors", "src/", "src/a.py"}, {}, {"t.npy"}, {"t"});
  if (title == "Npy") return tree({"m.npy"}, {}, {"m.npy"}, {"m"});
  if (title == "Npz")
    return tree({"f.npy", "layer/", "layer/s.npy", "w.npy"}, {}, {"f.npy", "layer/", "layer/s.npy", "w.npy"},
                {"f", "layer/", "layer/s", "w"}, {}, {"layer/", "layer/s.npy"});
  if (title == "Zip")
    return tree({"d/", "d/deflated.txt", "d/zstandard.txt", "inner.safetensors", "link -> d/deflated.txt", "plain.txt"},
                {}, {}, {}, nested("", "inner.safetensors", "t"));
  if (title.starts_with("Tar"))
    return tree({"d/", "d/a", "inner.safetensors", "link -> d/a", "same"}, {}, {}, {},
                nested("", "inner.safetensors", "t"));
  if (title.starts_with("Carton"))  // one file is behind a link, which adds a warning
    return with_warnings(
        tree({"LINKS", "MANIFEST", "carton.toml", "model/", "model/m.safetensors", "tensor_data/", "tensor_data/0.bin",
              "tensor_data/1.toml", "tensor_data/far !", "tensor_data/index.toml"},
             {}, {"outer/", "outer/n.npy", "s.npy"}, {"outer/", "outer/n", "s"}, nested("model/", "m.safetensors", "t"),
             {"s.npy"}));
  if (title.starts_with("Mlf"))
    return tree({"codegen/", "codegen/host/", "codegen/host/src/", "codegen/host/src/lib0.c", "metadata.json",
                 "parameters/", "parameters/mlp.params", "src/", "src/relay.txt"},
                {}, {"p0.npy"}, {"p0"}, nested("parameters/", "mlp.params", "p0"));
  if (title == "Onnx")
    return with_warnings(
        tree({"m.data", "m.onnx"}, {"graph.json"},
             {"far.npy", "four.npy", "functions/", "functions/d.F/", "functions/d.F/k.npy", "i64.npy", "if/",
              "if/then_branch/", "if/then_branch/w.npy", "ints.npy", "one.npy", "sparse.indices.npy", "sparse.npy",
              "text.npy", "typed.npy", "w.npy"},
             {"far", "four", "functions/", "functions/d.F/", "functions/d.F/k", "i64", "if/", "if/then_branch/",
              "if/then_branch/w", "ints", "one", "short", "sparse", "sparse.indices", "text", "typed", "w"},
             {}, {"text.npy"}));
  if (title == "CoreMlPackage")
    return with_warnings(
        tree({"Data/", "Data/com.apple.CoreML/", "Data/com.apple.CoreML/model.mlmodel",
              "Data/com.apple.CoreML/weights/", "Data/com.apple.CoreML/weights/weight.bin", "Manifest.json"},
             {}, {"here.npy", "p.lut.npy", "tied.npy", "w.npy"}, {"bad", "here", "p.lut", "tied", "w"}));
  if (title == "CoreMlModel")
    return with_warnings(tree({"m.mlmodel", "weights/", "weights/weight.bin"}, {},
                              {"here.npy", "p.lut.npy", "tied.npy", "w.npy"}, {"bad", "here", "p.lut", "tied", "w"}));
  if (title == "Paddle")
    return tree({"m.pdiparams", "m.pdmodel"}, {}, {"b.npy", "e/", "e/f.npy", "w.npy"}, {"b", "e/", "e/f", "w"});
  if (title == "Ollama")
    return tree({"config.json", "license", "manifest.json", "model.gguf", "params.json", "projector.gguf", "template",
                 "tensors/", "tensors/d", "tensors/t.safetensors"},
                {}, {"d.npy", "q.npy", "scalar.npy", "t.npy", "w.npy"}, {"d", "q", "scalar", "t", "w"},
                nested("", "projector.gguf", "p"));
  return tree({"m.bt"}, {}, {"empty.npy", "s.npy", "w.npy"}, {"empty", "s", "w"});
}

// Those that have another model in them.
class EveryArchive : public EveryFormat {};

std::vector<SmallModel> archives() {
  auto models = small_models();
  std::erase_if(models, [](const SmallModel& m) {
    const Names names = golden(m.title);
    return std::find(names.begin(), names.end(), "nested/") == names.end();
  });
  return models;
}

TEST_P(EveryFormat, HasCommonTree) {
  auto model = read_model(container(), needed());
  ASSERT_TRUE(model) << model.error().message;
  Forest forest(lay_out(std::make_shared<Model>(std::move(*model)), "m", 0));
  EXPECT_THAT(walk(forest), ElementsAreArray(golden(GetParam().title)));
}

TEST_P(EveryFormat, KeepsInvariantsOfMount) { EXPECT_EQ(wrong_with(GetParam().bytes), ""); }

TEST_P(EveryLoneFormat, IsDetectedByContentNotName) {
  Container disguised = container();
  disguised.name = "photo.jpeg";
  disguised.folder = nullptr;
  EXPECT_TRUE(is_model(disguised).value_or(false));
  const auto model = read_model(disguised);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->format, read_model(container())->format);
  EXPECT_EQ(model->tensors.size(), read_model(container())->tensors.size());
}

// Reads return the same bytes, independent of earlier reads.
TEST_P(EveryFormat, RepeatedReadsAreEqual) {
  const auto describe = [] {
    const Model model = read_model(container(), forced()).value();
    std::string out = to_json(metadata_of(model, "m"));
    for (const TensorView& t : model.tensors)
      out += fmt::format("{} {}{}{}\n", t.name, t.dtype->name, shape_text(t.shape), t.source.offset());
    return out;
  };
  EXPECT_EQ(describe(), describe());
}

// The tested offsets of `bytes`: all, but only every 16th of long runs of zeros (the padding of a tar). With a
// sanitizer every 16th: a test takes ten times as long, and the fuzz targets cover the same code.
std::vector<size_t> places_in(std::string_view bytes) {
  constexpr size_t kLong = 32, kStep = 16;
  const size_t apart = sanitized() ? 16 : 1;
  std::vector<size_t> places;
  for (size_t i = 0, zeros = 0; i < bytes.size(); ++i) {
    zeros = bytes[i] == '\0' ? zeros + 1 : 0;
    if (i % apart == 0 && (zeros < kLong || zeros % kStep == 0)) places.push_back(i);
  }
  return places;
}

TEST_P(EveryFormat, SurvivesEveryTruncation) {
  for (const size_t size : places_in(GetParam().bytes))
    ASSERT_EQ(wrong_with(GetParam().bytes.substr(0, size)), "") << size << " bytes";
}

// In all ways in small containers; in those of files, which are larger and take longer, in one way each.
TEST_P(EveryFormat, SurvivesEveryFlippedByte) {
  constexpr size_t kSmall = 512;
  constexpr std::array kFlips = {0x01, 0x80, 0xFF};
  const std::string& whole = GetParam().bytes;
  for (const size_t i : places_in(whole))
    for (size_t way = 0; way < (whole.size() <= kSmall ? kFlips.size() : 1); ++way) {
      const int flip = kFlips[(i + way) % kFlips.size()];
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      ASSERT_EQ(wrong_with(std::move(bytes)), "") << "byte " << i << " flipped by " << flip;
    }
}

// A disk error does not mean a corrupt model, and can be retried.
TEST_P(EveryFormat, SystemErrorsArePassedThrough) {
  const auto whole = std::make_shared<Scripted>(GetParam().bytes);
  ASSERT_TRUE(read_model(container(whole), needed()));
  ASSERT_GT(whole->reads(), 0U);
  for (uint64_t read = 0; read < whole->reads(); ++read) {
    const auto failing = std::make_shared<Scripted>(GetParam().bytes);
    failing->fail_at(read);
    const auto model = read_model(container(failing), needed());
    ASSERT_FALSE(model) << "read " << read << " failed";
    EXPECT_EQ(model.error().code, Code::io) << model.error().message;
    EXPECT_THAT(model.error().message, StartsWith(GetParam().file_name));
  }
}

// Listings are cached: a disk error while nested containers are detected must be an error, not an incomplete listing.
TEST_P(EveryArchive, ShowsAllNestedModelsOrNone) {
  for (uint64_t read = 0;; ++read) {
    const auto bytes = std::make_shared<Scripted>(GetParam().bytes);
    auto model = read_model(container(bytes), needed());
    ASSERT_TRUE(model) << model.error().message;
    Forest forest(lay_out(std::make_shared<Model>(std::move(*model)), "m", 0));
    const uint64_t before = bytes->reads();
    bytes->fail_at(before + read);
    const auto nested = forest.list(forest.resolve("nested").value());
    if (nested)
      EXPECT_EQ(nested->count, 1U) << "read " << read << " failed";
    else
      EXPECT_EQ(nested.error().code, Code::io) << nested.error().message;
    if (bytes->reads() <= before + read) break;
  }
}

// A file with a valid beginning, followed by zeros: the number of bytes read depends on the content, not on the size.
TEST_P(EveryFormat, ReadsLittleOfFileWithHugeClaims) {
  constexpr uint64_t kHuge = uint64_t{1} << 62;
  constexpr uint64_t kLittle = 1 << 20;
  for (const std::string& beginning : {GetParam().bytes, GetParam().bytes.substr(0, 9), std::string()}) {
    const auto huge = std::make_shared<Scripted>(beginning, kHuge);
    const auto model = read_model(container(huge), forced());
    EXPECT_LT(huge->bytes_read(), kLittle);
    if (model) {
      EXPECT_LT(model->tensors.size(), 10U);
    } else {
      EXPECT_NE(model.error().code, Code::io) << model.error().message;
    }
  }
}

constexpr auto kTitle = [](const auto& row) { return std::string(row.param.title); };
INSTANTIATE_TEST_SUITE_P(Small, EveryFormat, testing::ValuesIn(small_models()), kTitle);
INSTANTIATE_TEST_SUITE_P(Small, EveryLoneFormat, testing::ValuesIn(lone_models()), kTitle);
INSTANTIATE_TEST_SUITE_P(Small, EveryArchive, testing::ValuesIn(archives()), kTitle);

// A format that is added without a row above is not tested.
TEST(EveryFormat, IsInSuite) {
  for (const Format& format : formats()) {
    const auto models = small_models();
    EXPECT_TRUE(std::any_of(models.begin(), models.end(), [&](const SmallModel& m) { return m.format == format.name; }))
        << format.name;
  }
}

}  // namespace
}  // namespace weightfs::contract_test
