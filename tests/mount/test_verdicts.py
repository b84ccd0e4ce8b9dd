"""`weightfs verify` of several models: a line for each, their sum, JSON and SARIF. semantics 8.5"""
import json
import os
import re
import unittest
import zipfile
from urllib.parse import unquote, urlsplit

from mounting import TestCase, run
import archives

# RFC 3986: the characters of a URI reference.
URI = re.compile(r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-F]{2})*")
LEVELS = {"none", "note", "warning", "error"}


class Verdicts(TestCase):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("models"))
        self.whole = self.sample("models/a.safetensors")
        self.other = self.sample("models/b.gguf", format="gguf")
        self.cut = self.sample("models/cut model.safetensors")
        os.truncate(self.cut, os.path.getsize(self.cut) - 245)

    def verify(self, *argv, status, **options):
        done = run("verify", *argv, **options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done


class Lines(Verdicts):
    def test_each_model_has_a_line_with_its_state_and_the_last_line_is_the_sum(self):
        for argv in ([self.whole, self.cut, self.other], [self.path("models")]):
            lines = self.verify(*argv, status=5).stdout.splitlines()
            self.assertEqual(len(lines), 4, lines)
            states = {line.partition(": ")[0]: line.split(": ")[1] for line in lines[:-1]}
            self.assertEqual(states, {self.whole: "WHOLE", self.other: "WHOLE", self.cut: "DAMAGED"})
            self.assertEqual(lines[-1], "3 models: 2 whole, 1 damaged")

    def test_single_model_is_not_summed_up(self):
        self.assertEqual(self.verify(self.whole, status=0).stdout,
                         f"{self.whole}: WHOLE: safetensors has no checksums; structure valid, 5 tensors\n")

    def test_source_that_cannot_be_opened_has_failed_and_the_others_are_verified(self):
        text = self.write("text.safetensors", b"this is not a model\n")
        done = self.verify(text, self.whole, self.path("missing.bin"), status=3)
        lines = done.stdout.splitlines()
        self.assertTrue(lines[0].startswith(f"{text}: FAILED: ") or lines[0].startswith(f"{text}: DAMAGED: "), lines)
        self.assertEqual(lines[2], f"{self.path('missing.bin')}: FAILED: No such file or directory")
        self.assertRegex(lines[3], "^3 models: 1 whole, ")
        self.assertIn(f"weightfs: {self.path('missing.bin')}: No such file or directory\n", done.stderr)
        # If it is the only one, standard error has the line.
        self.assertEqual(self.verify(self.path("missing.bin"), status=3).stdout, "")

    def test_worst_cause_is_the_status(self):
        self.write("models/a.safetensors.sha256", f"{'0' * 64}  a.safetensors\n".encode())
        self.verify(self.path("models"), status=7)
        self.verify(self.cut, self.whole, self.path("missing.bin"), status=7)

    def test_problems_of_a_model_are_one_line_unless_verbose(self):
        with archives.Zip(self.path("m.zip")) as file:
            for i in range(9):
                file.write(f"notes/{i}.txt", b"bytes", crc=i)
        done = self.verify(self.path("m.zip"), status=7)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 1, done.stdout)
        self.assertRegex(lines[0], r": DAMAGED: .*; --verbose prints \d+ more lines$")
        verbose = self.verify("--verbose", self.path("m.zip"), status=7).stdout.splitlines()
        self.assertGreaterEqual(len(verbose), 9)
        self.assertIn(": DAMAGED: ", verbose[-1])


class Documents(Verdicts):
    def test_json_has_each_model_with_its_problems(self):
        document = json.loads(self.verify("--json", self.path("models"), self.path("no.bin"), status=5).stdout)
        self.assertEqual({name: document[name] for name in ("whole", "damaged", "failed")}, {"whole": 2, "damaged": 1, "failed": 1})
        models = {model["name"]: model for model in document["models"]}
        self.assertEqual([models[name]["state"] for name in (self.whole, self.other, self.cut, self.path("no.bin"))],
                         ["whole", "whole", "damaged", "failed"])
        self.assertEqual(models[self.cut]["problems"][0]["code"], "damaged")
        self.assertEqual(models[self.path("no.bin")]["problems"], [{"code": "not-found", "message": "No such file or directory"}])
        self.assertEqual(models[self.whole]["problems"], [])

    def sarif(self, *argv, status, **options):
        """The results of a log that has what SARIF 2.1.0 requires: sections 3.13, 3.14, 3.18, 3.19, 3.27 and 3.28 to 3.30."""
        log = json.loads(self.verify("--sarif", *argv, status=status, **options).stdout)
        self.assertEqual((log["version"], len(log["runs"])), ("2.1.0", 1))
        self.assertRegex(log["$schema"], "sarif-2.1.0.json$")
        driver = log["runs"][0]["tool"]["driver"]
        self.assertEqual(driver["name"], "weightfs")
        self.assertRegex(driver["semanticVersion"], r"^\d+\.\d+\.\d+")
        rules = [rule["id"] for rule in driver["rules"]]
        self.assertEqual(len(rules), len(set(rules)))
        for rule in driver["rules"]:
            self.assertTrue(rule["shortDescription"]["text"].endswith("."), rule)
        for result in log["runs"][0]["results"]:
            self.assertIn(result["ruleId"], rules)
            self.assertIn(result["level"], LEVELS)
            self.assertTrue(result["message"]["text"])
            for location in result["locations"]:
                uri = location["physicalLocation"]["artifactLocation"]["uri"]
                self.assertRegex(uri, f"^{URI.pattern}$")
        return log["runs"][0]["results"]

    @staticmethod
    def place(result):
        return unquote(urlsplit(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]).path)

    def test_sarif_has_a_result_for_each_problem_at_its_file(self):
        self.write("models/a.safetensors.sha256", f"{'0' * 64}  a.safetensors\n".encode())
        results = self.sarif(self.path("models"), status=7)
        self.assertEqual({(self.place(result), result["ruleId"]) for result in results},
                         {(self.whole, "mismatch"), (self.cut, "damaged")})
        relative = self.sarif("models", status=7, cwd=self.tmp)
        self.assertEqual({result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in relative},
                         {"models/a.safetensors", "models/cut%20model.safetensors"})

    def test_whole_models_have_no_results(self):
        self.assertEqual(self.sarif(self.whole, self.other, status=0), [])

    def test_source_that_cannot_be_opened_is_a_result(self):
        result, = self.sarif(self.path("no.bin"), status=3)
        self.assertEqual((result["ruleId"], self.place(result)), ("not-found", self.path("no.bin")))

    def test_code_is_a_result_of_its_own_rule(self):
        dangerous = self.write("evil.pkl", b"cos\nsystem\n(S'true'\ntR.")
        result, = self.sarif("--safe", dangerous, status=4)
        self.assertEqual((result["ruleId"], self.place(result)), ("runs-code", dangerous))
        self.assertIn("os.system", result["message"]["text"])
        done = self.verify("--safe", dangerous, self.whole, status=4)
        self.assertEqual(done.stdout.splitlines()[-1], "2 models: 2 whole; 1 RUNS CODE")

    def test_whole_model_that_runs_code_has_it_in_each_form(self):
        dangerous = self.write("evil.pkl", b"cos\nsystem\n(S'true'\ntR.")
        lines = self.verify(dangerous, self.whole, status=0).stdout.splitlines()
        self.assertTrue(lines[0].startswith(f"{dangerous}: WHOLE, RUNS CODE (os.system when the file is unpickled): "), lines)
        self.assertEqual(lines[-1], "2 models: 2 whole; 1 RUNS CODE")
        document = json.loads(self.verify("--json", dangerous, self.whole, status=0).stdout)
        self.assertEqual([[item["what"] for item in model["code"]] for model in document["models"]], [["os.system"], []])
        self.assertEqual((document["models"][0]["state"], document["run_code"]), ("whole", 1))
        result, = self.sarif(dangerous, self.whole, status=0)
        self.assertEqual((result["ruleId"], result["level"], self.place(result)), ("runs-code", "warning", dangerous))

    def test_code_in_an_archive_is_one_result(self):
        path = self.path("outer.zip")
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("inner/evil.pkl", b"cos\nsystem\n(S'true'\ntR.")
        result, = self.sarif("--safe", path, status=4)
        self.assertEqual((result["ruleId"], result["level"], self.place(result)), ("runs-code", "error", path))
        self.assertEqual(result["message"]["text"], f"{path}: inner/evil.pkl: names os.system, which can run code")
        result, = self.sarif(path, status=0)
        self.assertEqual((result["level"], self.place(result)), ("warning", f"{path}/nested/inner/evil.pkl"))

    def test_shard_of_a_directory_is_the_place_of_its_problem(self):
        self.write("repo/config.json", b'{"model_type": "llama"}')
        self.sample("repo/model.safetensors")
        self.write("repo/SHA256SUMS", f"{'0' * 64}  model.safetensors\n".encode())
        result, = self.sarif(self.path("repo"), status=7)
        self.assertEqual(self.place(result), self.path("repo/model.safetensors"))

    def test_forms_that_exclude_each_other_are_refused(self):
        for argv in (["--json", "--sarif", self.whole], ["--json", "--tree", self.path("list"), self.whole],
                     ["--tree", self.path("list"), self.whole, self.other]):
            done = self.verify(*argv, status=2)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1))
        self.assertFalse(os.path.exists(self.path("list")))


if __name__ == "__main__":
    unittest.main()
