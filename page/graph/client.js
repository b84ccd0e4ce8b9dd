// The graph of a model on the page's side: it loads graph.json, and asks the worker.

import { fileHref, getJson, getText, isAborted, readFile } from "../api.js";

const kMostBytes = 64 * 1024 * 1024; // of graph.json
const kMostMetadata = 1024 * 1024;

// The inputs of an ONNX model that have no tensor; old models list their tensors as inputs, too. Null if they are unknown: then all
// are drawn.
async function inputNamesOf(model, signal) {
  if (!/onnx/i.test(model.format)) return null;
  try {
    const text = await getText(fileHref(model.path, "metadata.json"), { signal, from: 0, to: kMostMetadata });
    return JSON.parse(text).metadata.inputs.map((input) => input.name);
  } catch (error) {
    if (isAborted(error)) throw error;
    return null; // metadata.json is longer than kMostMetadata, or without inputs
  }
}

const kTensorsAtOnce = 1000;
const kMostTensors = 10_000;

// The types and shapes of tensors by name, [name, dtype, shape], for graphs that have only their names; at most kMostTensors.
async function tensorsOf(model, signal) {
  const all = [];
  if (!/onnx|tensorflow/i.test(model.format)) return all;
  try {
    for (let offset = 0, total = 1; offset < Math.min(total, kMostTensors); offset += kTensorsAtOnce) {
      const page = await getJson("tensors", { model: model.path, v: model.v, offset, limit: kTensorsAtOnce }, signal);
      total = page.total;
      all.push(...page.tensors.map(({ name, dtype, shape }) => [name, dtype, shape]));
    }
  } catch (error) {
    if (isAborted(error)) throw error; // without shapes the graph is drawn as well
  }
  return all;
}

// A worker with the graphs of one model. close() ends it, and with it all requests.
export class GraphClient {
  #worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  #waiting = new Map(); // id → {resolve, reject}
  #last = 0;

  constructor() {
    this.#worker.onmessage = ({ data: { id, result, error } }) => {
      const { resolve, reject } = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error === undefined) resolve(result);
      else reject(new Error(error));
    };
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#fail(new Error("The graph could not be read: its worker failed."));
    };
  }

  #fail(error) {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  #ask(request, parameters, transfer = []) {
    return new Promise((resolve, reject) => {
      this.#waiting.set(++this.#last, { resolve, reject });
      this.#worker.postMessage({ id: this.#last, request, parameters }, transfer);
    });
  }

  // The graphs of a model: [{title, operators}].
  async load(model, signal) {
    const [file, inputNames, tensors] = await Promise.all([
      readFile(fileHref(model.path, "graph.json"), { signal, from: 0, to: kMostBytes }),
      inputNamesOf(model, signal),
      tensorsOf(model, signal),
    ]);
    if (file.total > kMostBytes) {
      throw new Error("The graph is too large to be drawn: graph.json has more than 64 MiB. The file lists all nodes.");
    }
    const bytes =
      file.bytes.byteOffset === 0 && file.bytes.byteLength === file.bytes.buffer.byteLength ? file.bytes : file.bytes.slice();
    return this.#ask("read", { bytes, inputNames, tensors }, [bytes.buffer]);
  }

  // The layout of a group, or of the group of a node: see kRequests of the worker.
  layOut(graph, group, node) {
    return this.#ask("layOut", { graph, group, node });
  }

  details(graph, node) {
    return this.#ask("details", { graph, node });
  }

  find(graph, text) {
    return this.#ask("find", { graph, text });
  }

  // All graphs in the form of Model Explorer, as a Blob.
  modelExplorerFile(label) {
    return this.#ask("modelExplorerFile", { label });
  }

  close() {
    this.#worker.terminate();
    const closed = new Error("closed");
    closed.name = "AbortError";
    this.#fail(closed);
  }
}
