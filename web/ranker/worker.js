// Gets a model with its settings, then the portions of a list. Posts the rows of each portion, or null if it fails.
import start, { Ranker } from "./ranker.js";

const cannot = () => postMessage(null);
const started = start({ module_or_path: new URL("ranker_bg.wasm", import.meta.url) });
// A failed start is posted at once, so that the page can report it before there is a list.
started.catch(cannot);

let ranker;
onmessage = async ({ data }) => {
  try {
    await started;
    if (typeof data === "string") postMessage(ranker.rank(data));
    else ranker = new Ranker(...data);
  } catch {
    cannot();
  }
};
