//! The columns of a model that describe its contribution.

use diode_api::Contribution;

use crate::solutions::Damaged;
use crate::store::fields::{from_json, named, optional, parse};
use crate::store::from_row::from_row;

/// The columns, from `contributed_models c` and `accounts a`. All are NULL for a model that nobody has
/// contributed.
pub(super) const COLUMNS: &str = "c.state AS contributed, a.name AS by_name, c.sent_at, c.description, c.licence, \
    c.without_kept, c.figures, c.reason AS said, c.job";

pub(super) struct ContributionRow {
    contributed: Option<String>,
    by_name: Option<String>,
    sent_at: Option<String>,
    description: Option<String>,
    licence: Option<String>,
    without_kept: Option<i64>,
    figures: Option<String>,
    said: Option<String>,
    job: Option<String>,
}

from_row!(ContributionRow {
    contributed,
    by_name,
    sent_at,
    description,
    licence,
    without_kept,
    figures,
    said,
    job
});

impl ContributionRow {
    /// `None` if nobody has contributed the model.
    pub(super) fn contribution(self) -> Result<Option<Contribution>, Damaged> {
        let Some(state) = self.contributed else { return Ok(None) };
        Ok(Some(Contribution {
            state: named("state of a contributed model", &state)?,
            by: optional("account name", self.by_name)?,
            sent_at: self.sent_at.unwrap_or_default(),
            description: parse("description", self.description.unwrap_or_default())?,
            licence: parse("licence", self.licence.unwrap_or_default())?,
            without_kept: self.without_kept == Some(1),
            figures: self.figures.map(|figures| from_json("figures", &figures)).transpose()?,
            reason: self.said.unwrap_or_default(),
            job: parse("job id", self.job.unwrap_or_default())?,
        }))
    }
}
