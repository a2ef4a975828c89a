// Checks a file. Posts its contents or why the server would refuse it, or null if only the server can tell.
import start, { check } from "./checker.js";

const started = start({ module_or_path: new URL("checker_bg.wasm", import.meta.url) });
// The failure is reported where `started` is awaited.
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
