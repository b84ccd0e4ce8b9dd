// Files that a person drops into the page, or chooses: the server asks for their bytes by a WebSocket, and the page answers from the
// disk of its own machine (docs/api.md). Nothing is sent that the server does not ask for.

import { formatCount } from "./format.js";

const kMaxFiles = 10_000;
const kMaxList = 4 << 20; // bytes of the list, as in the server
const kClosed = "The server has closed the connection. It may have ended, or too many files are open.";

// The entries of a directory, which come in pieces.
async function entriesIn(directory) {
  const reader = directory.createReader();
  const all = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return all;
    all.push(...some);
  }
}

async function addEntry(files, entry, path) {
  if (files.length >= kMaxFiles) throw new Error(`More than ${formatCount(kMaxFiles)} files were dropped.`);
  if (entry.isDirectory) {
    for (const below of await entriesIn(entry)) await addEntry(files, below, `${path}${entry.name}/`);
    return;
  }
  const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
  files.push({ file, path: path + entry.name });
}

// The files of a drop, with those in its directories.
export async function filesOf(entries) {
  const files = [];
  for (const entry of entries) await addEntry(files, entry, "");
  if (files.length === 0) throw new Error("No file was dropped.");
  return files;
}

// The files that were chosen in a dialog of the browser.
export const chosenFiles = (list) => [...list].map((file) => ({ file, path: file.name }));

// The number of the request in 4 bytes, little-endian, and the bytes.
async function answerOf({ read, file, offset, size }, files) {
  const bytes = new Uint8Array(await files[file].file.slice(offset, offset + size).arrayBuffer());
  const answer = new Uint8Array(4 + bytes.length);
  new DataView(answer.buffer).setUint32(0, read, true);
  answer.set(bytes, 4);
  return answer;
}

// Offers files to the server. The path of what they are in the tree, as long as this page is open.
export async function offerFiles(files, href) {
  const url = new URL(href, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  const list = files.map(({ file, path }) => ({ path, size: file.size, modified: file.lastModified }));
  const text = JSON.stringify({ files: list });
  if (new Blob([text]).size > kMaxList) throw new Error("The names of the files are too long.");
  const socket = new WebSocket(url);
  return new Promise((resolve, reject) => {
    let isOpened = false;
    // A page that the browser keeps for its button "back" would not answer.
    const end = () => socket.close();
    addEventListener("pagehide", end);
    const answer = async (request) => {
      try {
        socket.send(await answerOf(request, files));
      } catch (error) {
        socket.send(JSON.stringify({ failed: request.read, error: String(error?.message ?? error).slice(0, 500) }));
      }
    };
    socket.addEventListener("open", () => socket.send(text));
    socket.addEventListener("close", () => {
      removeEventListener("pagehide", end);
      reject(new Error(kClosed));
    });
    socket.addEventListener("message", (event) => {
      const message = JSON.parse(event.data);
      if (isOpened) {
        answer(message);
      } else if (message.path) {
        isOpened = true;
        resolve(message.path);
      } else {
        reject(new Error(message.error));
        socket.close();
      }
    });
  });
}
