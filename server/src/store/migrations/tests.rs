//! Databases of earlier versions, migrated to the newest.

use super::*;

/// Two entries that the second migration changes, as the first migration left them. One has an infinite rate;
/// the rate of the other is plausible.
const ROWS: &str = "
    INSERT INTO hardware (slug, name, vendor, updated_at) VALUES ('h', 'H', 'nvidia', '2026');
    INSERT INTO problems (id, canonical, op, b, m, n, k, a_dtype, b_layout, flops, fields) VALUES
        ('p', 'p', 'mm', 1, 2, 3, 4, 'int32', 'row', 48, '{}'),
        ('q', 'q', 'mm', 1, 2, 3, 4, 'float16', 'row', 48, '{}');
    INSERT INTO entries (hardware, problem, method, best, best_ns, tflops, roofline_share,
                         gain_over_defaults, library_ns, configs, timings, solutions) VALUES
        ('h', 'p', 'unspecified', '{}', 1, 1e308 * 10, NULL, 1e308 * 10, NULL, 1, 1, 1),
        ('h', 'q', 'unspecified', '{}', 1, 7, 0.5, 2, NULL, 1, 1, 1);";

const MIGRATED: &str =
    "SELECT tflops, gain_over_defaults, m, (SELECT state FROM hardware) FROM entries ORDER BY problem";

type Row = (Option<f64>, Option<f64>, i64, String);

fn migrated() -> [Row; 2] {
    [(None, None, 2, "2026".to_owned()), (Some(7.0), Some(2.0), 2, "2026".to_owned())]
}

#[tokio::test]
async fn boards_of_the_first_version_are_kept_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("first.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    migrator(&SQLITE[..1]).run(&pool).await.unwrap();
    sqlx::raw_sql(ROWS).execute(&pool).await.unwrap();
    sqlite().run(&pool).await.unwrap();
    assert_eq!(sqlx::query_as::<_, Row>(MIGRATED).fetch_all(&pool).await.unwrap(), migrated());
}

#[tokio::test]
async fn solutions_of_the_third_version_stay_whose_they_were_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("third.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    migrator(&SQLITE[..3]).run(&pool).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(SENT.replace("'')", "x'')").replace("'', 1", "x'', 1")))
        .execute(&pool)
        .await
        .unwrap();
    sqlite().run(&pool).await.unwrap();
    assert_eq!(sqlx::query_as::<_, Whose>(WHOSE).fetch_all(&pool).await.unwrap(), whose());
}

/// Makes a Postgres database with the tables of an earlier version and these rows, migrates it, and returns the
/// result of a query.
async fn migrated_on_postgres<T>(name: &str, versions: usize, rows: &str, query: &'static str) -> Vec<T>
where
    T: for<'r> sqlx::FromRow<'r, sqlx::postgres::PgRow> + Send + Unpin,
{
    let base = std::env::var("DIODE_TEST_POSTGRES_URL").expect("DIODE_TEST_POSTGRES_URL: a Postgres server");
    let base = base.trim_end_matches('/');
    let name = format!("diode_migrations_{name}_{}", std::process::id());
    let admin = sqlx::PgPool::connect(&format!("{base}/postgres")).await.unwrap();
    let statement = |verb: &str| sqlx::AssertSqlSafe(format!("{verb} {name}"));
    sqlx::query(statement("DROP DATABASE IF EXISTS")).execute(&admin).await.unwrap();
    sqlx::query(statement("CREATE DATABASE")).execute(&admin).await.unwrap();
    let pool = sqlx::PgPool::connect(&format!("{base}/{name}")).await.unwrap();
    migrator(&POSTGRES[..versions]).run(&pool).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(rows.to_owned())).execute(&pool).await.unwrap();
    postgres().run(&pool).await.unwrap();
    let found = sqlx::query_as::<_, T>(query).fetch_all(&pool).await.unwrap();
    pool.close().await;
    sqlx::query(statement("DROP DATABASE")).execute(&admin).await.unwrap();
    found
}

#[tokio::test]
async fn boards_of_the_first_version_are_kept_on_postgres() {
    let rows = ROWS.replace("1e308 * 10", "'Infinity'");
    assert_eq!(migrated_on_postgres::<Row>("first", 1, &rows, MIGRATED).await, migrated());
}

#[tokio::test]
async fn solutions_of_the_third_version_stay_whose_they_were_on_postgres() {
    assert_eq!(migrated_on_postgres::<Whose>("third", 3, SENT, WHOSE).await, whose());
}

/// Two solutions, one with an account and one without, as the third migration left them.
const SENT: &str = "
    INSERT INTO hardware (slug, name, vendor) VALUES ('h', 'H', 'nvidia');
    INSERT INTO problems (id, canonical, op, b, m, n, k, a_dtype, b_layout, flops, fields) VALUES
        ('p', 'p', 'mm', 1, 2, 3, 4, 'float16', 'row', 48, '{}');
    INSERT INTO accounts (id, name, admin, created_at) VALUES ('a', 'ada', 0, '2026');
    INSERT INTO config_lists (digest, packed) VALUES ('c', '');
    INSERT INTO uploads (id, digest, bytes, format, received_at, hardware, new_solutions,
                         duplicate_solutions, account) VALUES
        ('u', 'u', 1, 'columnar', '2026', '[]', 1, 0, 'a'), ('v', 'v', 1, 'columnar', '2026', '[]', 1, 0, NULL);
    INSERT INTO solutions (digest, hardware, problem, method, upload, config_list, columns, timings, failures)
    VALUES ('s', 'h', 'p', 'unspecified', 'u', 'c', '', 1, 0),
           ('t', 'h', 'p', 'median-cold-event', 'v', 'c', '', 1, 0);";

const WHOSE: &str = "SELECT s.digest, s.contributor, n.upload, s.standing FROM solutions s \
                     JOIN sent n ON n.solution = s.id JOIN stale_entries e ON e.method = s.method \
                     ORDER BY s.digest";

type Whose = (String, Option<String>, String, i64);

fn whose() -> [Whose; 2] {
    let row = |digest: &str, contributor: Option<&str>, upload: &str| {
        (digest.to_owned(), contributor.map(str::to_owned), upload.to_owned(), 0)
    };
    [row("s", Some("a"), "u"), row("t", None, "v")]
}

/// Two models, as the sixth migration left them.
const MODELS: &str = "
    INSERT INTO hardware (slug, name, vendor) VALUES ('h', 'H', 'nvidia');
    INSERT INTO models (id, heuristic, hardware, summary) VALUES
        ('a', 'matmul', 'h', '{\"created_at\":\"2026\"}'), ('b', 'matmul', 'h', '{\"created_at\":\"2027\"}');";

const PUBLISHED: &str = "SELECT m.id, m.state, p.at FROM models m JOIN publications p ON p.model = m.id \
                         ORDER BY p.position";

type Published = (String, String, String);

fn published() -> [Published; 2] {
    [("a", "earlier", "2026"), ("b", "published", "2027")]
        .map(|(id, state, at)| (id.to_owned(), state.to_owned(), at.to_owned()))
}

#[tokio::test]
async fn the_newest_model_of_the_sixth_version_is_published_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sixth.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    migrator(&SQLITE[..6]).run(&pool).await.unwrap();
    sqlx::raw_sql(MODELS).execute(&pool).await.unwrap();
    sqlite().run(&pool).await.unwrap();
    assert_eq!(sqlx::query_as::<_, Published>(PUBLISHED).fetch_all(&pool).await.unwrap(), published());
}

#[tokio::test]
async fn the_newest_model_of_the_sixth_version_is_published_on_postgres() {
    assert_eq!(migrated_on_postgres::<Published>("sixth", 6, MODELS, PUBLISHED).await, published());
}

const LICENCES: &str = "SELECT u.id, u.licence, u.licence_basis, u.terms, \
                        (SELECT COUNT(*) FROM agreements) FROM uploads u ORDER BY u.id";

type Licence = (String, String, String, Option<i64>, i64);

/// The licence of uploads from before there were terms: the licence that pages stated. Nobody agreed to terms.
fn licences() -> [Licence; 2] {
    ["u", "v"].map(|id| (id.to_owned(), "MIT OR Apache-2.0".to_owned(), "before-terms".to_owned(), None, 0))
}

#[tokio::test]
async fn uploads_before_the_terms_have_the_licence_that_pages_stated_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stated.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    migrator(&SQLITE[..3]).run(&pool).await.unwrap();
    let rows = SENT.replace("'')", "x'')").replace("'', 1", "x'', 1");
    sqlx::raw_sql(sqlx::AssertSqlSafe(rows)).execute(&pool).await.unwrap();
    sqlite().run(&pool).await.unwrap();
    assert_eq!(sqlx::query_as::<_, Licence>(LICENCES).fetch_all(&pool).await.unwrap(), licences());
}

#[tokio::test]
async fn uploads_before_the_terms_have_the_licence_that_pages_stated_on_postgres() {
    assert_eq!(migrated_on_postgres::<Licence>("stated", 3, SENT, LICENCES).await, licences());
}

/// An account and a link for its password, as the fourteenth migration left them.
const LINKED: &str = "
    INSERT INTO accounts (id, name, admin, created_at) VALUES ('a', 'ada', 0, '2026');
    INSERT INTO links (secret, kind, account, expires) VALUES ('s', 'password', 'a', 1);";

const ADDRESSES: &str = "SELECT a.name, a.email, l.kind, l.email FROM accounts a \
                         JOIN links l ON l.account = a.id";

type Addresses = (String, Option<String>, String, Option<String>);

fn addresses() -> [Addresses; 1] {
    [("ada".to_owned(), None, "password".to_owned(), None)]
}

#[tokio::test]
async fn accounts_of_the_fourteenth_version_have_no_address_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fourteenth.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    migrator(&SQLITE[..14]).run(&pool).await.unwrap();
    sqlx::raw_sql(LINKED).execute(&pool).await.unwrap();
    sqlite().run(&pool).await.unwrap();
    assert_eq!(sqlx::query_as::<_, Addresses>(ADDRESSES).fetch_all(&pool).await.unwrap(), addresses());
}

#[tokio::test]
async fn accounts_of_the_fourteenth_version_have_no_address_on_postgres() {
    let found = migrated_on_postgres::<Addresses>("fourteenth", 14, LINKED, ADDRESSES).await;
    assert_eq!(found, addresses());
}

/// A model, and uploads as the fifteenth migration left them. The uploads have one library, two or none, and
/// one is damaged.
const BESIDE: &str = r#"
    INSERT INTO hardware (slug, name, vendor) VALUES ('h', 'H', 'nvidia');
    INSERT INTO uploads (id, digest, bytes, format, received_at, hardware, new_solutions, duplicate_solutions) VALUES
        ('a', 'a', 1, 'columnar', '2026',
         '[{"slug":"h","name":"\"library\":\"x\" \"slug\":","problems":7,"timings":9,"library":"cublas-13"}]', 1, 0),
        ('b', 'b', 1, 'columnar', '2026',
         '[{"slug":"h","problems":1,"library":"cublas-13"},{"slug":"i","problems":1,"library":"cublas-13"}]', 1, 0),
        ('c', 'c', 1, 'columnar', '2026', '[{"slug":"h","name":"H","problems":1}]', 1, 0),
        ('d', 'd', 1, 'columnar', '2026', '"library": is damaged', 1, 0);
    INSERT INTO contributed_models
        (id, hardware, state, sent_at, description, licence, without_kept, summary, job) VALUES
        ('m', 'h', 'waiting', '2026', 'd', 'MIT', 1, '{"id":"m","bytes":30000,"data":"x"}', 'j'),
        ('n', 'h', 'waiting', '2026', 'd', 'MIT', 1, 'damaged', 'k');"#;

const SUMMED: &str = "SELECT id, library, library_problems FROM uploads \
                      UNION ALL SELECT id, NULL, bytes FROM contributed_models ORDER BY id";

type Summed = (String, Option<String>, Option<i64>);

fn summed() -> Vec<Summed> {
    let row = |id: &str, library: Option<&str>, number| (id.to_owned(), library.map(str::to_owned), number);
    vec![
        row("a", Some("h@cublas-13"), Some(7)),
        row("b", None, None),
        row("c", None, None),
        row("d", None, None),
        row("m", None, Some(30_000)),
        row("n", None, Some(0)),
    ]
}

#[tokio::test]
async fn what_receipts_and_models_of_the_fifteenth_version_say_is_kept_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fifteenth.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    migrator(&SQLITE[..15]).run(&pool).await.unwrap();
    sqlx::raw_sql(BESIDE).execute(&pool).await.unwrap();
    sqlite().run(&pool).await.unwrap();
    assert_eq!(sqlx::query_as::<_, Summed>(SUMMED).fetch_all(&pool).await.unwrap(), summed());
}

#[tokio::test]
async fn what_receipts_and_models_of_the_fifteenth_version_say_is_kept_on_postgres() {
    assert_eq!(migrated_on_postgres::<Summed>("fifteenth", 15, BESIDE, SUMMED).await, summed());
}

/// A database of each earlier version is migrated to the newest and keeps its rows.
#[tokio::test]
async fn every_earlier_version_is_brought_up_to_date_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    for versions in 1..SQLITE.len() {
        let file = folder.path().join(format!("{versions}.db"));
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file).create_if_missing(true);
        let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
        migrator(&SQLITE[..versions]).run(&pool).await.unwrap();
        sqlx::raw_sql(PROBLEM).execute(&pool).await.unwrap();
        sqlite().run(&pool).await.unwrap();
        let kept: Vec<(String,)> = sqlx::query_as(KEPT).fetch_all(&pool).await.unwrap();
        assert_eq!(kept, [("p".to_owned(),)], "from version {versions}");
    }
}

#[tokio::test]
async fn every_earlier_version_is_brought_up_to_date_on_postgres() {
    for versions in 1..POSTGRES.len() {
        let name = format!("version_{versions}");
        let kept = migrated_on_postgres::<(String,)>(&name, versions, PROBLEM, KEPT).await;
        assert_eq!(kept, [("p".to_owned(),)], "from version {versions}");
    }
}

/// Rows that every version can hold.
const PROBLEM: &str = "
    INSERT INTO hardware (slug, name, vendor) VALUES ('h', 'H', 'nvidia');
    INSERT INTO problems (id, canonical, op, b, m, n, k, a_dtype, b_layout, flops, fields) VALUES
        ('p', 'p', 'mm', 1, 2, 3, 4, 'float16', 'row', 48, '{}');";

const KEPT: &str = "SELECT problems.id FROM problems, hardware WHERE hardware.slug = 'h'";

#[test]
fn every_migration_file_is_embedded() {
    for (folder, embedded) in [("sqlite", SQLITE), ("postgres", POSTGRES)] {
        let files = std::fs::read_dir(format!("../migrations/{folder}")).unwrap();
        let mut files: Vec<_> = files.map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        let names: Vec<_> = embedded.iter().map(|(v, name, _)| format!("{v:04}_{name}.sql")).collect();
        assert_eq!(files, names, "{folder}");
    }
}
