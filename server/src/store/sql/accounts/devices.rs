use diode_core::ids::{AccountId, Digest};

use super::row::{AccountRow, COLUMNS};
use crate::solutions::Damaged;
use crate::store::accounts::{DeviceAnswer, WaitingDevice};
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{from_json, json, parse};
use crate::store::from_row::from_row;
use crate::store::statement::Statement;
use crate::store::types::Now;

struct DeviceRow {
    secret: String,
    user_code: String,
    name: String,
    scopes: String,
    account: Option<String>,
}

from_row!(DeviceRow { secret, user_code, name, scopes, account });

impl DeviceRow {
    fn device(self) -> Result<WaitingDevice, Damaged> {
        Ok(WaitingDevice {
            secret: parse("device secret", self.secret)?,
            user_code: self.user_code,
            name: self.name,
            scopes: from_json("device's scopes", &self.scopes)?,
        })
    }
}

pub(super) async fn add(
    db: &mut Connection,
    device: &WaitingDevice,
    now: Now,
    expires: i64,
) -> StoreResult<()> {
    db.execute(Statement::new("DELETE FROM device_requests WHERE expires <= $1").bind(now.millis())).await?;
    let insert = Statement::new(
        "INSERT INTO device_requests (secret, user_code, name, scopes, expires) VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(device.secret.as_str())
    .bind(device.user_code.as_str())
    .bind(device.name.as_str())
    .bind(json("device's scopes", &device.scopes)?)
    .bind(expires);
    db.execute(insert).await?;
    Ok(())
}

pub(super) async fn find(
    db: &mut Connection,
    user_code: &str,
    now: Now,
) -> StoreResult<Option<WaitingDevice>> {
    let select = Statement::new(
        "SELECT secret, user_code, name, scopes, account FROM device_requests \
         WHERE user_code = $1 AND expires > $2 AND account IS NULL",
    )
    .bind(user_code)
    .bind(now.millis());
    let row: Option<DeviceRow> = db.fetch_optional(select).await?;
    Ok(row.map(DeviceRow::device).transpose()?)
}

pub(super) async fn answer(
    db: &mut Connection,
    user_code: &str,
    account: Option<&AccountId>,
    now: Now,
) -> StoreResult<bool> {
    let statement = match account {
        Some(account) => Statement::new("UPDATE device_requests SET account = ").push_bind(account.as_str()),
        None => Statement::new("DELETE FROM device_requests"),
    };
    let statement = statement
        .push(" WHERE user_code = ")
        .push_bind(user_code)
        .push(" AND account IS NULL AND expires > ")
        .push_bind(now.millis());
    Ok(db.execute(statement).await? == 1)
}

/// Whether a program still waits; `None` if there is no such program.
pub(super) async fn waits(db: &mut Connection, secret: &Digest, now: Now) -> StoreResult<Option<bool>> {
    let select = Statement::new("SELECT account FROM device_requests WHERE secret = $1 AND expires > $2")
        .bind(secret.as_str())
        .bind(now.millis());
    let row: Option<(Option<String>,)> = db.fetch_optional(select).await?;
    Ok(row.map(|(account,)| account.is_none()))
}

/// Removes the program, so that only one of two polls gets the answer.
pub(super) async fn take(db: &mut Connection, secret: &Digest, now: Now) -> StoreResult<DeviceAnswer> {
    let delete = Statement::new(
        "DELETE FROM device_requests WHERE secret = $1 AND expires > $2 AND account IS NOT NULL \
         RETURNING secret, user_code, name, scopes, account",
    )
    .bind(secret.as_str())
    .bind(now.millis());
    let row: Option<DeviceRow> = db.fetch_optional(delete).await?;
    let Some(mut row) = row else { return Ok(DeviceAnswer::Unknown) };
    let select = Statement::new("SELECT ")
        .push(COLUMNS)
        .push(" FROM accounts a WHERE a.disabled_at IS NULL AND a.id = ")
        .push_bind(row.account.take());
    let account: Option<AccountRow> = db.fetch_optional(select).await?;
    Ok(match account {
        Some(account) => DeviceAnswer::Allowed(Box::new(account.account()?), row.device()?),
        None => DeviceAnswer::Unknown,
    })
}
