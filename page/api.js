// Requests to the server: JSON, bytes, streams of progress, and files of the tree. docs/api.md is the contract.

const kRoot = "/.weightfs/api/v1/";

const kUnreachable =
  "The server has ended or cannot be reached. Start it again (weightfs open MODEL) and open the address that it prints.";

// A failed request. `status` is that of HTTP, or 0 without a connection; `message` is a sentence for people.
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.name = "ApiError";
    this.status = status;
  }
}

// Whether a request ended because its caller aborted it, which is not reported.
export const isAborted = (error) => error?.name === "AbortError";

const token = new URLSearchParams(location.hash.slice(1)).get("token");

// Whether the server wants a token: plain links to files of the tree do not work then, see readFile().
export const hasToken = token !== null;

const changeListeners = new Set();

// Calls `listener` when a request fails because the model has another version now (409). Returns what ends that.
export function onModelChange(listener) {
  changeListeners.add(listener);
  return () => changeListeners.delete(listener);
}

function fail(status, message) {
  if (status === 409) for (const listener of changeListeners) listener();
  throw new ApiError(status, message);
}

// The sentence of an error response, which is JSON below the API and text in the tree.
async function sentenceOf(response) {
  const text = (await response.text().catch(() => "")).slice(0, 4096);
  try {
    const { error } = JSON.parse(text);
    if (typeof error === "string") return error;
  } catch {
    // Not JSON: a text, or a page of a proxy.
  }
  if (response.status === 401) return "The server needs a token. Open the address that it printed, with #token=… at its end.";
  const isText = (response.headers.get("Content-Type") ?? "").startsWith("text/plain");
  return (isText && text.trim()) || `The server reported status ${response.status}.`;
}

async function request(href, { signal, headers = {} } = {}) {
  const fields = token === null ? headers : { ...headers, Authorization: `Bearer ${token}` };
  let response;
  try {
    response = await fetch(href, { signal, headers: fields });
  } catch (error) {
    if (isAborted(error)) throw error;
    throw new ApiError(0, kUnreachable);
  }
  if (!response.ok) fail(response.status, await sentenceOf(response));
  return response;
}

// Reads a body by `read`; a connection that ends in the middle is reported like one that does not begin.
async function bodyOf(response, read) {
  try {
    return await read(response);
  } catch (error) {
    if (isAborted(error)) throw error;
    if (error instanceof SyntaxError) throw new ApiError(502, "The response of the server is not valid JSON.");
    throw new ApiError(0, kUnreachable);
  }
}

// The address of a request of the API. Parameters that are null, undefined or empty are left out.
export function apiHref(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") query.append(name, value);
  }
  const text = query.toString();
  return kRoot + path + (text && `?${text}`);
}

// The object of a response. Rejects with an ApiError, or with an AbortError when `signal` aborts.
export async function getJson(path, parameters, signal) {
  const response = await request(apiHref(path, parameters), { signal });
  return bodyOf(response, (body) => body.json());
}

// The bytes of a response, and the object of its field Weightfs-Grid (null without one).
export async function getBytes(path, parameters, signal) {
  const response = await request(apiHref(path, parameters), { signal });
  const field = response.headers.get("Weightfs-Grid");
  const grid = field === null ? null : await bodyOf(response, () => JSON.parse(field));
  return { bytes: new Uint8Array(await bodyOf(response, (body) => body.arrayBuffer())), grid };
}

// The address of a file below a model of the tree.
export function fileHref(model, path) {
  const parts = `${model ?? ""}/${path}`.split("/").filter((part) => part !== "");
  return `/${parts.map(encodeURIComponent).join("/")}`;
}

// The bytes [from, to) of a file of the tree, or all of it, and the size of the file.
export async function readFile(href, { signal, from, to } = {}) {
  const isPart = from !== undefined && to !== undefined;
  const headers = isPart ? { Range: `bytes=${from}-${to - 1}` } : {};
  let response;
  try {
    response = await request(href, { signal, headers });
  } catch (error) {
    // 416: an empty file has no range at all, and `from` may be its end.
    if (isPart && error.status === 416) return { bytes: new Uint8Array(0), total: from };
    throw error;
  }
  const bytes = new Uint8Array(await bodyOf(response, (body) => body.arrayBuffer()));
  if (response.status !== 206) return { bytes: isPart ? bytes.subarray(from, to) : bytes, total: bytes.length };
  const total = Number((response.headers.get("Content-Range") ?? "").split("/")[1]);
  return { bytes, total: Number.isFinite(total) ? total : from + bytes.length };
}

// The text of a file of the tree, or of its bytes [from, to).
export async function getText(href, options) {
  return new TextDecoder().decode((await readFile(href, options)).bytes);
}

// Calls `onEvent(name, object)` for each server-sent event of a body, until it returns true.
async function readEvents(response, onEvent) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      const fieldsOf = (name) =>
        lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).trimStart());
      const text = fieldsOf("data").join("\n");
      if (!text || !onEvent(fieldsOf("event")[0] ?? "message", JSON.parse(text))) continue;
      await reader.cancel();
      return;
    }
  }
}

// The result of a long computation; `onProgress({done, total, what})` is called while it runs. The token is sent as a field, which
// EventSource cannot do. Aborting `signal` ends the computation.
export async function stream(path, parameters, { signal, onProgress } = {}) {
  const response = await request(apiHref(path, parameters), { signal, headers: { Accept: "text/event-stream" } });
  const isStream = (response.headers.get("Content-Type") ?? "").startsWith("text/event-stream");
  if (!isStream) return bodyOf(response, (body) => body.json());
  let result;
  let failure;
  await bodyOf(response, (body) =>
    readEvents(body, (name, object) => {
      if (name === "progress") onProgress?.(object);
      if (name === "result") result = object;
      if (name === "failure") failure = object;
      return name === "result" || name === "failure";
    }),
  );
  if (failure) fail(failure.status, failure.error);
  if (result === undefined) throw new ApiError(0, kUnreachable);
  return result;
}
