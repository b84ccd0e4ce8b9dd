"""llama.cpp as a reader of GGUF files, and the tokenizers of Hugging Face: packages of npm."""
import json
import platform
import tempfile

import npm_packages

VERSION = "3.22.1"  # of node-llama-cpp: llama.cpp v0.5.0
MACHINES = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}  # packages with the program for the processor
TOKENIZERS = "@huggingface/tokenizers@0.2.0"
LIMIT_S = 600

# Prints a line of JSON for each job of the file that it is given. `logits`: after each token, for the whole vocabulary.
SCRIPT = """
import { readFileSync } from "node:fs";
import { Tokenizer } from "@huggingface/tokenizers";
import { getLlama, LlamaLogLevel, resolveModelFile } from "node-llama-cpp";

const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.error });
const PLAIN = { threads: 1, flashAttention: false, experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32" };

function byToken(logits) {
  return [...logits].sort(([a], [b]) => a - b).map(([, logit]) => logit);
}

async function evaluate(model, { tokens, generate = 0, contextSize = 64 }) {
  const context = await model.createContext({ ...PLAIN, contextSize });
  const sequence = context.getSequence();
  const after = async (some) => {
    const results = await sequence.controlledEvaluate(some.map((token) => [token, { generateNext: { logits: true } }]));
    return results.map(({ next }) => next.logits);
  };
  const all = await after(tokens);
  const generated = [];
  for (let last = all.at(-1); generated.length < generate; [last] = await after(generated.slice(-1))) {
    generated.push(last.keys().next().value);
  }
  await context.dispose();
  return { logits: all.map(byToken), generated };
}

async function embedding(model, text) {
  const context = await model.createEmbeddingContext({ threads: 1 });
  const { vector } = await context.getEmbeddingFor(text);
  await context.dispose();
  return { embedding: vector };
}

const work = {
  ids: ({ folder, texts }) => {
    const read = (name) => JSON.parse(readFileSync(`${folder}/${name}`));
    const tokenizer = new Tokenizer(read("tokenizer.json"), read("tokenizer_config.json"));
    return { ids: texts.map((text) => tokenizer.encode(text, { add_special_tokens: false }).ids) };
  },
  download: async ({ url, directory, endpoint }) => {
    const endpoints = endpoint && { huggingFace: endpoint };
    return { path: await resolveModelFile(url, { directory, cli: false, endpoints }) };
  },
  load: async (job) => {
    const model = await llama.loadModel({ modelPath: job.path, gpuLayers: 0, useMmap: job.mmap ?? true });
    const result = job.texts ? { ids: job.texts.map((text) => model.tokenize(text, true)) } : {};
    if (job.tokens) Object.assign(result, await evaluate(model, job));
    if (job.embed) Object.assign(result, await embedding(model, job.embed));
    await model.dispose();
    return result;
  },
};
// The sizes of buffers that it logs, in MiB, by their names. Those of weights overlap: they are mapped, and repacked.
work.memory = async ({ path, context }) => {
  const sizes = {};
  llama.logger = (_, text) => {
    for (const [, name, size] of text.matchAll(/CPU +(KV|RS|output|compute) buffer size = +([\\d.]+) MiB/g)) {
      sizes[name] = (sizes[name] ?? 0) + Number(size);
    }
  };
  llama.logLevel = LlamaLogLevel.debug;
  const model = await llama.loadModel({ modelPath: path, gpuLayers: 0, ignoreMemorySafetyChecks: true });
  const created = await model.createContext({ threads: 1, flashAttention: true, ignoreMemorySafetyChecks: true, ...context });
  await new Promise((resolve) => setTimeout(resolve, 500)); // the lines arrive later
  await created.dispose();
  await model.dispose();
  llama.logLevel = LlamaLogLevel.error;
  return { sizes };
};
for (const job of JSON.parse(readFileSync(process.argv[2]))) {
  const result = await Promise.resolve(job).then(work[job.work]).catch((error) => ({ error: String(error) }));
  console.log(JSON.stringify(result));
}
await llama.dispose();
"""


def folder_for(test):
    """The directory of the packages; skips the test, with one printed line, where they cannot be installed."""
    program = MACHINES.get(platform.machine())
    folder = program and npm_packages.folder_with(f"node-llama-cpp@{VERSION}", f"@node-llama-cpp/{program}@{VERSION}", TOKENIZERS)
    if folder:
        return folder
    if not program:
        print(f"no llama.cpp of npm for {platform.machine()}")
    return test.skipTest("no llama.cpp")


def load(path, **job):
    """A job that loads a GGUF. `mmap` (default: true); `texts`: to tokenize; `tokens`: to evaluate, then `generate` more, the most
    likely ones; `contextSize`; `embed`: a text of which an embedding is made."""
    return {"work": "load", "path": path, **job}


def ids(folder, texts):
    """A job that tokenizes with the tokenizer.json of a repository."""
    return {"work": "ids", "folder": folder, "texts": texts}


def download(url, directory, endpoint=None):
    """A job that downloads a file in several ranges, as node-llama-cpp does. `url` may be hf:ORG/NAME/FILE, with the endpoint of a
    Hub."""
    return {"work": "download", "url": url, "directory": directory, "endpoint": endpoint}


def memory(path, **context):
    """A job that loads a GGUF with this context, and returns the sizes of the buffers that llama.cpp logs, in MiB."""
    return {"work": "memory", "path": path, "context": context}


def run(test, jobs):
    """The results of jobs in one process of llama.cpp. A result with "error" has failed; a job that ends the process fails the
    test."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(jobs, file)
        file.flush()
        done = npm_packages.run_module(folder_for(test), SCRIPT, file.name, timeout=LIMIT_S)
    for cause in ("Invalid regular expression flags", "NoBinaryFound"):
        if cause in done.stderr:
            print(f"llama.cpp does not run with this Node.js or machine: {cause}")
            test.skipTest("no llama.cpp")
    results = [json.loads(line) for line in done.stdout.splitlines()]
    test.assertEqual(done.returncode, 0, f"{done.stderr[-2000:]} after {len(results)} of {len(jobs)} jobs")
    return results
