//! Lists of shapes in the forms that people have: a shape per line, CSV with a head, a log of Inductor, or
//! a file of `torch_diode.record()`.

use diode_ranking::Line;

use super::shapes::shapes;
use super::{log, recorded};
use crate::pages::predict::Defaults;

/// Reads a list in any of these forms.
pub(super) fn parse(text: &str, defaults: Defaults) -> Vec<Line> {
    // Spreadsheets begin a file with a byte-order mark, which is no part of the first cell.
    let text = text.trim_start_matches('\u{feff}');
    // The log is tried first, because a log may begin like JSON: `[rank0]: AUTOTUNE mm(…)`.
    log::read(text, defaults).or_else(|| recorded::read(text)).unwrap_or_else(|| shapes(text, defaults))
}

#[cfg(test)]
mod tests {
    use diode_core::{Bias, DType, Layout, Op};

    use super::*;

    #[test]
    fn a_log_may_begin_like_json() {
        let defaults =
            Defaults { op: Op::Mm, dtype: DType::BFloat16, b_layout: Layout::Row, bias: Bias::Matrix };
        let read = |text| parse(text, defaults).remove(0).problem.map(|problem| problem.canonical());
        assert_eq!(
            read("{\"num_choices\": 2}\n[rank0]: AUTOTUNE mm(64x32, 32x128)").as_deref(),
            Ok("mm;b=1;m=64;n=128;k=32;in=bfloat16,bfloat16;out=bfloat16;layout=row,row;bias=none")
        );
        assert!(read("[{\"op\": \"mm\"}]").is_err());
    }

    #[test]
    fn a_byte_order_mark_hides_no_head() {
        let defaults =
            Defaults { op: Op::Mm, dtype: DType::BFloat16, b_layout: Layout::Row, bias: Bias::Matrix };
        let lines = parse("\u{feff}k,m,n\r\n1,2,3\r\n", defaults);
        let problems: Vec<_> =
            lines.into_iter().map(|line| line.problem.map(|problem| problem.dims())).collect();
        assert_eq!(problems, [Ok("2×3×1".to_owned())]);
    }
}
