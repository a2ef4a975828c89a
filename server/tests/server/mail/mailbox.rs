//! A folder of mails, which are read in their order.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use diode_server::settings::MailServer;
use tempfile::TempDir;
use tokio::time::sleep;

use crate::test_app::PUBLIC_URL;

/// Longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(20);

/// Long enough to notice a mail that must not come.
const QUIET: Duration = Duration::from_millis(300);

pub(super) struct Mailbox {
    folder: TempDir,
    read: Cell<usize>,
}

pub(super) struct Mail {
    head: String,
    pub(super) text: String,
}

impl Mailbox {
    pub(super) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), read: Cell::new(0) }
    }

    pub(super) fn server(&self) -> MailServer {
        // The server creates the folder.
        MailServer::Folder(self.folder.path().join("mails"))
    }

    fn files(&self) -> Vec<PathBuf> {
        let Ok(folder) = std::fs::read_dir(self.folder.path().join("mails")) else { return Vec::new() };
        let mut files: Vec<_> = folder.map(|file| file.unwrap().path()).collect();
        files.retain(|file| file.extension().is_some_and(|end| end == "eml"));
        files.sort();
        files
    }

    /// The next mail, once it has arrived.
    pub(super) async fn next(&self) -> Mail {
        let began = Instant::now();
        loop {
            if let Some(file) = self.files().get(self.read.get()) {
                self.read.set(self.read.get() + 1);
                return Mail::parse(&std::fs::read_to_string(file).unwrap());
            }
            assert!(began.elapsed() < PATIENCE, "no mail has come");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for `number` more mails, and then a moment for others, which must not come.
    pub(super) async fn gets(&self, number: usize) {
        for _ in 0..number {
            self.next().await;
        }
        sleep(QUIET).await;
        assert_eq!(self.files().len(), self.read.get(), "more than {number} mails have come");
    }
}

impl Mail {
    pub(super) fn parse(text: &str) -> Self {
        let (head, text) = text.split_once("\r\n\r\n").unwrap();
        Self { head: head.to_owned(), text: text.replace("\r\n", "\n") }
    }

    pub(super) fn header(&self, name: &str) -> &str {
        let value = |line: &'_ str| line.strip_prefix(name)?.strip_prefix(": ").map(str::len);
        let line = self.head.split("\r\n").find(|line| value(line).is_some());
        let line = line.unwrap_or_else(|| panic!("no {name} in {}", self.head));
        &line[name.len() + 2..]
    }

    /// The path of the link in the mail.
    pub(super) fn link(&self) -> String {
        let found = self
            .text
            .lines()
            .find_map(|line| line.strip_prefix(PUBLIC_URL).filter(|path| path.contains("link=")));
        found.unwrap_or_else(|| panic!("no link in {}", self.text)).to_owned()
    }
}
