//! An account as a row, alone or joined with what belongs to it.

use diode_core::api::Account;

use crate::solutions::Damaged;
use crate::store::sql::fields::parse;
use crate::store::sql::from_row::from_row;

/// The columns of [`AccountRow`], from a table or join in which `accounts` is `a`.
pub(super) const COLUMNS: &str = "a.id, a.name, a.admin, a.created_at";

pub(super) struct AccountRow {
    id: String,
    name: String,
    admin: i64,
    created_at: String,
}

from_row!(AccountRow { id, name, admin, created_at });

impl AccountRow {
    pub(super) fn account(self) -> Result<Account, Damaged> {
        Ok(Account {
            id: parse("account id", self.id)?,
            name: parse("account name", self.name)?,
            admin: self.admin != 0,
            created_at: self.created_at,
        })
    }
}
