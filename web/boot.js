// Runs before the first paint: applies the stored theme, asks for what the page needs next, then starts the app.
// The app is imported dynamically so that the theme does not wait for it.
try {
  const theme = localStorage.getItem("diode-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be forbidden; the system's theme stands.
}

const [, part, name] = location.pathname.split("/");

// These pages are in the second piece of the app.
const second = ["hardware", "problems", "models", "datasets", "compare", "contribute"];
if (second.includes(part) || name === "list") {
  const link = document.createElement("link");
  document.head.append(Object.assign(link, { rel: "preload", as: "fetch", crossOrigin: "anonymous", href: "{{SECOND_WASM}}" }));
}

// What pages run in workers (`web/src/worker.rs`).
window.workers = { checker: "{{CHECKER}}", ranker: "{{RANKER}}" };

// The app asks for these only once it runs, which is late. It takes the answers from here (`web/src/api.rs`), each once,
// if their addresses are its own to the letter.
const ahead = (window.ahead = {});
const ask = (path) => {
  const answer = fetch(`/api/v1${path}`);
  // The app says what went wrong.
  answer.catch(() => {});
  ahead[`/api/v1${path}`] = answer;
  return answer;
};
// Both the app and this read the answer.
const read = async (path) => (await ask(path)).clone().json();
const asked = new URLSearchParams(location.search);
const address = (path, values) => {
  const given = Object.entries(values).filter(([, value]) => value);
  return `${path}${given.length ? "?" : ""}${given.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&")}`;
};
const given = (...keys) => Object.fromEntries(keys.map((key) => [key, asked.get(key)]));
// By the rules of `default_method` and of `best_for`.
const points = async () => {
  const { method, methods } = await read(`/hardware/${name}`);
  const filters = given("op", "dtype", "b_layout", "method", "min_m", "max_m", "min_n", "max_n", "min_k", "max_k");
  if (methods.length > 1) filters.method ||= method;
  ask(address(`/hardware/${name}/problems`, filters));
};
const model = async () => {
  const isShown = (one) => one.hardware === asked.get("hardware") && one.state === "published";
  const shown = (await read("/models")).find(isShown);
  if (shown) ask(`/models/${shown.id}/download`);
};
const nothing = () => {};
if (part === "") ["/hardware", "/models"].forEach(ask);
if (part === "hardware") points().catch(nothing);
if (part === "problems") ask(address(`/problems/${name}`, given("hardware", "method")));
if (part === "problems" || part === "predict") model().catch(nothing);
// What the app has not taken by then would be too old for it later.
setTimeout(() => Object.keys(ahead).forEach((path) => delete ahead[path]), 10_000);

import("{{APP_JS}}")
  .then((app) => app.default({ module_or_path: "{{APP_WASM}}" }))
  .catch((error) => {
    const message = document.createElement("p");
    message.className = "boot-error";
    message.textContent = `The dashboard could not start: ${error}. It needs a browser with WebAssembly SIMD, of 2023 or newer.`;
    document.body.append(message);
  });
