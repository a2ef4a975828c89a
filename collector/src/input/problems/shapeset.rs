//! Reads problems from a file of shapes.

use std::path::Path;

use anyhow::bail;
use diode_core::{Op, Problem};
use diode_formats::ShapeSet;

/// Reads the problems of a shape set, in the order of the file. `ops` chooses among the ops; if it
/// is empty, all are chosen. The second value says how many repeated problems were left out.
pub(crate) fn read_shapeset(path: &Path, ops: &[Op]) -> anyhow::Result<(Vec<Problem>, usize)> {
    let mut set = diode_formats::read_shapes(path)?;
    let all = choose(&mut set, ops);
    let problems = set.distinct();
    if problems.is_empty() {
        bail!(
            "{}: none of its {all} shapes is of the chosen ops; choose others with --ops, or give another file",
            path.display()
        );
    }
    let repeated = set.problems.len() - problems.len();
    Ok((problems, repeated))
}

/// Keeps the problems of the chosen ops. Returns how many problems there were before.
fn choose(set: &mut ShapeSet, ops: &[Op]) -> usize {
    let all = set.problems.len();
    set.problems.retain(|problem| ops.is_empty() || ops.contains(&problem.op));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_are_chosen_and_repeats_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shapes.csv");
        let text = "name,B,M,K,N,Transposed\nmm,1,4,2,8,False\nmm,1,4,2,8,False\naddmm,1,4,2,8,True\n";
        diode_formats::write_atomically(&path, text.as_bytes()).unwrap();
        let (problems, repeated) = read_shapeset(&path, &[]).unwrap();
        assert_eq!((problems.len(), repeated), (2, 1));
        assert_eq!(read_shapeset(&path, &[Op::Addmm]).unwrap().0[0].op, Op::Addmm);
        let error = read_shapeset(&path, &[Op::Bmm]).unwrap_err().to_string();
        assert!(error.contains("none of its 3 shapes"), "{error}");
    }
}
