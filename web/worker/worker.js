// Gets a file, and posts its contents or why the server would refuse it. Or gets a model with its settings, then the
// portions of a list, and posts the rows of each portion. Or gets a question about served models, with the file of the model
// that predicts if that is a new one, and posts the answer. All is JSON. Posts null if it fails.
import start, { check, Ranker, Served } from "./program.js";

const fail = () => postMessage(null);
const started = start({ module_or_path: new URL("program_bg.wasm", import.meta.url) });
// A failed start is posted at once, so that the page can report it before there is a list.
started.catch(fail);

let ranker, served;
onmessage = async ({ data }) => {
  try {
    await started;
    if (data instanceof Blob) postMessage(check(new Uint8Array(await data.arrayBuffer())));
    else if (typeof data === "string") postMessage(ranker.rank(data));
    else if (typeof data[0] === "string") {
      served ??= new Served();
      if (data[1]) served.take(data[1]);
      postMessage(served.answer(data[0]));
    } else ranker = new Ranker(...data);
  } catch {
    fail();
  }
};
