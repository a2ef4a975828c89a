// Runs before the first paint: applies the stored theme, asks for what the page needs next, then starts the app.
// The app is imported dynamically so that the theme does not wait for it.
try {
  const theme = localStorage.getItem("diode-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be forbidden; the system's theme stands.
}

// The dashboard asks for these only once it runs, which is late. They must be its own addresses to the
// letter: it adds an `&` to each query.
const [, part, name] = location.pathname.split("/");
const asked = new URLSearchParams(location.search);
const given = ["hardware", "method"].filter((key) => asked.get(key));
const query = given.length ? `?${given.map((key) => `${key}=${encodeURIComponent(asked.get(key))}`).join("&")}&` : "";
const ahead = {
  hardware: name ? [`/api/v1/hardware/${name}`] : [],
  problems: name ? [`/api/v1/problems/${name}${query}`, "/api/v1/models"] : [],
}[part] ?? [];
// These pages are in the second piece of the app.
const second = ["hardware", "problems", "models", "datasets", "compare", "contribute"];
if (second.includes(part) || name === "list") ahead.unshift("{{SECOND_WASM}}");
for (const href of ahead) {
  const link = document.createElement("link");
  document.head.append(Object.assign(link, { rel: "preload", as: "fetch", crossOrigin: "anonymous", href }));
}

import("{{APP_JS}}")
  .then((app) => app.default({ module_or_path: "{{APP_WASM}}" }))
  .catch((error) => {
    const message = document.createElement("p");
    message.className = "boot-error";
    message.textContent = `The dashboard could not start: ${error}. It needs a browser with WebAssembly SIMD, of 2023 or newer.`;
    document.body.append(message);
  });
