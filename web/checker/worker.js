// Checks the file that it is told of, and says what is in it or why it would be refused; null if it cannot say.
import start, { check } from "{{CHECKER_JS}}";

const started = start({ module_or_path: "{{CHECKER_WASM}}" });
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
