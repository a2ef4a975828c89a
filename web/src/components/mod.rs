//! Components that several pages use.

mod bar;
mod caveat;
mod citation;
mod content;
mod copy;
mod download;
mod footer;
mod header;
mod later;
mod loaded;
mod logo;
mod measure;
mod nearest;
mod ratio;
mod select;
mod settled;
mod stat;
mod theme;
mod title;

pub(crate) use bar::{Bar, BarCell};
pub(crate) use caveat::CaveatMark;
pub(crate) use citation::Citation;
pub(crate) use content::FollowPage;
pub(crate) use copy::Snippet;
pub(crate) use download::Download;
pub(crate) use footer::Footer;
pub(crate) use header::Header;
pub(crate) use later::{Later, due};
pub(crate) use loaded::{Empty, FailedLoad, Loaded, Missing, Skeleton};
pub(crate) use measure::{MeasureAll, MeasureThis};
pub(crate) use nearest::{NearestProblems, nearest_path, shape_parameters};
pub(crate) use ratio::RatioCell;
pub(crate) use select::{Chips, Choice, Select};
pub(crate) use stat::{Stat, Stats};
pub(crate) use title::use_title;
