use std::collections::BTreeSet;

use diode_core::api::{ContributionState, ModelSource, Uploads};
use diode_core::ids::AccountId;

use super::read;
use crate::blobs::{BlobKey, BlobKind};
use crate::store::contributions::ContributionFilter;
use crate::store::error::StoreResult;
use crate::store::sql::connection::Connection;
use crate::store::sql::statement::Statement;
use crate::store::sql::{hardware, publications};
use crate::store::types::Now;

/// Takes the models away that an account has contributed. Those that are among the server's stay if its uploads
/// do. Returns their files.
pub(in crate::store::sql) async fn remove_of_account(
    db: &mut impl Connection,
    account: &AccountId,
    uploads: Uploads,
    now: Now,
) -> StoreResult<Vec<BlobKey>> {
    let filter = ContributionFilter { account: Some(account.clone()), state: None };
    let all = read::list(db, &filter, u32::MAX).await?;
    let slugs: BTreeSet<_> = all.iter().map(|model| &model.hardware).collect();
    for slug in slugs {
        hardware::lock(db, slug).await?;
    }
    let mut files = Vec::new();
    // Read again: an administrator may have been first.
    for model in read::list(db, &filter, u32::MAX).await? {
        let state = model.contribution.as_ref().map(|contribution| contribution.state);
        let is_accepted = state == Some(ContributionState::Accepted);
        if is_accepted && uploads == Uploads::Keep {
            continue;
        }
        if is_accepted && model.source == ModelSource::Contributed {
            publications::take_away(db, &model, "its contributor has deleted it", now).await?;
        }
        let delete = Statement::new("DELETE FROM contributed_models WHERE id = $1").bind(model.id.as_str());
        db.execute(delete).await?;
        files.push((BlobKind::Model, model.digest));
    }
    Ok(files)
}
