//! Headless Chromium, driven through ChromeDriver.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::json;
use tempfile::TempDir;
use thirtyfour::ChromeCapabilities;
use thirtyfour::prelude::*;

/// A window size to test at.
#[derive(Debug, Clone, Copy)]
pub struct Viewport {
    pub width: u32,
    pub height: u32,
}

impl Viewport {
    pub const DESKTOP: Self = Self { width: 1280, height: 900 };
    pub const PHONE: Self = Self { width: 390, height: 844 };
}

/// The colours that the reader's system prefers.
#[derive(Debug, Clone, Copy)]
pub enum Theme {
    Light,
    Dark,
}

impl Theme {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// Both sizes in both themes, with a name for the pictures of each.
pub const LOOKS: [(Viewport, Theme, &str); 4] = [
    (Viewport::DESKTOP, Theme::Light, "desktop-light"),
    (Viewport::DESKTOP, Theme::Dark, "desktop-dark"),
    (Viewport::PHONE, Theme::Light, "phone-light"),
    (Viewport::PHONE, Theme::Dark, "phone-dark"),
];

/// A browser with a fresh profile. It ends when dropped.
pub struct Browser {
    pub driver: WebDriver,
    /// The address of the driver's session, with which the session is ended.
    session: String,
    chromedriver: Child,
    _profile: TempDir,
}

/// The pause between two looks at a page.
const PAUSE: Duration = Duration::from_millis(50);

/// After so many looks at which nothing had moved, a wait ends in vain: some 30 s, and longer on a busy machine, where
/// each look takes longer. The dashboard renews some resources every 10 s.
const LOOKS_IN_VAIN: u32 = 500;

/// After so many looks at which nothing had moved, a page is still.
const LOOKS_UNTIL_STILL: u32 = 6;

/// Counts what moves in the page: changes of the document, requests, and messages of workers. A request that is sent
/// again does not count, because the dashboard asks for some things every few seconds. Runs before the page's first
/// script.
const RECORD_MOVES: &str = r"
    window.moves = 0;
    window.under_way = 0;
    const moved = () => { window.moves += 1; };
    const asked = new Set();
    const follow = (what, answer) => {
        if (asked.has(what)) return answer;
        asked.add(what);
        moved();
        window.under_way += 1;
        return answer.finally(() => { moved(); window.under_way -= 1; });
    };
    new MutationObserver(moved)
        .observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
    const really_fetch = window.fetch;
    window.fetch = (what, ...rest) => follow(String(what?.url ?? what), really_fetch(what, ...rest));
    const really_send = XMLHttpRequest.prototype.send;
    XMLHttpRequest.prototype.send = function (...body) {
        moved();
        window.under_way += 1;
        this.addEventListener('progress', moved);
        this.addEventListener('loadend', () => { moved(); window.under_way -= 1; });
        really_send.apply(this, body);
    };
    const RealWorker = window.Worker;
    window.Worker = class Worker extends RealWorker {
        constructor(...script) { super(...script); moved(); this.addEventListener('message', moved); }
        postMessage(...message) { moved(); super.postMessage(...message); }
        terminate() { moved(); super.terminate(); }
    };
";

/// Records the page's errors. Runs before the page's first script.
const RECORD_COMPLAINTS: &str = r"
    window.complaints = [];
    const keep = (kind) => (...what) => window.complaints.push(kind + ': ' + what.map(String).join(' '));
    const error = console.error.bind(console);
    console.error = (...what) => { keep('console.error')(...what); error(...what); };
    window.addEventListener('error', (e) => keep('error')(e.message || (e.target && (e.target.src || e.target.href))), true);
    window.addEventListener('unhandledrejection', (e) => keep('rejection')(e.reason));
    document.addEventListener('securitypolicyviolation', (e) => keep('csp')(e.violatedDirective, e.blockedURI));
";

impl Browser {
    pub async fn start() -> anyhow::Result<Self> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let chromedriver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start chromedriver; run `cargo xtask setup`")?;
        let profile = tempfile::tempdir()?;
        let mut capabilities = DesiredCapabilities::chrome();
        for argument in [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            &format!("--user-data-dir={}", profile.path().display()),
        ] {
            capabilities.add_arg(argument)?;
        }
        let driver = connect(port, capabilities).await?;
        let session = format!("http://127.0.0.1:{port}/session/{}", driver.session_id());
        let browser = Self { driver, session, chromedriver, _profile: profile };
        browser.before_scripts(RECORD_COMPLAINTS).await?;
        browser.before_scripts(&format!("(() => {{ {RECORD_MOVES} }})();")).await?;
        Ok(browser)
    }

    /// Sets the window size and the preferred colours. The size may be smaller than a window's usual
    /// minimum.
    pub async fn look(&self, viewport: Viewport, theme: Theme) -> anyhow::Result<()> {
        let Viewport { width, height } = viewport;
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await?;
        let feature = json!({ "features": [{ "name": "prefers-color-scheme", "value": theme.as_str() }] });
        self.devtools("Emulation.setEmulatedMedia", feature).await
    }

    /// Opens a page and waits until an element is there.
    pub async fn open(&self, url: &str, wait_for: &str) -> anyhow::Result<()> {
        self.driver.goto(url).await?;
        self.wait_for(wait_for).await.with_context(|| url.to_owned())
    }

    /// Waits until an element is there.
    pub async fn wait_for(&self, selector: &str) -> anyhow::Result<()> {
        self.until(&format!("return document.querySelector({}) !== null", json!(selector))).await
    }

    /// Waits until a script's body returns true in the page. A script that fails is run again: perhaps an
    /// element was missing. The wait ends in vain when nothing moves any more.
    pub async fn until(&self, body: &str) -> anyhow::Result<()> {
        let mut watch = Watch::default();
        loop {
            let answer = self.script::<bool>(body).await;
            if matches!(answer, Ok(true)) {
                return Ok(());
            }
            if watch.look(self).await > LOOKS_IN_VAIN {
                let complaints = self.complaints().await?;
                bail!(
                    "`{body}` is still {answer:?}, and nothing moves any more; the page met {complaints:?}"
                );
            }
        }
    }

    /// Waits until nothing moves any more.
    pub async fn until_still(&self) {
        let mut watch = Watch::default();
        while watch.look(self).await < LOOKS_UNTIL_STILL {}
    }

    /// The number of moves so far, and of requests under way.
    async fn moves(&self) -> anyhow::Result<(u64, u64)> {
        self.script("return [window.moves, window.under_way]").await
    }

    /// The processor time that workers of pages have used, in ticks of the system.
    fn ticks_of_workers(&self) -> u64 {
        let group = self.chromedriver.id().to_string();
        let is_own = |process: &Task| process.fields.get(2) == Some(&group);
        let processes = tasks(Path::new("/proc")).filter(|(_, process)| is_own(process));
        let threads = processes.flat_map(|(folder, _)| tasks(&folder.join("task")));
        let workers = threads.filter(|(_, thread)| thread.name == "DedicatedWorker");
        // The times in the program and in the system.
        let ticks = |thread: &Task| {
            [11, 12].iter().filter_map(|place| thread.fields.get(*place)?.parse::<u64>().ok()).sum::<u64>()
        };
        workers.map(|(_, thread)| ticks(&thread)).sum()
    }

    /// Runs a script before the first script of every page that is opened from now on.
    pub async fn before_scripts(&self, source: &str) -> anyhow::Result<()> {
        self.devtools("Page.addScriptToEvaluateOnNewDocument", json!({ "source": source })).await
    }

    /// Clicks an element as soon as it exists and is enabled. `element` is a JavaScript expression.
    pub async fn press(&self, element: &str) -> anyhow::Result<()> {
        let click = format!(
            "const element = {element};
            if (!element || element.disabled) return false;
            element.click();
            return true"
        );
        self.until(&click).await
    }

    /// Errors that the current page has met since it was opened.
    pub async fn complaints(&self) -> anyhow::Result<Vec<String>> {
        self.script("return window.complaints || ['the recorder did not run']").await
    }

    /// Fails if the page is wider than the window, or has met an error.
    pub async fn quiet(&self, name: &str) -> anyhow::Result<()> {
        ensure!(self.overflow().await? <= 0, "{name}: wider than the window");
        let complaints = self.complaints().await?;
        ensure!(complaints.is_empty(), "{name}: {complaints:?}");
        Ok(())
    }

    /// Keeps a picture of a page, and fails if the page is not quiet.
    pub async fn looked_at(&self, name: &str) -> anyhow::Result<()> {
        self.picture(name).await?;
        self.quiet(name).await
    }

    /// Runs a script's body in the page, and returns its result.
    pub async fn script<T: serde::de::DeserializeOwned>(&self, body: &str) -> anyhow::Result<T> {
        Ok(self.driver.execute(body, Vec::new()).await?.convert()?)
    }

    /// The number of pixels by which the page is wider than the window.
    pub async fn overflow(&self) -> anyhow::Result<i64> {
        self.script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
            .await
    }

    /// Keeps a picture for people to look at, if `DIODE_SCREENSHOTS` names a folder.
    pub async fn picture(&self, name: &str) -> anyhow::Result<()> {
        if let Some(folder) = std::env::var_os("DIODE_SCREENSHOTS") {
            fs::create_dir_all(&folder)?;
            self.driver.screenshot(&Path::new(&folder).join(format!("{name}.png"))).await?;
        }
        Ok(())
    }

    /// Sends a command of the DevTools protocol.
    pub async fn devtools(&self, command: &str, parameters: serde_json::Value) -> anyhow::Result<()> {
        self.driver.cdp().send_raw(command, parameters).await?;
        Ok(())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ending the session ends the browser, except some processes. These are ended with the driver's
        // process group.
        let _ = ureq::delete(&self.session).call();
        let _ = Command::new("kill").arg("--").arg(format!("-{}", self.chromedriver.id())).status();
        let _ = self.chromedriver.wait();
    }
}

/// A process or a thread, as its `stat` file describes it.
struct Task {
    name: String,
    /// What follows the name, from the state on.
    fields: Vec<String>,
}

/// The processes or threads in a folder of `/proc`. A few may have ended by now.
fn tasks(folder: &Path) -> impl Iterator<Item = (PathBuf, Task)> + use<> {
    let task = |folder: PathBuf| {
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        let (name, fields) = stat.split_once('(')?.1.rsplit_once(')')?;
        let fields = fields.split_whitespace().map(str::to_owned).collect();
        Some((folder, Task { name: name.to_owned(), fields }))
    };
    let folders = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    folders.filter_map(move |entry| task(entry.path()))
}

/// Watches whether anything moves in a page: its document, its requests, its workers.
#[derive(Default)]
struct Watch {
    seen: Option<(u64, u64)>,
    looks_in_vain: u32,
}

impl Watch {
    /// Looks once, and returns at how many looks in a row nothing had moved.
    async fn look(&mut self, browser: &Browser) -> u32 {
        tokio::time::sleep(PAUSE).await;
        // While the browser opens another page, it may have no answer.
        let (moves, under_way) = browser.moves().await.unwrap_or_default();
        let seen = Some((moves, browser.ticks_of_workers()));
        let is_still = under_way == 0 && self.seen == seen;
        self.looks_in_vain = if is_still { self.looks_in_vain + 1 } else { 0 };
        self.seen = seen;
        self.looks_in_vain
    }
}

/// Connects to ChromeDriver, which needs a moment before it answers.
async fn connect(port: u16, capabilities: ChromeCapabilities) -> anyhow::Result<WebDriver> {
    let started = Instant::now();
    loop {
        match WebDriver::new(&format!("http://127.0.0.1:{port}"), capabilities.clone()).await {
            Ok(driver) => return Ok(driver),
            Err(error) if started.elapsed() > Duration::from_secs(30) => {
                bail!("chromedriver gave no session in 30 s: {error}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// A script that keeps the files that a page saves: their text in `window.files`, their blobs in
/// `window.blobs_by_name`.
pub const CATCH_FILES: &str = "
    window.files = {};
    window.blobs_by_name = {};
    const click = HTMLAnchorElement.prototype.click;
    const make = URL.createObjectURL;
    const blobs = new Map();
    URL.createObjectURL = (blob) => { const url = make.call(URL, blob); blobs.set(url, blob); return url; };
    HTMLAnchorElement.prototype.click = function () {
        const blob = this.download && blobs.get(this.href);
        if (!blob) return click.call(this);
        window.blobs_by_name[this.download] = blob;
        blob.text().then((text) => { window.files[this.download] = text; });
    };";
