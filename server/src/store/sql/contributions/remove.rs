use std::collections::BTreeSet;

use diode_api::{ContributionState, ModelSource, ModelSummary, Uploads};
use diode_core::ids::{AccountId, HardwareSlug};

use super::read;
use crate::blobs::{BlobKey, BlobKind};
use crate::store::connection::Connection;
use crate::store::contributions::ContributionFilter;
use crate::store::error::StoreResult;
use crate::store::sql::publications;
use crate::store::statement::Statement;
use crate::store::types::Now;

/// The hardware of the models that an account has contributed.
pub(in crate::store::sql) async fn hardware_of_account(
    db: &mut Connection,
    account: &AccountId,
) -> StoreResult<BTreeSet<HardwareSlug>> {
    Ok(of_account(db, account).await?.into_iter().map(|model| model.hardware).collect())
}

async fn of_account(db: &mut Connection, account: &AccountId) -> StoreResult<Vec<ModelSummary>> {
    let filter = ContributionFilter { account: Some(account.clone()), state: None };
    read::list(db, &filter, u32::MAX).await
}

/// Removes the models that an account has contributed. Accepted models stay if the account's uploads stay. The
/// hardware must be locked. Returns the files.
pub(in crate::store::sql) async fn remove_of_account(
    db: &mut Connection,
    account: &AccountId,
    uploads: Uploads,
    now: Now,
) -> StoreResult<Vec<BlobKey>> {
    let mut files = Vec::new();
    for model in of_account(db, account).await? {
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
