// Runs before the first paint: applies the stored theme, requests what the page needs next, then starts the app. The
// dynamic import of the app keeps the theme from waiting for it.
try {
  const theme = localStorage.getItem("diode-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // A browser may forbid storage. Then the system's theme applies.
}

const [, part, name] = location.pathname.split("/");

// These pages need the second piece of the app.
const second = ["hardware", "problems", "models", "datasets", "compare", "contribute"];
if (second.includes(part) || name === "list") {
  const link = document.createElement("link");
  document.head.append(Object.assign(link, { rel: "preload", as: "fetch", crossOrigin: "anonymous", href: "{{SECOND_WASM}}" }));
}

// The programs that pages run in workers (`web/src/worker.rs`).
window.workers = { checker: "{{CHECKER}}", ranker: "{{RANKER}}" };

// The app starts late, so its first requests are sent here. The app takes each answer from here once
// (`web/src/api.rs`), if the address is exactly the one that it would request.
const ahead = (window.ahead = {});
const ask = (path) => {
  const answer = fetch(`/api/v1${path}`);
  // The app reports a failure. Without this handler, the browser would report it, too.
  answer.catch(() => {});
  ahead[`/api/v1${path}`] = answer;
  return answer;
};
// The app reads the answer, too, so this function reads a copy.
const read = async (path) => (await ask(path)).clone().json();
const asked = new URLSearchParams(location.search);
const address = (path, values) => {
  const given = Object.entries(values).filter(([, value]) => value);
  return `${path}${given.length ? "?" : ""}${given.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&")}`;
};
const given = (...keys) => Object.fromEntries(keys.map((key) => [key, asked.get(key)]));
// These requests follow the rules of `default_method` and `best_for` in the app. A model has learnt most problems, so the
// network that has not is asked for without knowing.
const points = async () => {
  const { method, methods } = await read(`/hardware/${name}`);
  const filters = given("op", "dtype", "b_layout", "method", "min_m", "max_m", "min_n", "max_n", "min_k", "max_k");
  if (methods.length > 1) filters.method ||= method;
  ask(address(`/hardware/${name}/problems`, filters));
};
const problem = part === "problems" && ask(address(`/problems/${name}`, given("hardware", "method")));
const model = async () => {
  const isShown = (one) => one.hardware === asked.get("hardware") && one.state === "published";
  const shown = (await read("/models")).find(isShown);
  if (!shown) return;
  ask(`/models/${shown.id}/download`);
  if (problem && shown.unseen_models && (await problem).ok) ask(`/models/${shown.id}/unseen/${name}`);
};
const nothing = () => {};
if (part === "") ["/hardware", "/models"].forEach(ask);
if (part === "hardware") points().catch(nothing);
if (part === "problems" || part === "predict") model().catch(nothing);
// After ten seconds an answer is too old for the app.
setTimeout(() => Object.keys(ahead).forEach((path) => delete ahead[path]), 10_000);

// One popover holds the explanation of the text that was pressed last (`web/src/components/explained.rs`). It is filled
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
    const message = document.createElement("p");
    message.className = "boot-error";
    message.textContent = `The dashboard could not start: ${error}. It needs a browser with WebAssembly SIMD, of 2023 or newer.`;
    document.body.append(message);
  });
