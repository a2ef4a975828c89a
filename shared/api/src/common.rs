//! Which versions of programs and servers understand each other.

use std::fmt;
use std::str::FromStr;

use diode_core::Invalid;
use serde::{Deserialize, Serialize};

/// The body of every response that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApiError {
    /// A stable word for programs: `not_found`, `invalid`, `too_large`, …
    pub code: String,
    /// One sentence for people: what was given, what was expected, what to do.
    pub message: String,
}

/// A page of the site without a subject.
#[derive(Debug, Clone, Copy)]
pub struct SitePage {
    pub path: &'static str,
    /// The text of the header's link to it; empty if the header has none.
    pub link: &'static str,
    /// As in the browser's tab, without the name of the site.
    pub title: &'static str,
    pub heading: &'static str,
    /// What it is about: below the heading, and for programs that read links.
    pub about: &'static str,
}

/// These pages, in the header's order. The server writes their first HTML, the dashboard their heads.
pub const PAGES: [SitePage; 8] = [
    SitePage {
        path: "/",
        link: "Overview",
        title: "Matmul kernels without autotuning",
        heading: "The best Triton matmul config for your shape, without autotuning",
        about: "Diode shares what GPU owners measured: the time of every Triton config on real shapes, and small models \
                that pick configs for shapes nobody has measured yet.",
    },
    SitePage {
        path: "/predict",
        link: "Predict",
        title: "Predict a shape",
        heading: "Predict",
        about: "The fastest configs for a shape, ranked here in your browser as you type.",
    },
    SitePage {
        path: "/predict/list",
        link: "",
        title: "Predict a list",
        heading: "Predict a list",
        about: "The fastest configs for all of your shapes, ranked in your browser. Nothing is sent unless you ask for \
                measurements.",
    },
    SitePage {
        path: "/workloads",
        link: "Workloads",
        title: "Workloads",
        heading: "Name a model, get its kernels",
        about: "The multiplications of served models, how much faster they can run, and their files for vLLM, SGLang \
                and torch.compile.",
    },
    SitePage {
        path: "/compare",
        link: "Compare",
        title: "Compare",
        heading: "Compare",
        about: "Measured times and models side by side. The address has everything you choose, so it can be shared.",
    },
    SitePage {
        path: "/models",
        link: "Models",
        title: "Models",
        heading: "Models",
        about: "Each is one small file that ranks every config for any shape. The same file gives the same numbers in the \
                browser and on the command line.",
    },
    SitePage {
        path: "/datasets",
        link: "Datasets",
        title: "Datasets",
        heading: "Datasets",
        about: "Every timing of every config that was sent to this server, one dataset for each kind of hardware.",
    },
    SitePage {
        path: "/contribute",
        link: "Contribute",
        title: "Contribute",
        heading: "Contribute",
        about: "Measure on your GPU, and send the timings. Each file is checked here before it is sent.",
    },
];

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    pub items: Vec<T>,
    /// How many items match in all.
    pub total: u64,
    /// Pass as `cursor` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One epoch of a training. It is written as a line of a job's event, from which programs read the loss.
#[derive(Debug, Clone, PartialEq)]
pub struct Epoch {
    /// Which network is trained: `fold 1 of 4` or `final`.
    pub phase: String,
    /// Counts from 1.
    pub epoch: u32,
    pub epochs: u32,
    /// The mean loss over the epoch's steps.
    pub loss: f64,
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { phase, epoch, epochs, loss } = self;
        write!(f, "{phase}: epoch {epoch} of {epochs}, loss {loss:.4}")
    }
}

impl FromStr for Epoch {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let parsed = || {
            let (phase, rest) = text.rsplit_once(": epoch ")?;
            let (place, loss) = rest.split_once(", loss ")?;
            let (epoch, epochs) = place.split_once(" of ")?;
            let loss: f64 = loss.parse().ok().filter(|loss: &f64| loss.is_finite())?;
            Some(Self {
                phase: phase.to_owned(),
                epoch: epoch.parse().ok()?,
                epochs: epochs.parse().ok()?,
                loss,
            })
        };
        parsed().ok_or_else(|| {
            Invalid::new("epoch", format_args!("`{text:.80}`"), "such as `final: epoch 3 of 60, loss 0.0310`")
        })
    }
}

/// The name of Diode's programs in `User-Agent`. Their version follows: `diode/0.1.0`.
pub const PROGRAM: &str = "diode";

/// The header in which a server names its version.
pub const SERVER_HEADER: &str = "diode-server";

/// The oldest programs that servers of this version understand.
pub const OLDEST_PROGRAM: Version = Version { major: 0, minor: 1, patch: 0 };

/// The oldest servers that programs of this version understand.
pub const OLDEST_SERVER: Version = Version { major: 0, minor: 1, patch: 0 };

/// A released version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl Version {
    /// The version of a Diode program, from its `User-Agent`. `None` for other programs.
    pub fn of_program(user_agent: &str) -> Option<Self> {
        user_agent.strip_prefix(PROGRAM)?.strip_prefix('/')?.parse().ok()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Version {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        // The text after a dash or a plus names a build. It is no part of the version.
        let release = text.split(['-', '+']).next().unwrap_or_default();
        let numbers: Vec<u32> = release.split('.').map_while(|number| number.parse().ok()).collect();
        match (numbers.as_slice(), release.split('.').count()) {
            (&[major, minor, patch], 3) => Ok(Self { major, minor, patch }),
            _ => Err(Invalid::new("version", format_args!("`{text:.40}`"), "three numbers, such as 0.1.0")),
        }
    }
}

#[cfg(test)]
mod epoch_tests {
    use super::*;

    #[test]
    fn what_is_said_can_be_read_back() {
        let epoch = Epoch { phase: "fold 1 of 4".to_owned(), epoch: 12, epochs: 60, loss: 0.031 };
        assert_eq!(epoch.to_string(), "fold 1 of 4: epoch 12 of 60, loss 0.0310");
        assert_eq!(epoch.to_string().parse(), Ok(epoch));
        for other in ["", "started", "done", "final: epoch 1 of 2", "final: epoch 1 of 2, loss NaN"] {
            assert!(other.parse::<Epoch>().is_err(), "{other}");
        }
    }
}

#[cfg(test)]
mod versions_tests {
    use super::*;

    #[test]
    fn versions_are_read_and_have_an_order() {
        let read = |text: &str| text.parse::<Version>();
        assert_eq!(read("0.12.3").unwrap().to_string(), "0.12.3");
        assert_eq!(read("1.2.3-rc.1").unwrap(), read("1.2.3").unwrap());
        assert!(
            read("0.2.0").unwrap() < read("0.10.0").unwrap()
                && read("0.10.0").unwrap() < read("1.0.0").unwrap()
        );
        for wrong in ["", "1", "1.2", "1.2.x", "1.2.3.4", "a.b.c", "1.2.99999999999"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_programs_of_diode_have_one() {
        assert_eq!(Version::of_program("diode/0.1.0"), Some(OLDEST_PROGRAM));
        for other in ["curl/8.0.1", "diode", "diode/", "diode/x", "Mozilla/5.0", "diodes/0.1.0"] {
            assert_eq!(Version::of_program(other), None, "{other}");
        }
    }

    #[test]
    fn this_version_understands_itself() {
        let own: Version = env!("CARGO_PKG_VERSION").parse().unwrap();
        assert!(own >= OLDEST_PROGRAM && own >= OLDEST_SERVER);
    }
}
