use std::fs::OpenOptions;
use std::path::Path;

use diode_core::{ConfigIndex, DType, Failure, FailureReason, Op, ProblemFields, TimeColumn};

use super::*;

fn problem(m: u64) -> Problem {
    Problem::new(ProblemFields::plain(Op::Mm, 1, m, 16, 16, DType::Float32)).unwrap()
}

fn failed() -> MeasuredConfigs {
    let library = Config::Library;
    MeasuredConfigs::all_failed(&[library], FailureReason::OutOfMemory)
}

fn output(path: &Path, chunk_size: Option<usize>) -> Output {
    Output::new(path, chunk_size, false).unwrap()
}

fn open(path: &Path, resume: bool) -> Collection {
    let hardware = Hardware::from_name("NVIDIA H200").unwrap();
    Collection::open(output(path, Some(2)), resume, hardware, Provenance::default()).unwrap()
}

#[test]
fn chunks_fill_up_and_are_resumed_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.msgpack.zst");
    let mut first = open(&path, false);
    for m in [1, 2, 3] {
        first.add(problem(m), Method::MEDIAN_COLD_EVENT, failed()).unwrap();
    }
    first.save().unwrap();
    assert!(
        Collection::open(output(&path, Some(2)), true, first.hardware.clone(), Provenance::default())
            .is_err()
    );
    drop(first);
    assert_eq!(output(&path, Some(2)).files().unwrap().len(), 2);

    let mut second = open(&path, true);
    assert_eq!(second.problems(), 3);
    assert!([3, 1, 2].iter().all(|&m| second.contains(&problem(m))) && !second.contains(&problem(4)));
    for m in [4, 5] {
        second.add(problem(m), Method::MEDIAN_COLD_EVENT, failed()).unwrap();
    }
    second.save().unwrap();
    let sizes: Vec<usize> = output(&path, Some(2))
        .files()
        .unwrap()
        .iter()
        .map(|file| diode_formats::read_file(file).unwrap().datasets[0].solutions.len())
        .collect();
    assert_eq!(sizes, [2, 2, 1]);
}

#[test]
fn chunks_are_never_written_over_when_one_is_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.msgpack.zst");
    let mut first = open(&path, false);
    for m in [1, 2, 3, 4] {
        first.add(problem(m), Method::MEDIAN_COLD_EVENT, failed()).unwrap();
    }
    first.save().unwrap();
    drop(first);
    std::fs::rename(folder.path().join("set_1.msgpack.zst"), folder.path().join("uploaded.msgpack.zst"))
        .unwrap();

    let mut second = open(&path, true);
    assert!(second.contains(&problem(3)) && !second.contains(&problem(1)));
    for m in [5, 6] {
        second.add(problem(m), Method::MEDIAN_COLD_EVENT, failed()).unwrap();
    }
    second.save().unwrap();
    let files = output(&path, Some(2)).files().unwrap();
    assert_eq!(files, [folder.path().join("set_2.msgpack.zst"), folder.path().join("set_3.msgpack.zst")]);
    let sizes = files.iter().map(|file| diode_formats::read_file(file).unwrap().datasets[0].solutions.len());
    assert_eq!(sizes.collect::<Vec<_>>(), [2, 2]);
    assert_eq!(output(&path, None).other_form().unwrap(), Some(files[0].clone()));
}

#[test]
fn problems_that_were_timed_with_other_configs_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut collection = open(&folder.path().join("set.msgpack.zst"), false);
    collection.add(problem(1), Method::MEDIAN_COLD_EVENT, failed()).unwrap();
    let problems = [problem(1), problem(2)];
    let count =
        |configs: Vec<Config>| collection.count_lacking_configs(&problems, &|_| Ok(configs.clone())).unwrap();
    assert_eq!(count(vec![Config::Library]), 0);
    assert_eq!(count(vec![Config::Library, Config::DecomposeK { k_split: 2 }]), 1);
}

#[test]
fn what_was_not_saved_is_taken_from_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.msgpack.zst");
    let journal = folder.path().join("set.msgpack.zst.journal");
    let mut killed = open(&path, false);
    for m in [1, 2, 3, 4] {
        killed.add(problem(m), Method::MEDIAN_COLD_EVENT, failed()).unwrap();
    }
    drop(killed);
    // Problems 1 and 2 were saved when they filled a file. Here the journal's last entry loses a byte.
    let bytes = std::fs::read(&journal).unwrap();
    OpenOptions::new().write(true).open(&journal).unwrap().set_len(bytes.len() as u64 - 1).unwrap();

    let resumed = open(&path, true);
    assert_eq!(resumed.problems(), 3);
    assert!(resumed.contains(&problem(3)) && !resumed.contains(&problem(4)));
    drop(resumed);
    assert!(!journal.exists());
    let files = output(&path, Some(2)).files().unwrap();
    assert_eq!(diode_formats::read_file(&files[1]).unwrap().datasets[0].solutions.len(), 1);
}

#[test]
fn what_another_collection_left_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.msgpack.zst");
    let hardware = Hardware::from_name("NVIDIA H200").unwrap();
    let anew = |chunks| {
        Collection::open(output(&path, chunks), false, hardware.clone(), Provenance::default()).err()
    };
    // The other collection ends after this output was checked and before this output is opened.
    let mut other = open(&path, false);
    assert!(anew(Some(2)).unwrap().to_string().contains("another diode"));
    for m in [1, 2] {
        other.add(problem(m), Method::MEDIAN_COLD_EVENT, failed()).unwrap();
    }
    other.save().unwrap();
    drop(other);
    assert!(anew(Some(2)).unwrap().to_string().contains("set_1.msgpack.zst exists"));
}

#[cfg(unix)]
#[test]
fn a_journal_that_is_a_link_is_refused_and_what_it_leads_to_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (path, precious) = (folder.path().join("set.msgpack.zst"), folder.path().join("precious"));
    diode_formats::write_atomically(&precious, b"precious").unwrap();
    std::os::unix::fs::symlink(&precious, folder.path().join("set.msgpack.zst.journal")).unwrap();
    let hardware = Hardware::from_name("NVIDIA H200").unwrap();
    let error = Collection::open(output(&path, None), true, hardware, Provenance::default())
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("not a regular file"), "{error}");
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
}

#[test]
fn a_columnar_file_keeps_all_that_was_measured() {
    let dataset = Dataset {
        hardware: Hardware::from_name("NVIDIA H100").unwrap(),
        provenance: Provenance::default(),
        configs: [Config::Library, Config::DecomposeK { k_split: 2 }].into_iter().collect(),
        solutions: vec![Solution {
            problem: Problem::new(ProblemFields::plain(Op::Mm, 1, 64, 64, 64, DType::Float16)).unwrap(),
            method: Method::MEDIAN_COLD_EVENT,
            configs: vec![ConfigIndex(0)],
            times: TimeColumn::Nanos(vec![5_000]),
            minimum_ns: Some(vec![4_990]),
            spread_ns: Some(vec![10]),
            repeats: Some(vec![3]),
            failures: vec![Failure { config: ConfigIndex(1), reason: FailureReason::Timeout }],
        }],
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.msgpack.zst");
    let output = Output::new(&file, None, false).unwrap();
    assert!(output.holds_everything());
    output.write(&file, &dataset).unwrap();
    assert_eq!(diode_formats::read_file(&file).unwrap().datasets, [dataset]);
}

#[test]
fn chunks_keep_the_whole_extension() {
    assert_eq!(numbered(Path::new("a/b.msgpack.zst"), 3).unwrap(), Path::new("a/b_3.msgpack.zst"));
    assert_eq!(numbered(Path::new("b.c.json"), 1).unwrap(), Path::new("b.c_1.json"));
    assert!(numbered(Path::new("/"), 1).is_err());
}
