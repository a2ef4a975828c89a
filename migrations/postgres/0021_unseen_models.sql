-- The models of a training's cross-validation in one file, for pages that compare what was measured with what a model
-- predicts that has not seen it.
CREATE TABLE unseen_models (
    model TEXT COLLATE "C" PRIMARY KEY REFERENCES models (id) ON DELETE CASCADE,
    file  BYTEA NOT NULL
);
