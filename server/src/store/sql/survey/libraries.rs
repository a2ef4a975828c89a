use diode_api::{LibraryOn, LibraryUse};
use diode_core::ids::UploadId;

use crate::solutions::Damaged;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{parse, unsigned};
use crate::store::from_row::from_row;
use crate::store::statement::Statement;

struct UseRow {
    library: String,
    uploads: i64,
    problems: i64,
    newest_at: String,
}

from_row!(UseRow { library, uploads, problems, newest_at });

impl UseRow {
    fn read(self) -> Result<LibraryUse, Damaged> {
        Ok(LibraryUse {
            name: parse("library", self.library)?,
            uploads: unsigned("upload count", self.uploads)?,
            problems: unsigned("problem count", self.problems)?,
            newest_at: self.newest_at,
        })
    }
}

/// The query and the index have the same condition, so that the index is used.
pub(super) async fn list(db: &mut Connection, newest: u32) -> StoreResult<Vec<LibraryUse>> {
    let select = Statement::new(
        "SELECT library, COUNT(*) AS uploads, CAST(SUM(library_problems) AS BIGINT) AS problems, \
         MAX(received_at) AS newest_at FROM uploads WHERE standing = 0 AND library IS NOT NULL \
         GROUP BY library ORDER BY newest_at DESC, library LIMIT $1",
    );
    let mut rows: Vec<UseRow> = db.fetch_all(select.bind(i64::from(newest))).await?;
    rows.sort_by(|a, b| a.library.cmp(&b.library));
    Ok(rows.into_iter().map(UseRow::read).collect::<Result<_, _>>()?)
}

pub(super) async fn uploads(
    db: &mut Connection,
    library: &LibraryOn,
    limit: u32,
) -> StoreResult<Vec<UploadId>> {
    let select = Statement::new(
        "SELECT id FROM uploads WHERE standing = 0 AND library IS NOT NULL AND library = $1 \
         ORDER BY received_at DESC, id DESC LIMIT $2",
    );
    let rows: Vec<(String,)> = db.fetch_all(select.bind(library.to_string()).bind(i64::from(limit))).await?;
    Ok(rows.into_iter().map(|(id,)| parse("upload id", id)).collect::<Result<_, Damaged>>()?)
}
