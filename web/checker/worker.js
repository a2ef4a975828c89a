// Checks the file that it is told of, and says what is in it or why it would be refused; null if it cannot say.
import start, { check } from "./checker.js";

const started = start({ module_or_path: new URL("checker_bg.wasm", import.meta.url) });
// Told where it is awaited.
started.catch(() => {});

onmessage = async ({ data: file }) => {
  try {
    const bytes = new Uint8Array(await file.arrayBuffer());
    await started;
    postMessage(check(bytes));
  } catch {
    postMessage("null");
  }
};
