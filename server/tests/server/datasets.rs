use diode_formats::{Format, content_digest, decode, read_file, write_atomically};

use crate::samples::{collected, columnar, seven};
use crate::test_app::TestApp;

#[tokio::test]
async fn datasets_give_back_what_was_uploaded() {
    let app = TestApp::with_seven().await;
    let digest = content_digest(&[seven()]);
    for (extension, format) in [
        ("json", Format::PredecessorJson),
        ("msgpack", Format::PredecessorMsgpack),
        ("msgpack.zst", Format::Columnar),
    ] {
        let path = format!("/api/v1/datasets/nvidia-h200.{extension}");
        let reply = app.get(&path).await;
        assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
        let decoded = decode(&reply.body).unwrap();
        assert_eq!((decoded.format, content_digest(&decoded.datasets)), (format, digest.clone()));
        assert!(reply.header("content-disposition").contains(&format!("nvidia-h200.{extension}")));
        let again = app.get_with(&path, &[("if-none-match", reply.header("etag"))]).await;
        assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
    }
}

#[tokio::test]
async fn datasets_are_given_as_rows_too() {
    let app = TestApp::new().await;
    app.receipt(columnar(&collected())).await;
    let folder = tempfile::tempdir().unwrap();
    for (extension, format) in [("parquet", Format::Parquet), ("csv", Format::Csv)] {
        let reply = app.get(&format!("/api/v1/datasets/nvidia-h200.{extension}")).await;
        assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
        // The length is told even where the answer is compressed on its way. Parquet is not compressed.
        let length = reply.body.len().to_string();
        let path = format!("/api/v1/datasets/nvidia-h200.{extension}");
        let packed = app.get_with(&path, &[("accept-encoding", "gzip")]).await;
        assert_eq!((reply.header("diode-bytes"), packed.header("diode-bytes")), (&*length, &*length));
        assert_eq!(packed.header("content-encoding"), if extension == "csv" { "gzip" } else { "" });
        let path = folder.path().join(format!("rows.{extension}"));
        write_atomically(&path, &reply.body).unwrap();
        let read = read_file(&path).unwrap();
        let timings: usize = read.datasets.iter().map(|dataset| dataset.timings()).sum();
        assert_eq!((read.format, timings), (format, collected().timings()));
    }
}

#[tokio::test]
async fn a_format_that_would_lose_something_is_refused() {
    let app = TestApp::new().await;
    app.receipt(columnar(&collected())).await;
    let message = app.get("/api/v1/datasets/nvidia-h200.json").await.refusal(422, "refused");
    assert!(message.contains(".msgpack.zst"), "{message}");
    assert_eq!(app.get("/api/v1/datasets/nvidia-h200.msgpack.zst").await.status, 200);
}

#[tokio::test]
async fn unknown_datasets_are_not_found() {
    let app = TestApp::with_seven().await;
    for file in ["nvidia-z1.json", "nvidia-h200.xml", "nvidia-h200"] {
        app.get(&format!("/api/v1/datasets/{file}")).await.refusal(404, "not_found");
    }
}

#[tokio::test]
async fn unchanged_files_are_not_made_again() {
    let app = TestApp::with_seven().await;
    let paths = ["/api/v1/datasets/nvidia-h200.json", "/api/v1/tables/nvidia-h200.json?top=2"];
    let first = [app.get(paths[0]).await, app.get(paths[1]).await];
    for (path, first) in paths.into_iter().zip(&first) {
        let tag = first.header("etag");
        // As long as no upload changes a row, its columns are not read again.
        let options = app.data.database_url.parse::<sqlx::sqlite::SqliteConnectOptions>().unwrap();
        let raw = sqlx::SqlitePool::connect_with(options).await.unwrap();
        sqlx::query("UPDATE solutions SET columns = x'00'").execute(&raw).await.unwrap();
        raw.close().await;
        assert_eq!(app.get_with(path, &[("if-none-match", tag)]).await.status, 304);
        assert_eq!(app.get(path).await.body, first.body);
        let head = app.send(axum::http::Request::head(path).body(axum::body::Body::empty()).unwrap()).await;
        assert_eq!(
            (head.status.as_u16(), head.header("etag"), head.header("content-length")),
            (200, tag, &*first.body.len().to_string())
        );
    }
    let path = paths[1];
    let before = first[1].header("etag").to_owned();
    app.receipt(columnar(&collected())).await;
    assert_ne!(app.get(path).await.header("etag"), before);
}

#[tokio::test]
async fn parts_are_named_from_one_on() {
    let app = TestApp::with_seven().await;
    let path = "/api/v1/datasets/nvidia-h200.msgpack.zst";
    let part = app.get(&format!("{path}?part=1")).await;
    assert!(part.header("content-disposition").contains("nvidia-h200-part-1.msgpack.zst"));
    assert_eq!(decode(&part.body).unwrap().datasets[0].solutions.len(), 7);
    app.get(&format!("{path}?part=2")).await.refusal(404, "not_found");
    app.get(&format!("{path}?part=0")).await.refusal(400, "invalid");
}

/// As DuckDB and others read a file from afar: its length first, then parts of it.
#[tokio::test]
async fn datasets_are_read_in_parts() {
    let app = TestApp::new().await;
    app.receipt(columnar(&collected())).await;
    for extension in ["parquet", "csv", "msgpack.zst"] {
        let path = format!("/api/v1/datasets/nvidia-h200.{extension}");
        let head = app.send(axum::http::Request::head(&path).body(axum::body::Body::empty()).unwrap()).await;
        let whole = app.get(&path).await;
        let (tag, total) = (whole.header("etag"), whole.body.len());
        assert_eq!((head.status.as_u16(), head.body.len(), head.header("etag")), (200, 0, tag));
        for reply in [&head, &whole] {
            assert_eq!(reply.header("content-length"), total.to_string(), "{extension}");
        }
        // Text is compressed on its way, so only its parts say that there are parts.
        assert_eq!(head.header("accept-ranges"), if extension == "csv" { "" } else { "bytes" });
        for (range, expected) in [
            ("bytes=-8".to_owned(), total - 8..total),
            ("bytes=4-11".to_owned(), 4..12),
            (format!("bytes={}-", total - 100), total - 100..total),
        ] {
            let part = app.get_with(&path, &[("range", &*range), ("accept-encoding", "gzip")]).await;
            assert_eq!((part.status.as_u16(), part.header("etag")), (206, tag), "{extension} {range}");
            let (first, last) = (expected.start, expected.end - 1);
            assert_eq!(part.header("content-range"), format!("bytes {first}-{last}/{total}"));
            assert_eq!(part.header("content-length"), expected.len().to_string());
            assert_eq!((part.header("accept-ranges"), part.header("content-encoding")), ("bytes", ""));
            assert_eq!(part.body, whole.body[expected]);
        }
        let beyond = app.get_with(&path, &[("range", &*format!("bytes={total}-"))]).await;
        assert_eq!(beyond.header("content-range"), format!("bytes */{total}"));
        beyond.refusal(416, "no_such_range");
        let other = app.get_with(&path, &[("range", "bytes=0-3"), ("if-range", "\"older\"")]).await;
        assert_eq!((other.status.as_u16(), other.body.len()), (200, total));
    }
}
