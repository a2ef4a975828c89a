//! Served models on the dashboard: what a pasted name, config or log leads to, and the files that the browser makes.
//! Set DIODE_SCREENSHOTS to an absolute path to keep pictures.

use std::fs;

use anyhow::{Context as _, ensure};
use diode_tests::{Browser, CATCH_FILES, LOOKS, Theme, Viewport, diode_command, seeded_server};
use serde_json::Value;

const LAYERS: &str = "[data-testid=layers] tbody tr";
const FILE: &str = "E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";

/// Sizes as Qwen3-30B-A3B has them.
const CONFIG: &str = r#"{"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
    "intermediate_size": 6144, "vocab_size": 151936, "decoder_sparse_step": 1, "torch_dtype": "bfloat16"}"#;

/// A log of vLLM: one file that a single model looks for, one that several do, and a line that no release prints.
fn log() -> String {
    let at = "WARNING [fused_moe.py:1166] Using default MoE config. Performance might be sub-optimal! Config file not found at /v";
    let shared = "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
    format!(
        "INFO Starting\n{at}/E=8,N=14336,device_name=NVIDIA_H200.json\n{at}/{shared}\nUsing default XYZ config. Performance might be sub-optimal!\n"
    )
}

/// Writes a text into the bar as a paste does.
fn paste(text: &str) -> String {
    format!(
        "const field = document.querySelector('.paste textarea');
         field.value = {};
         field.dispatchEvent(new InputEvent('input', {{ inputType: 'insertFromPaste', bubbles: true }}));",
        Value::from(text)
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_served_models_fit_and_are_accessible() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    let page = |path: &str| format!("{}{path}", server.url());
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&page("/workloads"), "[data-testid=workloads] tbody tr").await?;
        browser
            .until("return document.querySelectorAll('[data-testid=workloads] tbody tr').length >= 70")
            .await?;
        browser.sound(&format!("workloads-{look}")).await?;
        browser.picture(&format!("workloads-{look}")).await?;

        browser.script::<()>(&paste(&log())).await?;
        browser.wait_for("[data-testid=missing] tbody tr").await?;
        browser.until("return document.querySelector('[data-testid=save]')?.disabled === false").await?;
        browser.sound(&format!("workloads-log-{look}")).await?;
        browser.picture(&format!("workloads-log-{look}")).await?;

        let model = "/workloads/Qwen3-235B-A22B?tp=4&quantization=fp8-block&gpu=nvidia-h200&tokens=64";
        for (name, path) in [
            ("experts", model),
            ("dense", "/workloads/Llama-3.1-8B?for=inductor"),
            ("refused", "/workloads/Llama-3.1-8B?tp=7"),
        ] {
            let ready = if name == "refused" { ".failure" } else { LAYERS };
            browser.open(&page(path), ready).await?;
            browser.sound(&format!("workload-{name}-{look}")).await?;
            browser.picture(&format!("workload-{name}-{look}")).await?;
        }
        let said: String = browser.script("return document.querySelector('.failure').innerText").await?;
        ensure!(said.contains("got 32, expected a multiple of 7"), "{look}: {said}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_a_name_and_a_press_away_and_those_of_the_command() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    let tuned = tempfile::tempdir()?;
    let tune = |arguments: &[&str]| -> anyhow::Result<()> {
        let mut command = diode_command(tuned.path(), &["tune"])?;
        command.args(arguments).args(["--hardware", "nvidia-h200", "--force", "--out"]).arg(tuned.path());
        let run = command.output()?;
        ensure!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        Ok(())
    };
    for (viewport, theme) in [(Viewport::DESKTOP, Theme::Light), (Viewport::PHONE, Theme::Dark)] {
        browser.look(viewport, theme).await?;
        browser.open(server.url(), ".paste textarea").await?;
        // The name of a checkpoint leads to its model, in the form that the name says.
        browser.script::<()>(&paste("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8")).await?;
        browser.until("return location.pathname === '/workloads/Qwen3-235B-A22B'").await?;
        browser.wait_for(LAYERS).await?;
        browser.until("return location.search.includes('quantization=fp8-block')").await?;
        browser
            .press("[...document.querySelectorAll('.ways .chip')].find((one) => one.innerText === '4')")
            .await?;
        browser
            .until(&format!(
                "return document.querySelector('[data-testid=files]').innerText.includes('{FILE}')"
            ))
            .await?;
        browser.script::<()>(CATCH_FILES).await?;
        browser.press("document.querySelector('[data-testid=save]')").await?;
        browser.until(&format!("return window.files['{FILE}'] !== undefined")).await?;
        let made: String = browser.script(&format!("return window.files['{FILE}']")).await?;
        tune(&["Qwen3-235B-A22B", "--tp", "4", "--quantization", "fp8-block"])?;
        ensure!(made == fs::read_to_string(tuned.path().join(FILE))?, "{made}");
        let says: String = browser.script("return document.body.innerText").await?;
        for part in
            ["export VLLM_TUNED_CONFIG_FOLDER=", "diode tune Qwen3-235B-A22B --tp 4", "diode agent --server"]
        {
            ensure!(says.contains(part), "`{part}` is not in {says}");
        }
        // SGLang's two files are an archive with its folders.
        browser
            .press("[...document.querySelectorAll('.ways .chip')].find((one) => one.innerText === 'SGLang')")
            .await?;
        browser
            .until("return document.querySelector('[data-testid=files]').innerText.includes('_down.json')")
            .await?;
        browser.press("document.querySelector('[data-testid=save]')").await?;
        browser.until("return window.blobs_by_name['Qwen3-235B-A22B.zip'] !== undefined").await?;
        let bytes: Vec<u8> = browser
            .script("return window.blobs_by_name['Qwen3-235B-A22B.zip'].arrayBuffer().then((all) => [...new Uint8Array(all)])")
            .await?;
        tune(&["Qwen3-235B-A22B", "--tp", "4", "--quantization", "fp8-block", "--for", "sglang"])?;
        for name in
            [FILE.replace("128,128", "128, 128"), FILE.replace("128,128].json", "128, 128]_down.json")]
        {
            let path = format!("configs/triton_3_8_0/{name}");
            let file = fs::read(tuned.path().join(&path)).with_context(|| path.clone())?;
            for part in [path.as_bytes(), &file] {
                ensure!(bytes.windows(part.len()).any(|some| some == part), "{path} is not in the archive");
            }
        }
        browser.quiet("files").await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_a_dense_model_is_that_of_the_command() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    browser.open(&format!("{}/workloads/Llama-3.1-8B?tp=2", server.url()), "[data-testid=no-files]").await?;
    let why: String =
        browser.script("return document.querySelector('[data-testid=no-files]').innerText").await?;
    ensure!(why.contains("vLLM reads no files"), "{why}");
    browser
        .press(
            "[...document.querySelectorAll('.ways .chip')].find((one) => one.innerText === 'torch.compile')",
        )
        .await?;
    browser.script::<()>(CATCH_FILES).await?;
    browser.press("document.querySelector('[data-testid=save]')").await?;
    browser.until("return window.files['lookup.json'] !== undefined").await?;
    let made: String = browser.script("return window.files['lookup.json']").await?;
    let tuned = tempfile::tempdir()?;
    let asked =
        ["tune", "Llama-3.1-8B", "--tp", "2", "--for", "inductor", "--hardware", "nvidia-h200", "--out"];
    let mut command = diode_command(tuned.path(), &asked)?;
    ensure!(command.arg(tuned.path()).output()?.status.success());
    let expected: Value = serde_json::from_str(&fs::read_to_string(tuned.path().join("lookup.json"))?)?;
    ensure!(serde_json::from_str::<Value>(&made)? == expected);
    browser.quiet("table").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_says_which_files_are_missing_and_what_is_not_understood() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    for (viewport, theme) in [(Viewport::DESKTOP, Theme::Light), (Viewport::PHONE, Theme::Dark)] {
        browser.look(viewport, theme).await?;
        browser.open(server.url(), ".paste textarea").await?;
        browser.script::<()>(&paste(&log())).await?;
        browser.wait_for("[data-testid=missing]").await?;
        let said: String =
            browser.script("return document.querySelector('[data-testid=log]').innerText").await?;
        for part in [
            "2 files missing",
            "E=8,N=14336,device_name=NVIDIA_H200.json",
            "Mixtral-8x7B",
            "Qwen3-30B-A3B",
            "Using default XYZ config",
            "no release that we know",
        ] {
            ensure!(said.contains(part), "`{part}` is not in {said}");
        }
        let links = "return [...document.querySelectorAll('[data-testid=missing] a')].map((one) => one.getAttribute('href'))";
        let links: Vec<String> = browser.script(links).await?;
        let wanted = "/workloads/Qwen3-30B-A3B?tp=1&ep=1&quantization=fp8-block&for=vllm&gpu=nvidia-h200";
        ensure!(links.iter().any(|link| link == wanted), "{links:?}");
        // Until the reader says which model is served, only the first file can be made.
        browser.script::<()>(CATCH_FILES).await?;
        browser.press("document.querySelector('[data-testid=save]')").await?;
        browser
            .until("return Object.keys(window.files).includes('E=8,N=14336,device_name=NVIDIA_H200.json')")
            .await?;
        let saved: String =
            browser.script("return document.querySelector('[data-testid=saved]').innerText").await?;
        ensure!(saved.contains("Not made: E=128,N=768") && saved.contains("look for it"), "{saved}");
        // What is not understood is said, with what would be.
        for (text, parts) in [
            ("Qwen3-31B-A3B", ["No model is called", "Qwen3-30B-A3B"]),
            ("hello", ["No model is called `hello`", "its config.json, or a log of vLLM or SGLang"]),
            ("{\"model_type\": \"qwen3\"}", ["No config of a model", "hidden_size"]),
            ("{\"hidden_size\":", ["No config of a model", "not JSON"]),
        ] {
            browser.script::<()>(&paste(text)).await?;
            browser.until(&format!("return document.querySelector('[data-testid=not-understood]')?.innerText.includes({}) === true", Value::from(parts[0]))).await?;
            let said: String = browser
                .script("return document.querySelector('[data-testid=not-understood]').innerText")
                .await?;
            ensure!(said.contains(parts[1]), "{text}: {said}");
        }
        browser.sound("not-understood").await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pasted_config_is_a_table_at_once_and_without_a_request() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    browser.open(&format!("{}/workloads", server.url()), "[data-testid=workloads] tbody tr").await?;
    browser.until_still().await;
    // What the server knows of all models is asked for again after a minute.
    let requests = "return performance.getEntriesByType('resource')
        .filter((one) => !one.name.endsWith('/api/v1/workloads')).length";
    let before: u64 = browser.script(requests).await?;
    let mut took = Vec::new();
    for number in 1..=5 {
        // Each time another model, so that nothing is known yet.
        let config = CONFIG.replace("2048", &(2048 + 256 * number).to_string());
        let timed = format!(
            "const began = performance.now();
             const shown = new Promise((resolve) => {{
                 const look = () => document.querySelector('{LAYERS}') ? resolve(performance.now() - began) : setTimeout(look, 2);
                 look();
             }});
             {}
             return shown",
            paste(&config)
        );
        took.push(browser.script::<f64>(&timed).await?);
        let sizes: String =
            browser.script("return document.querySelector('[data-testid=layers]').innerText").await?;
        ensure!(sizes.contains(&format!("128 of 768×{}, top 8", 2048 + 256 * number)), "{sizes}");
        browser.press("document.querySelector('.crumbs a')").await?;
        browser.wait_for("[data-testid=workloads] tbody tr").await?;
    }
    ensure!(browser.script::<u64>(requests).await? == before, "a paste must not touch the network");
    took.sort_by(f64::total_cmp);
    println!("from paste to table: {took:.0?} ms");
    ensure!(took[0] <= 500.0, "from paste to table: {took:?} ms");

    // The files of a log take both launches of a layer at 18 batch sizes.
    let ask = format!(
        "const worker = new Worker(window.worker, {{ type: 'module' }});
         const model = new Uint8Array(await (await fetch('/api/v1/models/' + '{}' + '/download')).arrayBuffer());
         const log = {};
         const ask = (number, ...model) => new Promise((resolve) => {{
             worker.onmessage = ({{ data }}) => resolve(data);
             worker.postMessage([JSON.stringify({{ number, what: {{ Missing: [log, null] }} }}), ...model]);
         }});
         await ask(1, model);
         const times = [];
         for (let number = 2; number < 9; number += 1) {{
             const began = performance.now();
             await ask(number);
             times.push(performance.now() - began);
         }}
         worker.terminate();
         return Math.min(...times);",
        server.get("/api/v1/models?hardware=nvidia-h200&model_type=ranking")?[0]["id"].as_str().context("an id")?,
        Value::from(log().lines().nth(1).unwrap_or_default())
    );
    let both: f64 = browser.script(&format!("return (async () => {{ {ask} }})()")).await?;
    println!("two launches at 18 batch sizes: {both:.0} ms");
    ensure!(both <= 100.0, "two launches at 18 batch sizes: {both} ms");
    Ok(())
}

/// The share of a model's multiplications that is measured on a GPU, as the list shows it.
fn share(known: &Value, model: &str, at: usize) -> anyhow::Result<String> {
    let models = known["models"].as_array().context("models")?;
    let served = &models.iter().find(|one| one["name"] == model).context("the model")?["served"];
    let ways = served.as_array().context("ways")?;
    let measured: f64 = ways.iter().filter_map(|way| way["on"][at]["measured"].as_f64()).sum();
    let problems: f64 = ways.iter().filter_map(|way| way["problems"].as_f64()).sum();
    let percent = 100.0 * measured / problems;
    ensure!(percent > 0.995, "{model} has {percent} %, which has other digits");
    Ok(format!("{percent:.1} % measured"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_measured_is_counted_and_agents_are_asked_for_the_rest() -> anyhow::Result<()> {
    const PROGRESS: &str = "[data-testid=progress]";
    let (_folder, server) = seeded_server()?;
    let known = server.get("/api/v1/workloads")?;
    let row = "[...document.querySelectorAll('[data-testid=workloads] tbody tr')].find((row) => row.innerText.startsWith('Llama-3.1-8B'))";
    let browser = Browser::start().await?;
    for ((viewport, theme, look), tensor_parallel) in LOOKS.into_iter().zip([1, 2, 4, 8]) {
        browser.look(viewport, theme).await?;
        browser.open(&format!("{}/workloads", server.url()), "[data-testid=workloads] tbody tr").await?;
        // All pages are in the menu without scrolling it.
        browser.until("return document.querySelector('nav a[href=\"/contribute\"]') !== null").await?;
        let hidden: i64 = browser
            .script("const menu = document.querySelector('.nav'); return menu.scrollWidth - menu.clientWidth")
            .await?;
        ensure!(hidden <= 0, "{look}: {hidden} pixels of the menu are out of sight");
        browser.until(&format!("return {row}.innerText.includes('measured')")).await?;
        let cells: Vec<String> = browser
            .script(&format!("return [...{row}.querySelectorAll('td.num')].map((cell) => cell.innerText)"))
            .await?;
        let expected = [share(&known, "Llama-3.1-8B", 0)?, share(&known, "Llama-3.1-8B", 1)?];
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace(['\u{a0}', '\n'], " ")).collect();
        ensure!(cells == expected, "{look}: {cells:?}, expected {expected:?}");
        // The figures are in sight.
        let inside =
            "const box = document.querySelector('.shares'); return box.scrollWidth - box.clientWidth";
        ensure!(browser.script::<i64>(inside).await? <= 0, "{look}: the list is cut off");

        let way = format!("tp={tensor_parallel}&ep=1&quantization=bf16&consumer=vllm");
        let path = format!("/api/v1/workloads/Qwen3-30B-A3B/nvidia-h200?{way}");
        let before = server.get(&path)?;
        let page = "/workloads/Qwen3-30B-A3B?gpu=nvidia-h200&quantization=bf16";
        browser.open(&format!("{}{page}&tp={tensor_parallel}", server.url()), LAYERS).await?;
        let counted = format!(
            "return document.querySelector('{PROGRESS}').innerText.startsWith('{} of {} multiplications measured')",
            before["measured"], before["problems"]
        );
        browser.until(&counted).await?;
        for table in ["layers", "batches"] {
            let inside = format!(
                "const box = document.querySelector('[data-testid={table}]').closest('.table-box');
                 return box.scrollWidth - box.clientWidth"
            );
            ensure!(browser.script::<i64>(&inside).await? <= 0, "{look}: {table} is cut off");
        }
        browser.press("document.querySelector('[data-testid=ask]')").await?;
        browser.until("return document.body.innerText.includes('asked for now.')").await?;
        let after = server.get(&path)?;
        let (was, waits) = (before["waiting"].as_u64(), after["waiting"].as_u64());
        ensure!(waits > was, "{look}: {was:?} and then {waits:?} wait");
        let waits = format!("{} asked for", after["waiting"]);
        browser
            .until(&format!("return document.querySelector('{PROGRESS}').innerText.includes('{waits}')"))
            .await?;
        browser.sound(&format!("asked-{look}")).await?;
        // What was asked for is said of the way that is shown.
        browser
            .press("[...document.querySelectorAll('.ways .chip')].find((one) => one.innerText === 'SGLang')")
            .await?;
        browser.until("return !document.body.innerText.includes('asked for now.')").await?;
        browser.quiet(look).await?;
    }
    Ok(())
}
