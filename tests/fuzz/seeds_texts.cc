// Inputs other than containers: TOML, JSON, names, compressed bytes.
#include <fmt/core.h>

#include "tests/fuzz/seeds.h"
#include "tests/support/small_models.h"

namespace weightfs::test {
namespace {

void add_toml(Seeds& seeds) {
  seeds["toml/values"] = R"(# every kind of value
s = "a\n\u00e9\U0001F600"
m = """
two \
  lines"""
l = 'C:\x'
k = '''
raw'''
i = [-1, 0x7f, 0o7, 0b1, 1_000, +9223372036854775807]
f = [1.5, -1e308, inf, -inf, nan]
b = true
t = [1979-05-27T07:32:00Z, 1979-05-27T00:32:00.999-07:00, 1979-05-27, 07:32:00]
n = {a = 1, "b c" = {}, d.e.f = []}
)";
  seeds["toml/tables"] = "a.b.c = 1\n[t]\nx = 1\n[t.u.'v w']\ny = 2\n[[l]]\nz = 1\n[[l]]\n[l.m]\n[[l.n]]\n";
  seeds["toml/errors"] = "a = 1\na = 2\n[a]\n[b]\n[b]\nc = \n= 1\n\"\\q\" = '\xFF'\n";
  seeds["toml/index"] = "[[tensor]]\nname = \"n\"\ndtype = \"float32\"\nshape = [1]\nfile = \"0.bin\"\n";
  seeds["toml/empty"] = "\n";
  for (const char* name : {"toml/values", "toml/tables"})
    seeds[fmt::format("render/{}", std::string_view(name).substr(5))] = seeds[name];
}

void add_json(Seeds& seeds) {
  seeds["json/values"] =
      R"( {"a":[1,-1,1.5,-1e308,1e-400,18446744073709551615,18446744073709551616,-9223372036854775809],
"b":{"":"\u0000\ud83d\ude00\"\\\/\b\f\n\r\t","b":null},"c":[true,false,[],{}],"a":2} )";
  seeds["json/errors"] = "[1,\"\\ud800\",\"\xED\xA0\x80\",01]";
  seeds["json/none"] = "\xEF\xBB\xBF{}";
  seeds["json/text"] = "\"\x7F\xC3\xA9\"";
  seeds["json/weight-map"] = small_safetensors_index();
  seeds["json/deep"] = "[[[[{\"a\":[{\"b\":[[1]]}]}]]]]";
  for (const char* name : {"json/values", "json/text", "json/deep"})
    seeds[fmt::format("render/{}", std::string_view(name).substr(5))] = seeds[name];
}

void add_name_lists(Seeds& seeds) {
  std::string names, scoped;
  for (const std::string& name : hostile_names())
    if (name.find('\n') == name.npos) {
      names += name + '\n';
      scoped += "@g/h " + name + '\n';
    }
  seeds["names/hostile"] = names;
  seeds["names/scoped"] = scoped;
  std::string blocks;
  for (int i = 0; i < 8; ++i) blocks += fmt::format("blk.{}.attn_q.weight\nblk/{}/attn_q/weight\n", i, i);
  seeds["names/blocks"] = blocks;
  std::string prefixes = "a";
  for (int i = 0; i < 40; ++i) prefixes += "/a";
  seeds["names/deep"] = prefixes + "\na\na/a\na/a/a\na/a/a.npy\n";
}

void add_compressed(Seeds& seeds) {
  const auto add = [&](const char* name, char decoder, const std::string& bytes) {
    seeds[fmt::format("codec/{}", name)] = decoder + bytes;
  };
  add("deflate", 0, sample_deflate());
  add("deflate-stored", 0, deflate_stored("abc"));
  add("deflate-bomb", 0, deflate_bomb(100));
  add("gzip", 1, sample_gzip());
  add("gzip-header", 1, gzip_stored("x", 2 | 4 | 8 | 16, std::string("\3\0xyzname\0comment\0\xAB\xCD", 20)));
  add("xz", 2, sample_xz());
  add("xz-stored", 2, xz::stream("abc"));
  add("zstd", 3, sample_zstd());
  add("zstd-frames", 3, zstd::sized_frame("a") + zstd::skippable("zz") + zstd::sized_frame("b"));
  add("zstd-bomb", 3, zstd::bomb(4));
  add("bzip2", 4, seeds.at("tar-bzip2"));
}

// One of each kind of tokenizer, with 64 tokens: a config.json and the files beside it.
void add_tokenizers(Seeds& seeds) {
  const auto add = [&](std::string_view name, std::string_view class_name, const Files& beside) {
    const std::string config =
        fmt::format(R"({{"architectures":["{}"],"vocab_size":64,"eos_token_id":2,"bos_token_id":[1]}})", class_name);
    seeds[fmt::format("tokenizer/{}", name)] = with_files(config, beside);
  };
  const std::string config = R"({"bos_token":"<s>","eos_token":{"content":"</s>"},"add_bos_token":true,"chat_template":
[{"name":"default","template":"{{x}}"},{"name":"a b","template":"y"}],"added_tokens_decoder":{"3":{"content":"<t>","special":false}}})";
  const std::string parts =
      R"("added_tokens":[{"id":1,"content":"<s>","special":true},{"id":2,"content":"</s>","special":false}],)"
      R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},)"
      R"({"Sequence":{"id":"A"}},{"SpecialToken":{"id":"<t>"}}],"pair":[{"Sequence":{"id":"A"}},)"
      R"({"SpecialToken":{"id":"</s>"}},{"Sequence":{"id":"B"}}]},)";
  const std::string vocabulary = R"("vocab":{"<unk>":0,"a":4,"b":5,"ab":6,"<0x0A>":7,"##c":8},"merges":[["a","b"]]}})";
  const std::string bytes = R"({"type":"ByteLevel","add_prefix_space":false})";
  add("byte-level", "LlamaForCausalLM",
      {{"tokenizer_config.json", config},
       {"tokenizer.json", "{" + parts + R"("normalizer":{"type":"NFC"},"pre_tokenizer":)" + bytes +
                              R"(,"model":{"type":"BPE",)" + vocabulary}});
  add("byte-fallback", "Gemma3ForCausalLM",
      {{"tokenizer_config.json", config},
       {"tokenizer.json", "{" + parts +
                              R"("normalizer":{"type":"Replace","pattern":{"String":" "},"content":"\u2581"},)" +
                              R"("model":{"type":"BPE","byte_fallback":true,)" + vocabulary}});
  add("gemma4", "Gemma4ForCausalLM",
      {{"tokenizer.json", "{" + parts + R"("model":{"byte_fallback":true,)" + vocabulary}});
  add("wordpiece", "BertModel", {{"tokenizer.json", "{" + parts + R"("model":{"type":"WordPiece",)" + vocabulary}});
  const std::string piece("\n\x0c\n\x03\xe2\x96\x81\x15\0\0\x80\xbf\x18\x01", 14);
  add("pieces", "Phi3ForCausalLM",
      {{"tokenizer.model", piece + std::string("\n\x05\n\x01"
                                               "b\x18\x02\x12\x02\x18\x02",
                                               11)},
       {"added_tokens.json", R"({"c":9})"},
       {"tokenizer_config.json", config},
       {"chat_template.jinja", "z\r\n"}});
}

}  // namespace

void add_texts(Seeds& seeds) {
  add_toml(seeds);
  add_json(seeds);
  add_name_lists(seeds);
  add_compressed(seeds);
  add_tokenizers(seeds);
  Files files = small_carton_files();
  const std::string toml = files["carton.toml"];
  files.erase("carton.toml");
  seeds["carton/small"] = with_files(toml, files);
  seeds["ollama_manifest/name"] = "https://hf.co/someone/model:Q4_K_M@sha256:" + std::string(64, 'a') + "\n";
  seeds["ollama_manifest/path"] = "registry.ollama.ai/library/llama3.2/latest\n";
  seeds["ollama_manifest/type"] = "application/vnd.ollama.image.tensor; name=\"a \\\"b\"; dtype=F32; shape=1,2\n";
}

}  // namespace weightfs::test
