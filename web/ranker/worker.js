// Is told of a model and what is asked of it, then of a list in portions; says the rows of each, or null if it cannot.
import start, { Ranker } from "./ranker.js";

const cannot = () => postMessage(null);
const started = start({ module_or_path: new URL("ranker_bg.wasm", import.meta.url) });
// Said at once: the page may say so before there is a list.
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
