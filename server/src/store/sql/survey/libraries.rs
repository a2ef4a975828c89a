use diode_core::api::{HardwareReceipt, LibraryOn};

use crate::solutions::Damaged;
use crate::store::error::StoreResult;
use crate::store::sql::connection::Connection;
use crate::store::sql::fields::{from_json, parse};
use crate::store::sql::from_row::from_row;
use crate::store::sql::statement::Statement;
use crate::store::survey::LibraryUpload;

/// Older uploads are not looked at.
const MOST: i64 = 20_000;

struct SaidRow {
    id: String,
    received_at: String,
    hardware: String,
}

from_row!(SaidRow { id, received_at, hardware });

/// What receipts say of libraries stands in their JSON alone: no query by it needs to be fast.
pub(super) async fn uploads(db: &mut impl Connection) -> StoreResult<Vec<LibraryUpload>> {
    let select = Statement::new(
        "SELECT id, received_at, hardware FROM uploads WHERE standing = 0 AND hardware LIKE '%\"library\":%' \
         ORDER BY received_at DESC, id DESC LIMIT ",
    );
    let rows: Vec<SaidRow> = db.fetch_all(select.push_bind(MOST)).await?;
    let uploads: Vec<Option<LibraryUpload>> =
        rows.into_iter().map(SaidRow::upload).collect::<Result<_, _>>()?;
    Ok(uploads.into_iter().flatten().collect())
}

impl SaidRow {
    /// `None` for an upload of several kinds of hardware: its solutions do not say which library was theirs.
    fn upload(self) -> Result<Option<LibraryUpload>, Damaged> {
        let receipts: Vec<HardwareReceipt> = from_json("upload's hardware", &self.hardware)?;
        let [receipt] = receipts.as_slice() else { return Ok(None) };
        let Some(library) = receipt.library.clone() else { return Ok(None) };
        Ok(Some(LibraryUpload {
            id: parse("upload id", self.id)?,
            of: LibraryOn { hardware: receipt.slug.clone(), library },
            received_at: self.received_at,
            problems: receipt.problems,
        }))
    }
}
