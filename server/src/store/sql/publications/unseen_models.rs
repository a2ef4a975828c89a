//! The models of cross-validations. Each is stored with the model of its training.

use diode_api::ModelSummary;
use diode_core::ids::ModelId;

use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::statement::Statement;

/// Adds the models of a model's cross-validation unless the store has them. Removes such models of the hardware's
/// other models. Only the published model keeps them, too: pages show its predictions until a new model is
/// published.
pub(super) async fn add(db: &mut Connection, model: &ModelSummary, file: &[u8]) -> StoreResult<()> {
    let delete = Statement::new(
        "DELETE FROM unseen_models WHERE model IN \
         (SELECT id FROM models WHERE hardware = $1 AND heuristic = $2 AND state <> 'published')",
    );
    db.execute(delete.bind(model.hardware.as_str()).bind(model.heuristic.as_str())).await?;
    let insert =
        Statement::new("INSERT INTO unseen_models (model, file) VALUES ($1, $2) ON CONFLICT DO NOTHING");
    db.execute(insert.bind(model.id.as_str()).bind(file.to_vec())).await?;
    Ok(())
}

pub(super) async fn find(db: &mut Connection, model: &ModelId) -> StoreResult<Option<Vec<u8>>> {
    let select = Statement::new("SELECT file FROM unseen_models WHERE model = $1").bind(model.as_str());
    let row: Option<(Vec<u8>,)> = db.fetch_optional(select).await?;
    Ok(row.map(|(file,)| file))
}
