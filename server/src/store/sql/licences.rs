//! The columns of an upload's licence.

use diode_api::UploadLicence;

use crate::solutions::Damaged;
use crate::store::fields::{named, terms_version};
use crate::store::from_row::from_row;

/// These columns are in `uploads` and in `senders`.
pub(super) struct LicenceRow {
    licence: String,
    licence_basis: String,
    terms: Option<i64>,
}

from_row!(LicenceRow { licence, licence_basis, terms });

impl LicenceRow {
    pub(super) fn licence(self) -> Result<UploadLicence, Damaged> {
        Ok(UploadLicence {
            spdx: self.licence,
            basis: named("basis of the licence", &self.licence_basis)?,
            terms: self.terms.map(terms_version).transpose()?,
        })
    }
}
