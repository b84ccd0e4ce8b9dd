"""Chat templates, tokens and other texts of models: the commands that print them, and the files of a mount."""
import json
import os
import unittest

from mounting import MountTestCase, TestCase, on_terminal, run, sample_tensors
import stores

CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
TOKENS = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a", "\u0120the", "<|im_start|>", "<|im_end|>"],
          "tokenizer.ggml.token_type": [1, 1, 3, 3], "tokenizer.ggml.scores": [0.5, -1.5, 0.0, 0.0]}
TEMPLATES = {"tokenizer.chat_template": CHATML, "tokenizer.chat_template.tool_use": "tools"}


class Models(TestCase):
    def gguf(self, **more):
        return self.sample("m.gguf", format="gguf", metadata={"general.architecture": "llama", **TOKENS, **more})

    def repository(self, files):
        os.makedirs(self.path("repository"), exist_ok=True)
        source = self.sample("repository/model.safetensors")
        for name, content in files.items():
            self.write(f"repository/{name}", (content if isinstance(content, str) else json.dumps(content)).encode())
        return os.path.dirname(source)

    def ollama(self):
        store = stores.Store(self.path("store"))
        package = stores.Package()
        package.add("model", stores.gguf(self.tmp, sample_tensors(), {"general.architecture": "llama", **TOKENS}))
        package.add("template", b"{{ .System }}<|im_start|>{{ .Prompt }}").add("system", b"Be brief.\nAnd kind.")
        package.add("params", b'{"stop":["<|im_end|>"],"temperature":0.6}').add("license", b"LONG LICENCE\n" + 200 * b"of words ")
        store.put_package("tiny/latest", package)
        return os.path.join(store.root, "manifests", stores.DEFAULT_HOST, "library", "tiny", "latest")


class Printed(Models):
    def test_chat_template_is_printed_as_it_is(self):
        source = self.gguf(**TEMPLATES)
        printed = run("info", "--template", source)
        self.assertEqual(printed.stdout, CHATML)
        self.assertIn("--template=NAME prints another of default, tool_use", printed.stderr)
        named = run("info", "--template=tool_use", source)
        self.assertEqual((named.stdout, named.stderr), ("tools", ""))
        self.assertEqual([text["name"] for text in json.loads(run("info", "--template", "--json", source).stdout)],
                         ["default", "tool_use"])

    def test_missing_text_has_a_sentence_and_status_3(self):
        source = self.gguf(**TEMPLATES)
        for option, sentence in (("--template=x", 'no chat template "x"; the model has default, tool_use'),
                                 ("--system", "the model has no system prompt"), ("--license", "the model has no licence"),
                                 ("--tokens=zebra", 'no token has "zebra"')):
            ended = run("info", option, source, check=False)
            self.assertEqual((ended.returncode, ended.stdout), (3, ""), option)
            self.assertIn(sentence, ended.stderr)
        self.assertEqual(run("info", "--template", source, source, check=False).returncode, 2)
        self.assertIn("the model has no tokens", run("info", "--tokens", "", self.sample(), check=False).stderr)

    def test_tokens_are_found_by_text_and_id(self):
        source = self.gguf()
        self.assertEqual(run("info", "--tokens", " the", source).stdout,
                         "id\ttoken\ttext\ttype\tscore\n1\t\u0120the\t the\tnormal\t-1.5\n")
        self.assertEqual([row["id"] for row in json.loads(run("info", "--tokens", "IM_", "--json", source).stdout)], [2, 3])
        self.assertEqual(len(run("info", "--tokens", "id 1-2", source).stdout.splitlines()), 3)
        self.assertEqual(len(run("info", "--tokens", "", source).stdout.splitlines()), 5)

    def test_texts_of_a_repository_are_those_of_its_files(self):
        source = self.repository({
            "config.json": {"model_type": "llama"}, "LICENSE": "Apache\n", "generation_config.json": {"top_p": 0.9},
            "tokenizer_config.json": {"chat_template": CHATML},
            "tokenizer.json": {"added_tokens": [{"id": 1, "content": "<s>", "special": True}],
                               "model": {"type": "BPE", "vocab": {"a": 0, "<s>": 1}, "merges": []}}})
        self.assertEqual(run("info", "--template", source).stdout, CHATML)
        self.assertEqual(run("info", "--license", source).stdout, "Apache\n")
        self.assertEqual(run("info", "--parameters", source).stdout.split(), ["top_p", "0.9"])
        self.assertEqual(run("info", "--tokens", "<", source).stdout, "id\ttoken\ttext\ttype\n1\t<s>\t\tcontrol\n")

    def test_ollama_has_what_ollama_show_has(self):
        source = self.ollama()
        self.assertEqual(run("info", "--template", source).stdout, "{{ .System }}<|im_start|>{{ .Prompt }}")
        self.assertEqual(run("info", "--system", source).stdout, "Be brief.\nAnd kind.")
        self.assertEqual(run("info", "--parameters", source).stdout.split(), ["stop", '"<|im_end|>"', "temperature", "0.6"])
        self.assertTrue(run("info", "--license", source).stdout.startswith("LONG LICENCE\n"))
        self.assertIn("<|im_start|>", run("info", "--tokens", "im_", source).stdout)
        screen = run("info", source).stdout
        for fact in (r"system +Be brief\.\n", r'settings +stop "<\|im_end\|>", temperature 0\.6\n', r"licence +LONG LICENCE\n"):
            self.assertRegex(screen, fact)

    def test_terminal_gets_no_control_characters(self):
        source = self.gguf(**{"tokenizer.chat_template": "a\x1b[31m\tb\nc"})
        self.assertEqual(on_terminal("info", "--template", source), "a\\x1b[31m\tb\nc\n")

    # A few warnings are printed; of more, the command that prints them.
    def test_warnings_are_printed_or_the_command_that_does(self):
        self.assertNotIn("warning", run("info", self.gguf()).stdout)
        one = self.repository({"config.json": {"model_type": "llama"}, "tokenizer_config.json": "[1]"})
        self.assertRegex(run("info", one).stdout, r"\n  warning +tokenizer_config.json: not a JSON object; ignored\n")
        self.assertNotIn("see warnings.txt", run("info", one).stdout)


class Mounted(MountTestCase, Models):
    def metadata(self, point):
        folder = os.path.join(point, "metadata")
        return {name: self.read(folder, name).decode() for name in sorted(os.listdir(folder))}

    def test_gguf_has_a_file_for_each_chat_template(self):
        point = self.mount(self.gguf(**TEMPLATES))
        self.assertEqual(self.metadata(point), {"tokenizer.chat_template.jinja": CHATML,
                                                "tokenizer.chat_template.tool_use.jinja": "tools"})

    def test_repository_has_the_same_files(self):
        for file, content in (("tokenizer_config.json", {"chat_template": CHATML}), ("chat_template.jinja", CHATML),
                              ("chat_template.json", {"chat_template": CHATML})):
            with self.subTest(file):
                folder = self.repository({"config.json": {"model_type": "llama"}, file: content})
                point = self.mount(folder)
                self.assertEqual(self.metadata(point), {"tokenizer.chat_template.jinja": CHATML})
                self.unmount(point)
                os.remove(os.path.join(folder, file))

    def test_model_without_templates_has_no_such_files(self):
        self.assertFalse(os.path.exists(os.path.join(self.mount(self.gguf()), "metadata")))


if __name__ == "__main__":
    unittest.main()
