//! Components that several pages use.

mod answer;
mod bar;
mod chrome;
mod figures;
mod findings;
mod loaded;
mod measure;
mod nearest;
mod select;
mod snippet;
mod table;

pub(crate) use answer::{Best, Everywhere};
pub(crate) use bar::{BarEverywhere, LookUp, given_elsewhere};
pub(crate) use chrome::{FollowPage, Footer, Header, page_head, page_heading, use_title};
pub(crate) use figures::{Bar, BarCell, CaveatMark, Explained, RatioCell, Stat, Stats};
pub(crate) use findings::Findings;
pub(crate) use loaded::{Deferred, FailedLoad, Loaded, Missing, Skeleton, be_the_first, due, empty};
pub(crate) use measure::{MeasureAll, MeasureThis};
pub(crate) use nearest::{Nearest, NearestProblems, nearest_path};
pub(crate) use select::{
    Chips, Choice, SHAPE, Select, chips, is_open, is_pasted, named, select, shape_field, unnamed,
};
pub(crate) use snippet::Download;
pub(crate) use snippet::{Citation, Snippet};
pub(crate) use table::{Head, facts, head, legend, num, table, tag_row};
