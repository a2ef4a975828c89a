//! The tuned files that a release of vLLM or SGLang ships, as named baselines.

use std::cmp::Reverse;
use std::fmt;

use diode_core::hardware::Hardware;
use diode_core::{Config, Invalid, Problem};
use serde::{Deserialize, Serialize};

use crate::file_body::{Body, Entry};
use crate::file_names::{Consumer, FileName, triton_of};

/// The format's name and version, at the beginning of a file.
const FORMAT: &str = "diode-published/1";

/// The tuned files of a release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    format: String,
    pub project: Consumer,
    pub version: String,
    pub files: Vec<PublishedFile>,
}

/// A file of a release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedFile {
    /// The folder's path in the package.
    pub folder: String,
    pub name: String,
    pub body: Body,
}

/// A config that a release runs for a batch, with the file and the batch size that it is from.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    pub file: &'a PublishedFile,
    pub batch: u64,
    /// Missing where the file leaves the choice to the server.
    pub entry: Option<&'a Entry>,
}

/// What a release runs for a problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline<'a> {
    pub file: &'a PublishedFile,
    /// The batch size in the file.
    pub batch: u64,
    pub config: Config,
    /// What the release would run without the file.
    pub default: Option<Config>,
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.project.title(), self.version)
    }
}

impl Published {
    pub fn new(project: Consumer, version: impl Into<String>, mut files: Vec<PublishedFile>) -> Self {
        files.sort_by(|a, b| (&a.folder, &a.name).cmp(&(&b.folder, &b.name)));
        Self { format: FORMAT.to_owned(), project, version: version.into(), files }
    }

    /// Reads what [`Self::to_text`] has written.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let expected = "a file that `diode import` has written";
        let refused = |given: &dyn fmt::Display| Invalid::new("published files", given, expected);
        let published: Self = serde_json::from_str(text).map_err(|error| refused(&error))?;
        if published.format != FORMAT {
            return Err(refused(&format_args!("the format `{:.64}`", published.format)));
        }
        Ok(published)
    }

    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self).map(|text| text + "\n")
    }

    /// The file that the release reads with this version of Triton. SGLang takes that of the newest other version if
    /// there is none of this one, and the file for the first multiplication if there is none for the second.
    pub fn find(&self, name: &FileName, triton: &str) -> Option<&PublishedFile> {
        let title = name.name(self.project);
        let wanted = || self.files.iter().filter(|file| file.name == title);
        let found = wanted().max_by_key(|file| {
            let version = file.triton();
            (version.as_deref() == Some(triton), version.map(|version| numbers(&version)))
        });
        found.or_else(|| match name {
            FileName::Experts(key) if key.down => {
                let mut up = key.clone();
                up.down = false;
                self.find(&FileName::Experts(up), triton)
            }
            _ => None,
        })
    }

    /// The config that the release runs for a batch. `None` if it has no file and runs its default.
    pub fn choose(&self, name: &FileName, triton: &str, batch: u64) -> Option<Choice<'_>> {
        let file = self.find(name, triton)?;
        let (batch, entry) = file.body.nearest(batch)?;
        Some(Choice { file, batch, entry })
    }

    /// What the release's file holds for a problem. `None` if it has no file for it, or leaves the choice to the server.
    pub fn baseline(&self, hardware: &Hardware, problem: &Problem) -> Option<Result<Baseline<'_>, Invalid>> {
        let name = FileName::of(problem, hardware, self.project)?;
        let found = self.choose(&name, self.project.triton(), problem.m)?;
        let config = found.config(self.project, hardware, problem)?;
        let default = self.project.default_config().config(hardware, problem);
        Some(config.map(|config| Baseline { file: found.file, batch: found.batch, config, default }))
    }

    /// The files for one device, by the name in their names.
    pub fn on<'a>(&'a self, device: &'a str) -> impl Iterator<Item = &'a PublishedFile> {
        self.files
            .iter()
            .filter(move |file| FileName::parse(&file.name).is_ok_and(|name| name.device() == Some(device)))
    }

    /// The devices with the numbers of their files, the best covered first.
    pub fn devices(&self) -> Vec<(String, usize)> {
        let mut found: Vec<(String, usize)> = Vec::new();
        for file in &self.files {
            let name = FileName::parse(&file.name);
            let device = name.as_ref().ok().and_then(FileName::device).unwrap_or_default();
            match found.iter_mut().find(|(known, _)| known == device) {
                Some((_, count)) => *count += 1,
                None => found.push((device.to_owned(), 1)),
            }
        }
        found.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
        found
    }
}

impl PublishedFile {
    /// The version of Triton that SGLang's folder is for.
    pub fn triton(&self) -> Option<String> {
        triton_of(self.folder.rsplit('/').next().unwrap_or_default())
    }

    /// What the file is for, in words: `8 experts of 7168 in fp8_w8a8 by [128,128]`.
    pub fn subject(&self) -> String {
        let block = |block: Option<[u32; 2]>| block.map_or_else(String::new, |[n, k]| format!(" by {n}×{k}"));
        match FileName::parse(&self.name) {
            Ok(FileName::Experts(key)) => {
                let word = if key.word.as_str().is_empty() { "16 bits" } else { key.word.as_str() };
                let channel = if key.per_channel { " by channel" } else { "" };
                let down = if key.down { ", second multiplication" } else { "" };
                format!("{} experts of {} in {word}{}{channel}{down}", key.experts, key.n, block(key.block))
            }
            Ok(FileName::Dense(key)) => {
                format!("N {} K {} in {}{}", key.n, key.k, key.word, block(key.block))
            }
            Ok(FileName::StateSpace(key)) => format!("state space, head {}, state {}", key.head, key.state),
            Ok(FileName::Other { about, .. }) => about.to_owned(),
            Err(_) => self.name.clone(),
        }
    }
}

impl Choice<'_> {
    /// The config that runs for a problem. `None` where the file leaves the choice to the server.
    pub fn config(
        &self,
        project: Consumer,
        hardware: &Hardware,
        problem: &Problem,
    ) -> Option<Result<Config, Invalid>> {
        Some(self.entry?.config(project, hardware, problem))
    }
}

/// A version's numbers, for sorting.
pub fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use diode_core::Tile;

    use super::*;
    use crate::file_names::FileKey;

    fn file(folder: &str, name: &str, stages: u32) -> PublishedFile {
        let mut body = Body::default();
        for batch in [1, 64] {
            body.insert(batch, Entry::of(&Tile::new(16, 64, 128, stages, 4)));
        }
        PublishedFile { folder: folder.to_owned(), name: name.to_owned(), body }
    }

    const NAME: &str = "E=8,N=256,device_name=NVIDIA_H200.json";
    const DOWN: &str = "E=8,N=256,device_name=NVIDIA_H200_down.json";

    fn sglang() -> Published {
        let folder = |version| format!("srt/layers/moe/moe_runner/triton_utils/configs/triton_{version}");
        let files = [("3_1_0", NAME, 2), ("3_10_0", NAME, 3), ("3_5_1", NAME, 4), ("3_5_1", DOWN, 5)];
        let files = files.map(|(version, name, stages)| file(&folder(version), name, stages));
        Published::new(Consumer::Sglang, "0.5.23", files.into())
    }

    #[test]
    fn files_are_found_in_the_order_of_the_server() {
        let published = sglang();
        let key = FileKey::new(8, 256, "NVIDIA_H200");
        let stages = |down, triton| {
            let name = FileName::Experts(FileKey { down, ..key.clone() });
            let choice = published.choose(&name, triton, 20)?;
            assert_eq!(choice.batch, 1);
            choice.entry?.number("num_stages")
        };
        assert_eq!(stages(false, "3.1.0"), Some(2), "the running version's own");
        assert_eq!(stages(false, "3.8.0"), Some(3), "else the newest, by numbers");
        assert_eq!(stages(true, "3.8.0"), Some(5));
        let only_up = Published { files: published.files[..1].to_vec(), ..published.clone() };
        let down = FileName::Experts(FileKey { down: true, ..key.clone() });
        assert!(only_up.find(&down, "3.8.0").is_some(), "the first multiplication's file");
        let other = FileName::Experts(key.on("NVIDIA_H100"));
        assert!(published.find(&other, "3.8.0").is_none());
    }

    #[test]
    fn a_release_survives_its_file() {
        let published = sglang();
        let text = published.to_text().unwrap();
        assert_eq!(Published::parse(&text).unwrap(), published);
        assert_eq!(published.to_string(), "SGLang 0.5.23");
        assert_eq!(published.devices(), [("NVIDIA_H200".to_owned(), 4)]);
        assert_eq!(published.on("NVIDIA_H200").count(), 4);
        let later = text.replace("published/1", "published/2");
        for (text, said) in [(&later[..], "the format `diode-published/2`"), ("{}", "missing field")] {
            let error = Published::parse(text).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("diode import"), "{error}");
        }
    }

    #[test]
    fn a_file_says_what_it_is_for() {
        for (name, subject) in [
            (NAME, "8 experts of 256 in 16 bits"),
            (
                "E=8,N=1,device_name=D,dtype=fp8_w8a8,block_shape=[128, 128]_down.json",
                "8 experts of 1 in fp8_w8a8 by 128×128, second multiplication",
            ),
            ("N=8,K=1,device_name=D,dtype=fp8_w8a8_channelwise.json", "N 8 K 1 in fp8_w8a8_channelwise"),
        ] {
            assert_eq!(file("", name, 3).subject(), subject);
        }
    }
}
