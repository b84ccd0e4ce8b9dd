// Chat templates and other texts of models, and the documents that a mount shows of them.
#include "formats/tokenizer/texts.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "tests/builders/ollama_builder.h"

namespace weightfs::texts_test {
namespace {

using namespace tokenizer;
using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> texts(const Model& model, TextKind kind = TextKind::chat_template) {
  std::vector<std::string> out;
  const auto all = texts_of(model, kind);
  if (!all) return {all.error().message};
  for (const ModelText& text : *all) out.push_back(fmt::format("{} ({}): {}", text.name, text.stated_in, text.text));
  return out;
}

ModelPtr repository(Files files) {
  auto model = std::make_shared<Model>();
  const auto folder = std::make_shared<MemoryFolder>(std::move(files));
  model->parts = folder->parts().value();
  model->beside = folder;
  return model;
}

ModelPtr gguf(GgufBuilder b) {
  return std::make_shared<const Model>(
      read_model({"m.gguf", in_memory(b.string("general.architecture", "llama").build())}).value());
}

std::vector<std::string> paths(const std::vector<Document>& documents) {
  std::vector<std::string> out;
  for (const Document& document : documents)
    out.push_back(fmt::format("{}: {}", document.path,
                              read_text(**document.source.get(), 0, (*document.source.get())->size()).value()));
  return out;
}

TEST(ChatTemplates, OfGgufAreItsKeys) {
  const ModelPtr model = gguf(GgufBuilder()
                                  .string("tokenizer.chat_template.tool_use", "tools")
                                  .string("tokenizer.chat_template", "main\r\n")
                                  .string("tokenizer.chat_template.", "no name")
                                  .string("tokenizer.chat_templates", "a list"));
  EXPECT_THAT(texts(*model), ElementsAre("default (tokenizer.chat_template): main\r\n",
                                         "tool_use (tokenizer.chat_template.tool_use): tools"));
  EXPECT_THAT(paths(template_documents(model)), ElementsAre("metadata/tokenizer.chat_template.jinja: main\r\n",
                                                            "metadata/tokenizer.chat_template.tool_use.jinja: tools"));
  EXPECT_FALSE(may_have_template_files(*model));
}

TEST(ChatTemplates, HostileNamesAreNoPaths) {
  const ModelPtr model = gguf(GgufBuilder()
                                  .string("tokenizer.chat_template.../../x", "up")
                                  .string("tokenizer.chat_template." + std::string(300, 'n'), "long"));
  EXPECT_THAT(paths(template_documents(model)), ElementsAre("metadata/tokenizer.chat_template...%2F..%2Fx.jinja: up",
                                                            "metadata/tokenizer.chat_template.%1.jinja: long"));
}

// The metadata has room for 1 MiB: a longer text is a document of JSON.
TEST(ChatTemplates, LongOneIsReadFromItsDocument) {
  const std::string text = std::string(2 << 20, 'x') + "\n\"";
  EXPECT_THAT(texts(*gguf(GgufBuilder().string("tokenizer.chat_template", text))),
              ElementsAre("default (tokenizer.chat_template): " + text));
  const std::string longer((4 << 20) + 1, 'x');
  EXPECT_THAT(texts(*gguf(GgufBuilder().string("tokenizer.chat_template", longer))),
              ElementsAre("tokenizer.chat_template has more than 4 MiB"));
}

TEST(ChatTemplates, OfARepositoryAreInItsFiles) {
  const ModelPtr listed = repository({{"tokenizer_config.json", R"({"chat_template": [
      {"name": "tool_use", "template": "t"}, {"name": "default", "template": "old"},
      {"name": "default", "template": "d"}]})"}});
  EXPECT_THAT(texts(*listed), ElementsAre("default (tokenizer_config.json): d", "tool_use (tokenizer_config.json): t"));
  EXPECT_TRUE(may_have_template_files(*listed));
  EXPECT_THAT(
      paths(documents_of_template_files(*listed).value()),
      ElementsAre("metadata/tokenizer.chat_template.jinja: d", "metadata/tokenizer.chat_template.tool_use.jinja: t"));
  EXPECT_THAT(texts(*repository({{"chat_template.jinja", "{{ x }}"}})),
              ElementsAre("default (chat_template.jinja): {{ x }}"));
  EXPECT_THAT(
      texts(*repository({{"tokenizer_config.json", "{}"}, {"chat_template.json", R"({"chat_template": "c"})"}})),
      ElementsAre("default (chat_template.json): c"));
  EXPECT_THAT(texts(*repository({})), IsEmpty());
}

TEST(ChatTemplates, DamagedFileIsReportedAndHasNoDocument) {
  const ModelPtr model = repository({{"tokenizer_config.json", "{"}});
  EXPECT_THAT(texts(*model), ElementsAre(HasSubstr("tokenizer_config.json: ")));
  EXPECT_THAT(documents_of_template_files(*model).value(), IsEmpty());
}

Model ollama(OllamaBuilder b) {
  const Container container{
      .name = "manifest", .bytes = in_memory(b.manifest()), .folder = std::make_shared<MemoryFolder>(b.blobs())};
  return read_model(container).value();
}

// As `ollama show` has them.
TEST(ModelTexts, OfOllamaAreItsLayers) {
  const std::string weights = GgufBuilder()
                                  .string("general.architecture", "llama")
                                  .string("tokenizer.chat_template", "jinja")
                                  .tensor("w", {1}, 0, "0123")
                                  .build();
  const Model model = ollama(OllamaBuilder()
                                 .layer("model", weights)
                                 .layer("template", "{{ .Prompt }}")
                                 .layer("system", "Be kind.\nAlways.")
                                 .layer("license", "First\nlicence")
                                 .layer("license", "Second")
                                 .layer("params", R"({"stop":["<|a|>","\n"],"temperature":0.6})"));
  EXPECT_THAT(texts(model), ElementsAre("default (template): {{ .Prompt }}", "gguf (tokenizer.chat_template): jinja"));
  EXPECT_THAT(texts(model, TextKind::system), ElementsAre("system (system): Be kind.\nAlways."));
  EXPECT_THAT(texts(model, TextKind::licence),
              ElementsAre("licence (license): First\nlicence", "2 (license-2): Second"));
  EXPECT_THAT(texts(model, TextKind::parameters),
              ElementsAre("parameters (params.json): stop                           \"<|a|>\"\n"
                          "stop                           \"\\n\"\n"
                          "temperature                    0.6\n"));
}

TEST(ModelTexts, OfARepositoryAreItsFiles) {
  const ModelPtr model = repository(
      {{"LICENSE", "Apache"}, {"generation_config.json", R"({"top_p": 0.9, "eos_token_id": [1, 2], "x": null})"}});
  EXPECT_THAT(texts(*model, TextKind::licence), ElementsAre("licence (LICENSE): Apache"));
  EXPECT_THAT(texts(*model, TextKind::parameters),
              ElementsAre("parameters (generation_config.json): top_p                          0.9\n"
                          "eos_token_id                   1\n"
                          "eos_token_id                   2\n"));
  EXPECT_THAT(texts(*model, TextKind::system), IsEmpty());
}

}  // namespace
}  // namespace weightfs::texts_test
