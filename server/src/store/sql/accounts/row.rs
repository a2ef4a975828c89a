//! The row of an account, alone or joined with other rows of the account.

use diode_api::{Account, Agreement};

use crate::solutions::Damaged;
use crate::store::fields::{parse, terms_version};
use crate::store::from_row::from_row;

/// The columns of [`AccountRow`]. The query must name the table `accounts` `a`.
pub(super) const COLUMNS: &str = "a.id, a.name, a.admin, a.created_at, \
    (SELECT g.terms FROM agreements g WHERE g.account = a.id ORDER BY g.terms DESC LIMIT 1) AS terms, \
    (SELECT g.agreed_at FROM agreements g WHERE g.account = a.id ORDER BY g.terms DESC LIMIT 1) AS agreed_at";

pub(super) struct AccountRow {
    id: String,
    name: String,
    admin: i64,
    created_at: String,
    terms: Option<i64>,
    agreed_at: Option<String>,
}

from_row!(AccountRow { id, name, admin, created_at, terms, agreed_at });

impl AccountRow {
    pub(super) fn account(self) -> Result<Account, Damaged> {
        let terms = match (self.terms, self.agreed_at) {
            (Some(version), Some(agreed_at)) => {
                Some(Agreement { version: terms_version(version)?, agreed_at })
            }
            _ => None,
        };
        Ok(Account {
            id: parse("account id", self.id)?,
            name: parse("account name", self.name)?,
            admin: self.admin != 0,
            created_at: self.created_at,
            terms,
        })
    }
}
