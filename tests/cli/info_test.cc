// weightfs info: screens, JSON, and files that are no model or damaged.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "base/files/file_source.h"
#include "tests/cli/command_line.h"

namespace weightfs::test::info_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kPoints = "a Git LFS pointer to a file of 4.6 GiB (4,920,739,232 bytes); run git lfs pull";

class InfoTest : public CommandTest {
 protected:
  static std::string pointer() {
    return fmt::format("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 4920739232\n",
                       std::string(64, 'a'));
  }
  // The sources of `info --json`, each with the code of its error, if it has one.
  static std::vector<std::string> rows(const std::string& json) {
    std::vector<std::string> rows;
    for (const std::string& line : lines_of(json)) {
      const auto value = [&] { return line.substr(line.find(": \"") + 3, line.rfind('"') - line.find(": \"") - 3); };
      if (line.find("\"source\": ") != line.npos) rows.push_back(value());
      if (line.find("\"code\": ") != line.npos) rows.back() += " " + value();
    }
    return rows;
  }
  // A text as JSON spells it, without control characters.
  static std::string json_text(std::string_view text) {
    std::string out;
    for (const char c : text) out += c == '"' ? "\\\"" : std::string(1, c);
    return out;
  }
  static std::string tiny_gguf() {
    return GgufBuilder()
        .string("general.name", "Tiny")
        .string("general.architecture", "llama")
        .tensor("encoder.w", {20, 3}, 0, std::string(240, 'w'))
        .tensor("bias", {1}, 26, "0123")
        .build();
  }
};

TEST_F(InfoTest, SummaryIsReadableText) {
  const Ended ended = run({"info", write("m.gguf", tiny_gguf())});
  EXPECT_EQ(ended.status, 0) << ended.err;
  for (const char* wanted : {"Tiny  ", "GGUF 3 · ", "tensors (llama), 60 parameters, F32 (guessed)\n", "encoder  ",
                             "240 B", "--metadata: 2 entries"})
    EXPECT_THAT(ended.out, HasSubstr(wanted));
}

TEST_F(InfoTest, JsonIsMetadataJson) {
  const std::string source = write("m.gguf", tiny_gguf());
  EXPECT_EQ(compact(run({"info", "--json", source}).out), compact(run({"cat", source, "metadata.json"}).out));
  EXPECT_EQ(run({"show", "--json", source}), run({"info", "--json", source})) << "another name";
}

// docs/api.md, index: programs map the bytes of tensors, after they have compared the identity of the file.
TEST_F(InfoTest, TensorsInJsonSayWhereTheirBytesAre) {
  const std::string bytes = GgufBuilder()
                                .tensor("plain", {4}, 0, "plain bytes of 4")
                                .tensor("packed", {32}, 8, std::string(34, 'q'))
                                .tensor("wide", {2}, 30, "bf16")
                                .tensor("cut", {40}, 0, std::string(160, 'c'))
                                .build();
  const std::string source = write("m.gguf", bytes.substr(0, bytes.size() - 32));
  const Ended ended = run({"info", "--json", "--tensors", source});
  EXPECT_EQ(ended.status, 5) << "a part is missing";
  const std::string out = compact(ended.out);
  struct stat status {};
  ASSERT_EQ(::stat(source.c_str(), &status), 0);
  EXPECT_THAT(out, HasSubstr(fmt::format(R"("local_files":["{}"])", FileStatus(status).identity())));
  EXPECT_THAT(out, HasSubstr(fmt::format(
                       R"("descr":"<f4","local":[0,{}],"npy":"npy/plain.npy","float32":"float32/plain.npy"}})",
                       bytes.find("plain bytes"))));
  EXPECT_THAT(out, HasSubstr(fmt::format(R"(}},"local":[0,{}],"npy":"npy/packed.npy","float32":"float32/packed.npy"}})",
                                         bytes.find("qqqq"))))
      << "blocks are not elements";
  EXPECT_THAT(out, HasSubstr(fmt::format(R"(}},"local":[0,{}],"npy":"npy/wide.npy","float32":"float32/wide.npy"}})",
                                         bytes.find("bf16"))))
      << "a type that NumPy lacks";
  EXPECT_THAT(out, HasSubstr(R"("name":"cut")"));
  EXPECT_THAT(out, HasSubstr(R"("refused":true}])")) << "no place";
}

TEST_F(InfoTest, BytesWithoutATypeOfNumpyAreLittleEndian) {
  const std::string bytes =
      GgufBuilder(3, std::endian::big).tensor("plain", {1}, 0, "f32.").tensor("wide", {2}, 30, "bf16").build();
  const std::string out = compact(run({"info", "--json", "--tensors", write("big.gguf", bytes)}).out);
  EXPECT_THAT(out, HasSubstr(fmt::format(R"("descr":">f4","local":[0,{}],)", bytes.find("f32."))));
  EXPECT_THAT(out, testing::Not(HasSubstr(fmt::format(R"("local":[0,{}])", bytes.find("bf16")))));
}

TEST_F(InfoTest, TensorsInJsonAreBesideTheMetadata) {
  const std::string source = write("m.gguf", tiny_gguf());
  const std::string whole = compact(run({"info", "--json", "--tensors", source}).out);
  const std::string metadata = compact(run({"info", "--json", source}).out);
  EXPECT_THAT(whole, StartsWith(metadata.substr(0, metadata.size() - 1) + R"(,"v":")"));
  EXPECT_THAT(run({"info", "--json", "--tensors", source, source}).out, testing::Not(HasSubstr("tensor_list")))
      << "of one model only";
}

// semantics 27.3
TEST_F(InfoTest, SeveralSourcesHaveAScreenEach) {
  const std::string a = write("a.safetensors", small_safetensors()), b = write("b.gguf", "");
  const std::string screen = run({"info", a}).out;
  EXPECT_EQ(run({"info", a, b, a}), (Ended{4, fmt::format("{0}\n{1}\n{0}\n{1}", a, screen),
                                           fmt::format("weightfs: {}: an empty file (0 B)\n", b)}));
  const std::string json = compact(run({"info", "--json", a, b}).out);
  EXPECT_THAT(json, StartsWith(R"([{"format":)"));
  EXPECT_THAT(json, HasSubstr(R"("error":{"code":"empty")"));
}

TEST_F(InfoTest, BlocksOptionIsChecked) {
  const std::string source = write("m.gguf", tiny_gguf());
  EXPECT_THAT(run({"info", "--blocks", "3", source}).out, HasSubstr("\n  encoder "));
  for (const char* wrong : {"1", "x", "1001"}) {
    const Ended ended = run({"info", "--blocks", wrong, source});
    EXPECT_EQ(ended.status, 2);
    EXPECT_THAT(ended.err, HasSubstr("a number from 2 to 1000 expected"));
  }
}

TEST_F(InfoTest, ControlCharactersAreEscaped) {
  const std::string source =
      write("m.safetensors", model_of({{"w", {1}}}, R"({"evil\u001b[31m":"\u001b]0;title\u0007 \u009b31m"})"));
  const std::string out = run({"info", "--metadata", source}).out;
  EXPECT_THAT(out, HasSubstr("evil"));
  EXPECT_TRUE(std::ranges::none_of(out, [](char c) { return (c >= '\0' && c < ' ' && c != '\n') || c == '\x7f'; }));
  EXPECT_EQ(out.find("\xc2\x9b"), out.npos);
}

TEST_F(InfoTest, FileThatIsNoModelIsStatus4WithTheReason) {
  const std::string model = write("model.gguf", pointer());
  EXPECT_EQ(run({"info", model}), (Ended{4, "", fmt::format("weightfs: {}: {}\n", model, kPoints)}));
  write("compiled/coremldata.bin", "x");
  const Ended compiled = run({"info", temporary.path("compiled")});
  EXPECT_EQ(compiled.status, 4);
  EXPECT_THAT(compiled.err, HasSubstr("compiled Core ML: not supported"));
}

TEST_F(InfoTest, ErrorInJsonHasANameForPrograms) {
  struct Row {
    const char* name;
    std::string bytes;
    const char* code;
    int status;
  };
  const std::string damaged = "GGUF" + length_prefix(3).substr(0, 4) + length_prefix(1) + length_prefix(1);
  const std::array<Row, 4> kRows = {{{"model.gguf", pointer(), "git-lfs-pointer", 4},
                                     {"a.onnx", "", "empty", 4},
                                     {"b.safetensors", "<!DOCTYPE html><title>Sign in</title>", "html", 4},
                                     {"c.gguf", damaged, "damaged", 5}}};
  for (const auto& [name, bytes, code, status] : kRows) {
    const std::string source = write(name, bytes);
    const Ended ended = run({"info", "--json", source});
    EXPECT_EQ(ended.status, status) << name;
    EXPECT_THAT(rows(ended.out), ElementsAre(fmt::format("{} {}", source, code)));
    for (const std::string& line : lines_of(ended.err))
      EXPECT_THAT(ended.out, HasSubstr(json_text(line.substr(std::string_view("weightfs: ").size())))) << name;
  }
  const Ended missing = run({"info", "--json", temporary.path("missing.gguf")});
  EXPECT_EQ(missing.status, 3);
  EXPECT_THAT(rows(missing.out), ElementsAre(temporary.path("missing.gguf") + " not-found"));
}

TEST_F(InfoTest, BadFilesAreRowsOfADirectory) {
  write("models/a.safetensors", small_safetensors());
  write("models/b.safetensors", small_safetensors());
  write("models/c.gguf", pointer());
  write("models/d.safetensors.part", "\1\2\3");
  write("models/e.safetensors", length_prefix(255) + "{\"a\"");
  write("models/README.md", pointer());
  const Ended ended = run({"info", "--json", temporary.path("models")});
  EXPECT_THAT(rows(ended.out), ElementsAre("a.safetensors", "b.safetensors", "c.gguf git-lfs-pointer",
                                           "d.safetensors.part partial", "e.safetensors damaged"));
  EXPECT_EQ(ended.status, 5);
}

TEST_F(InfoTest, PointersToShardsAreOneRow) {
  write("models/a.safetensors", small_safetensors());
  write("models/b.safetensors", small_safetensors());
  write("models/big-00001-of-00002.gguf", pointer());
  write("models/big-00002-of-00002.gguf", pointer());
  EXPECT_THAT(rows(run({"info", "--json", temporary.path("models")}).out),
              ElementsAre("a.safetensors", "b.safetensors", "big-00001-of-00002.gguf git-lfs-pointer"));
}

TEST_F(InfoTest, MissingShardIsDamage) {
  write("sharded/model-00001-of-00003.safetensors", model_of({{"a", {1}}}));
  write("sharded/model-00003-of-00003.safetensors", model_of({{"c", {1}}}));
  write("sharded/model.safetensors.index.json",
        R"({"metadata":{"total_size":12},"weight_map":{"a":"model-00001-of-00003.safetensors",)"
        R"("b":"model-00002-of-00003.safetensors","c":"model-00003-of-00003.safetensors"}})");
  const Ended ended = run({"info", "--json", temporary.path("sharded")});
  EXPECT_EQ(ended.status, 5);
  EXPECT_THAT(ended.err,
              HasSubstr("1 of 3 tensors cannot be read: 1 of 3 shards is missing: model-00002-of-00003.safetensors"));
}

TEST_F(InfoTest, BytesAfterSafetensorsAreAWarning) {
  const Ended ended = run({"info", "--json", write("a.safetensors", small_safetensors() + "more")});
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.err, "");
  EXPECT_THAT(ended.out, HasSubstr("\"format\": \"safetensors\""));
}

}  // namespace
}  // namespace weightfs::test::info_test
