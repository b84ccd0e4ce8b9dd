"""The memory that weightfs computes, beside what llama.cpp logs when it loads the same GGUF (docs/summary.md, section 8)."""
import json

from mounting import TestCase, run

import hollow_ggufs
import llama_cpp

MIB = 2**20
# Name, how it is written, context, batch that llama.cpp has, type of the cache.
MODELS = (
    ("llama", dict(layers=4, hidden=2048, width=8192, heads=32, groups=8, vocabulary=32000), 4096, 512, "f16"),
    ("llama", dict(layers=4, hidden=2048, width=8192, heads=32, groups=8, vocabulary=32000), 8192, 512, "q8_0"),
    ("llama", dict(layers=4, hidden=2048, width=5632, heads=32, groups=4, vocabulary=64000), 2000, 256, "q4_0"),
    ("gemma", dict(layers=7), 4096, 513, "f16"),  # node-llama-cpp adds a token to the batch of a model with windows
    ("gemma", dict(layers=7), 16384, 513, "f16"),
    ("mamba", dict(layers=4), 4096, 512, "f16"),
)
NEAR = 0.15  # of the compute buffer, which is an estimate


class Sizes(TestCase):

    def test_cache_is_that_of_the_log_and_buffers_are_near(self):
        jobs = []
        for number, (kind, shape, context, batch, kv_type) in enumerate(MODELS):
            path = self.path(f"{number}.gguf")
            getattr(hollow_ggufs, f"write_{kind}")(path, **shape)
            types = {f"experimentalKvCache{name}Type": kv_type.upper() for name in ("Key", "Value")} if kv_type != "f16" else {}
            jobs.append(llama_cpp.memory(path, contextSize=context, batchSize=batch // 256 * 256, **types))
        results = llama_cpp.run(self, jobs)
        self.assertEqual(len(results), len(MODELS))
        for number, (job, result) in enumerate(zip(MODELS, results)):
            with self.subTest(job):
                sizes = result["sizes"]
                _, _, context, batch, kv_type = job
                text = run("info", "--json", self.path(f"{number}.gguf"), "--ctx", str(context), "--batch", str(batch), "--kv-type",
                           kv_type, "--gpu-layers", "0").stdout
                memory = json.loads(text)["memory"]["host"]
                kept = sizes.get("KV", 0) + sizes.get("RS", 0)
                self.assertAlmostEqual(memory["kv_cache"] / MIB, kept, delta=0.02)
                compute = sizes["compute"] + sizes["output"]
                self.assertAlmostEqual(memory["compute"] / MIB, compute, delta=NEAR * compute)
