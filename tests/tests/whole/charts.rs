//! Every chart of the dashboard has a table that names each of its marks, can be saved as SVG and as PNG, and can be
//! read by keyboard. Set DIODE_SCREENSHOTS to an absolute path to keep pictures.

use anyhow::{Context as _, ensure};
use diode_tests::{
    Browser, CATCH_FILES, LOOKS, Server, Theme, collect_on_cpu, diode, seeded_server, trained_on_server,
};
use serde_json::json;

struct Chart {
    name: &'static str,
    path: String,
    /// How the names of the chart's files end.
    file: &'static str,
    /// What must be pressed before the chart and its table are complete.
    opened_by: Option<&'static str>,
    /// The element around the chart and its buttons.
    place: &'static str,
    /// The rows of the table beside the chart.
    rows: &'static str,
    /// A script that returns how many marks the rows name.
    told: &'static str,
    /// The cells of a row whose text the chart says, too.
    cells: &'static [usize],
}

/// Each row names one mark.
const ONE_EACH: &str = "return rows.length";

fn of_measurements() -> [Chart; 3] {
    let of_configs = "/hardware/nvidia-h100?board=configs&op=mm&dtype=bfloat16&b_layout=row";
    [
        Chart {
            name: "problems of a hardware",
            path: "/hardware/nvidia-h100?op=addmm&dtype=float16".to_owned(),
            file: "nvidia-h100-share-of-the-roofline",
            opened_by: None,
            place: "[aria-label='Chart of the problems']",
            rows: "[aria-labelledby=board-title] tbody tr",
            told: ONE_EACH,
            cells: &[0, 3, 7],
        },
        Chart {
            name: "few configs",
            path: of_configs.to_owned(),
            file: "how-few-configs-are-enough",
            opened_by: None,
            place: ".columns-box",
            rows: "[aria-labelledby=board-title] tbody tr",
            told: ONE_EACH,
            cells: &[0, 3, 4],
        },
        Chart {
            name: "comparison",
            path: "/compare?what=hardware".to_owned(),
            file: "-comparison",
            opened_by: None,
            place: ".columns-box",
            rows: ".columns-box + details tbody tr",
            told: ONE_EACH,
            cells: &[0, 1],
        },
    ]
}

fn of_predictions(problem: &str, model: &str) -> [Chart; 4] {
    [
        Chart {
            name: "configs of a problem",
            path: format!("/problems/{problem}?hardware=nvidia-h100"),
            file: "measured-and-predicted-time",
            opened_by: Some("[aria-labelledby=configs-title] .table-foot button"),
            place: "[aria-label='Measured and predicted']",
            rows: "[aria-labelledby=configs-title] tbody tr[data-predicted-us]",
            told: ONE_EACH,
            cells: &[0, 2, 4],
        },
        Chart {
            name: "along a size",
            path: "/predict?hardware=nvidia-h100&op=mm&m=100&n=4096&k=4096&dtype=bfloat16".to_owned(),
            file: "-along-a-size",
            opened_by: Some("[data-testid=further] > summary"),
            place: "[data-testid=along]",
            rows: "[data-testid=along] tbody tr",
            // Each row names the mark of Triton, and the mark of the library if its time is known.
            told: "return rows.length + rows.filter((row) => row.cells[4].textContent !== '–').length",
            cells: &[0, 1],
        },
        Chart {
            name: "a judged model",
            path: format!("/models/{model}"),
            file: "predicted-and-measured",
            opened_by: Some("[data-testid=judged] summary"),
            place: "[data-testid=judged]",
            rows: "[data-testid=each-problem] tbody tr",
            told: ONE_EACH,
            cells: &[0, 1, 2],
        },
        // Nobody trained this model on the server: its file states the losses.
        Chart {
            name: "a released model's training",
            path: format!("/models/{model}"),
            file: "how-it-learnt",
            opened_by: None,
            place: "[data-testid=curves]",
            rows: "[data-testid=losses] tbody tr",
            told: ONE_EACH,
            cells: &[1, 2],
        },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn charts_of_measurements_have_tables_are_saved_and_are_read_by_keys() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    look_at(&server, &of_measurements()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn charts_of_predictions_have_tables_are_saved_and_are_read_by_keys() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let board = server.get("/api/v1/hardware/nvidia-h100/leaderboard?op=addmm&dtype=float16&limit=1")?;
    let models = server.get("/api/v1/models?hardware=nvidia-h100")?;
    let problem = board["items"][0]["problem_id"].as_str().context("a problem")?;
    let model = models[0]["id"].as_str().context("a model")?;
    look_at(&server, &of_predictions(problem, model)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_curves_of_a_training_have_a_table_are_saved_and_are_read_by_keys() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start(folder.path())?;
    collect_on_cpu(folder.path(), "cpu.msgpack.zst", 6, 160)?;
    diode(folder.path(), &["upload", "cpu.msgpack.zst", "--server", server.url()])?;
    let curves = Chart {
        name: "training",
        path: format!("/models/{}", trained_on_server(&server, 0)?),
        file: "how-it-learnt",
        opened_by: None,
        place: "[data-testid=curves]",
        rows: "[data-testid=losses] tbody tr",
        told: ONE_EACH,
        cells: &[0, 1, 2],
    };
    look_at(&server, &[curves]).await
}

async fn look_at(server: &Server, charts: &[Chart]) -> anyhow::Result<()> {
    let browser = Browser::start().await?;
    for chart in charts {
        for (turn, (viewport, theme, look)) in LOOKS.into_iter().enumerate() {
            let name = format!("{} {look}", chart.name);
            browser.look(viewport, theme).await?;
            // An open page follows the colours that the system prefers.
            if matches!(theme, Theme::Light) {
                chart.open(&browser, server).await.context(name.clone())?;
            }
            // Files and keys do not depend on the look.
            if turn == 0 {
                chart.saved(&browser).await.context(name.clone())?;
                chart.read_by_keys(&browser).await.context(name.clone())?;
            }
            browser.sound(&name).await?;
            browser.picture(&format!("charts-{}", name.replace(' ', "-"))).await?;
        }
    }
    Ok(())
}

impl Chart {
    /// A script in which `chart`, `said`, `press`, `marks` and `rows` are defined.
    fn script(&self, body: &str) -> String {
        let Self { place, rows, told, .. } = self;
        format!(
            "const place = document.querySelector(\"{place}\");
             const chart = place.querySelector('[aria-roledescription=chart]');
             const said = () => chart.querySelector('[aria-live]').textContent;
             const press = (key) => chart.dispatchEvent(new KeyboardEvent('keydown', {{ key, bubbles: true }}));
             const dots = [...chart.querySelectorAll('.marks, .dots')].map((path) => path.getAttribute('d').split('M').length - 1);
             const marks = chart.querySelectorAll('g').length + dots.reduce((sum, count) => sum + count, 0);
             const rows = [...document.querySelectorAll(\"{rows}\")];
             const told = () => {{ {told} }};
             {body}"
        )
    }

    async fn open(&self, browser: &Browser, server: &Server) -> anyhow::Result<()> {
        browser.open(&format!("{}{}", server.url(), self.path), "main").await?;
        if let Some(opener) = self.opened_by {
            browser.press(&format!("document.querySelector(\"{opener}\")")).await?;
        }
        let whole = browser.until(&self.script("return marks > 2 && marks === told()")).await;
        let counts: (u64, u64) = browser.script(&self.script("return [marks, told()]")).await?;
        whole.with_context(|| format!("{} marks, and the table speaks of {}", counts.0, counts.1))
    }

    async fn saved(&self, browser: &Browser) -> anyhow::Result<()> {
        browser.script::<()>(CATCH_FILES).await?;
        for kind in ["SVG", "PNG"] {
            let button = format!("{} [aria-label='Save the chart as {kind}']", self.place);
            browser.press(&format!("document.querySelector(\"{button}\")")).await?;
        }
        browser.until("return Object.keys(window.files).length === 2").await?;
        let (root, drawn, signature): (String, usize, Vec<u8>) = browser
            .script(
                "return (async () => {
                    const blob = (ending) => Object.entries(window.blobs_by_name).find(([name]) => name.endsWith(ending))[1];
                    const svg = new DOMParser().parseFromString(await blob('.svg').text(), 'image/svg+xml').documentElement;
                    const png = new Uint8Array(await blob('.png').arrayBuffer());
                    return [svg.namespaceURI + ' ' + svg.tagName, svg.querySelectorAll('path, rect').length, [...png.slice(0, 8)]];
                })()",
            )
            .await?;
        let names: Vec<String> = browser.script("return Object.keys(window.files)").await?;
        for ending in ["svg", "png"] {
            let end = format!("{}.{ending}", self.file);
            ensure!(names.iter().any(|name| name.ends_with(&end)), "none of {names:?} ends with {end}");
        }
        ensure!(root == "http://www.w3.org/2000/svg svg", "the SVG is {root}");
        ensure!(drawn > 3, "{drawn} are drawn in the SVG");
        ensure!(signature == b"\x89PNG\r\n\x1a\n", "the PNG begins with {signature:?}");
        Ok(())
    }

    async fn read_by_keys(&self, browser: &Browser) -> anyhow::Result<()> {
        const MOST_TABS: usize = 300;
        let is_reached = self.script("return document.activeElement === chart");
        let mut tabs = 0;
        while !browser.script::<bool>(&is_reached).await? {
            ensure!(tabs < MOST_TABS, "{MOST_TABS} tabs do not reach it");
            key(browser, "Tab", 9).await?;
            tabs += 1;
        }
        let label: String = browser.script(&self.script("return chart.getAttribute('aria-label')")).await?;
        ensure!(label.contains("Arrow keys"), "its name is `{label}`");
        key(browser, "ArrowRight", 39).await?;
        // The tooltip shows the same text that a screen reader says.
        let shown = "return !!said() && chart.querySelector('.tooltip').textContent.trim().replaceAll('\\n', ', ') === said()";
        browser.until(&self.script(shown)).await?;
        // The keys must reach the mark of the table's last row. The page handles each key in a turn of its own.
        let walk = format!(
            "return (async () => {{
                const words = (cell) => (cell.querySelector('a') ?? cell).textContent.trim();
                const row = {:?}.map((cell) => words(rows.at(-1).cells[cell]));
                const turn = () => new Promise((done) => setTimeout(done));
                press('Home');
                await turn();
                for (let stops = 1; stops < marks && !row.every((words) => said().includes(words)); stops += 1) {{
                    press('ArrowRight');
                    await turn();
                }}
                return [row.every((words) => said().includes(words)), row.join(' | ') + ' is not in: ' + said()];
            }})()",
            self.cells
        );
        let (is_read, unread): (bool, String) = browser.script(&self.script(&walk)).await?;
        ensure!(is_read, "{unread}");
        Ok(())
    }
}

/// Presses a key as a reader does, through the browser.
async fn key(browser: &Browser, name: &str, code: u32) -> anyhow::Result<()> {
    for kind in ["rawKeyDown", "keyUp"] {
        let event = json!({ "type": kind, "key": name, "code": name, "windowsVirtualKeyCode": code });
        browser.devtools("Input.dispatchKeyEvent", event).await?;
    }
    Ok(())
}
