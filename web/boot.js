// Requests what the page needs next, then starts the app.

// The server has put a header and a heading into the page. They stay until the app's page takes their place.
const early = document.getElementById("early");
if (early) {
  new MutationObserver((_, observer) => {
    if (!document.querySelector("main")) return;
    early.remove();
    observer.disconnect();
  }).observe(document.body, { childList: true, subtree: true });
}

const [, part, name] = location.pathname.split("/");

// All pages but the overview are in later pieces of the app. The piece of Predict is fetched behind the overview, too,
// because most readers go there next.
const pieces = { boards: "{{PIECE boards}}", pages: "{{PIECE pages}}", predict: "{{PIECE predict}}", tools: "{{PIECE tools}}" };
const pieceOf = { hardware: "boards", problems: "boards", predict: name === "list" ? "tools" : "predict" };
for (const page of ["models", "datasets", "compare"]) pieceOf[page] = "pages";
for (const page of ["contribute", "uploads", "workloads"]) pieceOf[page] = "tools";
const fetchPiece = (rel, piece) =>
  pieces[piece].forEach((href) => {
    document.head.append(Object.assign(document.createElement("link"), { rel, as: "fetch", crossOrigin: "anonymous", href }));
  });
if (pieceOf[part]) fetchPiece("preload", pieceOf[part]);
else if (part === "") addEventListener("load", () => fetchPiece("prefetch", "predict"));

// The program that pages run in workers (`web/src/worker.rs`).
window.worker = "{{WORKER}}";

// The app starts late, so its first requests are sent here. The app takes each answer from here once
// (`web/src/api.rs`), if the address is exactly the one that it would request.
const ahead = (window.ahead = {});
const ask = (path) => {
  const answer = fetch(`/api/v1${path}`);
  // The app reports a failure. Without this handler, the browser would report it, too.
  answer.catch(() => {});
  ahead[`/api/v1${path}`] = answer;
};
const asked = new URLSearchParams(location.search);
const given = ["hardware", "method"].filter((key) => asked.get(key)).map((key) => `${key}=${encodeURIComponent(asked.get(key))}`);
if (part === "") ["/hardware", "/models"].forEach(ask);
if (part === "hardware") ask(`/hardware/${name}`);
if (part === "problems") [`/problems/${name}${given.length ? "?" : ""}${given.join("&")}`, "/models"].forEach(ask);
if (part === "predict" || part === "workloads") ask("/models?model_type=ranking");
// After ten seconds an answer is too old for the app.
setTimeout(() => Object.keys(ahead).forEach((path) => delete ahead[path]), 10_000);

// One popover holds the explanation of the text that was pressed last (`web/src/components/figures.rs`). It is filled
// before the browser shows it beside that text.
const explanation = document.createElement("div");
Object.assign(explanation, { id: "explanation", className: "explanation", popover: "auto" });
let explained;
const explain = ({ target }) => {
  const text = target.closest(".why");
  if (!text) return;
  const page = text.closest("main");
  if (explanation.parentNode !== page) page.append(explanation);
  // Otherwise the browser would close the explanation of the last text, and show no other.
  if (text !== explained && explanation.matches(":popover-open")) explanation.hidePopover();
  explanation.textContent = text.title;
  explained = text;
};
document.addEventListener("click", explain, true);

import("{{APP_JS}}")
  .then((app) => app.default({ module_or_path: "{{APP_WASM}}" }))
  .catch((error) => {
    early?.remove();
    const message = document.createElement("p");
    message.className = "boot-error";
    message.textContent = `The dashboard could not start: ${error}. It needs a browser with WebAssembly SIMD, of 2023 or newer.`;
    document.body.append(message);
  });
