// Runs before the first paint: applies the stored theme, then starts the app.
// The app is imported dynamically so that the theme does not wait for it.
try {
  const theme = localStorage.getItem("diode-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be forbidden; the system's theme stands.
}

import("{{APP_JS}}")
  .then((app) => app.default({ module_or_path: "{{APP_WASM}}" }))
  .catch((error) => {
    const message = document.createElement("p");
    message.className = "boot-error";
    message.textContent = `The dashboard could not start: ${error}. It needs a browser with WebAssembly SIMD, of 2023 or newer.`;
    document.body.append(message);
  });
