//! The entries of hardware in memory, as far as boards filter, sort and add them up. Only the entries that a page shows
//! are read whole.
//!
//! Each entry says at which revision of its hardware it changed. So after an upload, only what it changed is read.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use diode_api::{KernelResult, Kernels, LeaderboardSort, ProblemFilter, SortOrder};
use diode_core::ids::{HardwareSlug, ProblemId};
use diode_core::{Method, Problem};

use crate::boards::board_store::{Cursor, Ranking, problem_of};
use crate::boards::consensus::BoardEntry;
use crate::boards::entry_store::read_entry;
use crate::store::connection::Connection;
use crate::store::fields::parse;
use crate::store::statement::{ROWS_PER_STATEMENT, Statement};
use crate::store::{Store, StoreResult};
use crate::uploads::solutions::Damaged;

/// How many entries are kept of all hardware together, at some 500 bytes each. More are kept only of a single hardware.
const MAX_KEPT: usize = 300_000;

/// How many entries are read at a time. Each takes some 2 kB until it is listed.
const READ_AT_ONCE: i64 = 2_000;

const SELECT: &str = "SELECT e.problem, p.fields, e.method, e.entry FROM entries e JOIN problems p ON p.id = e.problem \
                      WHERE e.hardware = ";

/// The problem's id, its fields, the method and the entry.
type Row = (String, String, String, String);

/// Whole entries by problem and method.
pub(crate) type WholeEntries = HashMap<(ProblemId, Method), BoardEntry>;

/// The figures of one kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) us: f64,
    pub(crate) tflops: Option<f64>,
    pub(crate) roofline_share: Option<f64>,
    pub(crate) gain: Option<f64>,
}

impl Figures {
    fn of(kernel: &KernelResult) -> Self {
        let KernelResult { us, tflops, roofline_share, gain_over_defaults: gain, .. } = *kernel;
        Self { us, tflops, roofline_share, gain }
    }
}

/// An entry, as far as it is in memory.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) id: ProblemId,
    pub(crate) problem: Problem,
    pub(crate) method: Method,
    pub(crate) timings: u64,
    pub(crate) solutions: u64,
    pub(crate) best: Figures,
    pub(crate) triton: Option<Figures>,
    pub(crate) library: Option<Figures>,
    pub(crate) triton_over_library: Option<f64>,
    /// M, N and K of the tile of the best Triton config.
    pub(crate) tile: Option<[u32; 3]>,
    /// Whether that config rounds float32 to TF32.
    pub(crate) triton_rounds: bool,
}

impl Listed {
    fn read((id, fields, method, entry): Row) -> Result<Self, Damaged> {
        let problem = problem_of(&fields)?;
        let entry: BoardEntry = read_entry(&entry)?;
        let triton = entry.triton.as_ref();
        let tile = triton.and_then(|triton| triton.config.tile());
        Ok(Self {
            id: parse("problem id", id)?,
            method: parse("method", method)?,
            timings: entry.timings,
            solutions: entry.solutions,
            best: Figures {
                us: entry.best_us,
                tflops: entry.tflops,
                roofline_share: entry.roofline_share,
                gain: entry.gain_over_defaults,
            },
            triton: triton.map(Figures::of),
            library: entry.library.as_ref().map(Figures::of),
            triton_over_library: entry.triton_over_library,
            tile: tile.map(|tile| [tile.block_m, tile.block_n, tile.block_k]),
            triton_rounds: triton.is_some_and(|triton| triton.config.rounds(&problem)),
            problem,
        })
    }

    fn key(&self) -> (&ProblemId, Method) {
        (&self.id, self.method)
    }

    pub(crate) fn of(&self, kernels: Kernels) -> Option<&Figures> {
        match kernels {
            Kernels::Everything => Some(&self.best),
            Kernels::Triton => self.triton.as_ref(),
            Kernels::Library => self.library.as_ref(),
        }
    }

    fn value(&self, sort: LeaderboardSort, kernels: Kernels) -> Option<f64> {
        let figures = self.of(kernels);
        match sort {
            LeaderboardSort::Tflops => figures?.tflops,
            LeaderboardSort::Time => Some(figures?.us),
            LeaderboardSort::Roofline => figures?.roofline_share,
            LeaderboardSort::Gain => figures?.gain,
            LeaderboardSort::Ratio => self.triton_over_library,
            LeaderboardSort::Flops => Some(self.problem.flops()),
        }
    }

    /// Where the entry is on a board.
    pub(crate) fn place(&self, ranking: Ranking) -> Cursor {
        let value = self.value(ranking.sort, ranking.kernels);
        Cursor { value, problem: self.id.clone(), method: self.method }
    }

    /// The order of two entries on a board. Entries without the value come last in either direction.
    fn compare(&self, other: &Self, Ranking { kernels, sort, order }: Ranking) -> Ordering {
        let (own, others) = (self.value(sort, kernels), other.value(sort, kernels));
        in_order((own, self.key()), (others, other.key()), order)
    }
}

fn in_order(
    (a, a_key): (Option<f64>, (&ProblemId, Method)),
    (b, b_key): (Option<f64>, (&ProblemId, Method)),
    order: SortOrder,
) -> Ordering {
    a.is_none().cmp(&b.is_none()).then_with(|| {
        let values = a.unwrap_or_default().total_cmp(&b.unwrap_or_default());
        // What breaks ties has the same direction.
        let ascending = values.then_with(|| a_key.cmp(&b_key));
        if order == SortOrder::Ascending { ascending } else { ascending.reverse() }
    })
}

/// All entries of a hardware, at one revision, in the order of problems and methods.
#[derive(Debug, Default)]
pub(crate) struct Board {
    pub(crate) revision: i64,
    pub(crate) entries: Vec<Listed>,
    /// What is wrong with an entry that cannot be read.
    pub(crate) damaged: Option<String>,
}

impl Board {
    /// The entries that pass a filter. As problem ids are digests, the first ones are an even sample.
    pub(crate) fn passing(&self, filter: &ProblemFilter) -> impl Iterator<Item = &Listed> {
        self.entries.iter().filter(|entry| {
            filter.method.is_none_or(|method| method == entry.method) && filter.admits(&entry.problem)
        })
    }

    /// The entry of a problem by a method.
    pub(crate) fn find(&self, id: &ProblemId, method: Method) -> Option<&Listed> {
        let place = self.entries.binary_search_by(|entry| entry.key().cmp(&(id, method)));
        self.entries.get(place.ok()?)
    }

    /// On how many problems the kernels were timed.
    pub(crate) fn timed_problems(&self, kernels: Kernels, filter: &ProblemFilter) -> u64 {
        let timed = self.passing(filter).filter(|entry| entry.of(kernels).is_some());
        timed.map(|entry| &entry.id).collect::<BTreeSet<_>>().len() as u64
    }

    fn add(&mut self, rows: Vec<Row>) {
        let found = self.entries.len();
        for row in rows {
            match Listed::read(row) {
                Ok(listed) => {
                    let known = &mut self.entries[..found];
                    match known.binary_search_by(|entry| entry.key().cmp(&listed.key())) {
                        Ok(place) => known[place] = listed,
                        Err(_) => self.entries.push(listed),
                    }
                }
                Err(damaged) => self.damaged = Some(damaged.to_string()),
            }
        }
        self.entries.sort_by(|a, b| a.key().cmp(&b.key()));
    }
}

/// Sorts the entries that follow `after`, as far as `limit` of them go.
pub(crate) fn page<'b>(
    mut entries: Vec<&'b Listed>,
    ranking: Ranking,
    after: Option<&Cursor>,
    limit: usize,
) -> Vec<&'b Listed> {
    if let Some(Cursor { value, problem, method }) = after {
        entries.retain(|entry| {
            let own = (entry.value(ranking.sort, ranking.kernels), entry.key());
            in_order(own, (*value, (problem, *method)), ranking.order) == Ordering::Greater
        });
    }
    if entries.len() > limit {
        entries.select_nth_unstable_by(limit, |a, b| a.compare(b, ranking));
        entries.truncate(limit);
    }
    entries.sort_unstable_by(|a, b| a.compare(b, ranking));
    entries
}

/// The boards in memory.
#[derive(Default)]
pub(crate) struct Boards {
    kept: Mutex<HashMap<HardwareSlug, Arc<Board>>>,
    /// Only one task reads at a time. The others then find what it has read.
    reading: tokio::sync::Mutex<()>,
}

impl Boards {
    pub(crate) fn kept(&self, slug: &HardwareSlug) -> Option<Arc<Board>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(slug).cloned()
    }

    fn keep(&self, slug: &HardwareSlug, board: Arc<Board>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(slug.clone(), board);
        let mut sum: usize = kept.values().map(|board| board.entries.len()).sum();
        kept.retain(|other, board| {
            let stays = sum <= MAX_KEPT || other == slug;
            sum -= if stays { 0 } else { board.entries.len() };
            stays
        });
    }
}

impl Store {
    /// The entries of a hardware. Unknown hardware has none.
    pub(crate) async fn board(&self, slug: &HardwareSlug) -> StoreResult<Arc<Board>> {
        let revision = self.hardware_revision(slug).await?;
        match self.boards.kept(slug) {
            Some(board) if Some(board.revision) == revision => Ok(board),
            _ => Ok(self.board_now(slug).await?.1),
        }
    }

    /// The entries of a hardware, with a transaction that sees the same state.
    pub(crate) async fn board_now(&self, slug: &HardwareSlug) -> StoreResult<(Connection, Arc<Board>)> {
        // Transactions begin in turn, so that none sees an earlier state than what is kept.
        let _turn = self.boards.reading.lock().await;
        let mut db = self.read_transaction().await?;
        let Some(revision) = db.hardware_revision(slug).await? else { return Ok((db, Arc::default())) };
        let board = match self.boards.kept(slug) {
            Some(board) if board.revision == revision => board,
            kept => {
                let board = Arc::new(db.read_board(slug, revision, kept).await?);
                self.boards.keep(slug, Arc::clone(&board));
                board
            }
        };
        Ok((db, board))
    }
}

impl Connection {
    async fn read_board(
        &mut self,
        slug: &HardwareSlug,
        revision: i64,
        kept: Option<Arc<Board>>,
    ) -> StoreResult<Board> {
        if let Some(kept) = kept.filter(|kept| kept.revision < revision) {
            let changed = Statement::new(SELECT)
                .push_bind(slug.as_str())
                .push(" AND e.changed > ")
                .push_bind(kept.revision);
            let rows: Vec<Row> = self.fetch_all(changed).await?;
            let count =
                Statement::new("SELECT COUNT(*) FROM entries WHERE hardware = $1").bind(slug.as_str());
            let (count,): (i64,) = self.fetch_one(count).await?;
            let board = tokio::task::spawn_blocking(move || {
                let mut board = Board { revision, entries: kept.entries.clone(), damaged: None };
                board.add(rows);
                board
            });
            let board = board.await?;
            // If there are fewer, some were removed.
            if board.entries.len() as i64 == count {
                return Ok(board);
            }
        }
        let mut board = Board { revision, ..Board::default() };
        let mut last = (String::new(), String::new());
        loop {
            let some = Statement::new(SELECT)
                .push_bind(slug.as_str())
                .push(" AND (e.problem, e.method) > (")
                .push_list([last.0.as_str(), last.1.as_str()])
                .push(") ORDER BY e.problem, e.method LIMIT ")
                .push_bind(READ_AT_ONCE);
            let rows: Vec<Row> = self.fetch_all(some).await?;
            let Some((id, _, method, _)) = rows.last() else { return Ok(board) };
            last = (id.clone(), method.clone());
            board = tokio::task::spawn_blocking(move || {
                board.add(rows);
                board
            })
            .await?;
        }
    }

    /// The whole entries of some problems, by problem and method, and the revision at which they are this. `None` if there
    /// are none.
    pub(crate) async fn whole_entries(
        &mut self,
        slug: &HardwareSlug,
        problems: &[&ProblemId],
    ) -> StoreResult<(Option<i64>, WholeEntries)> {
        let (mut revision, mut found) = (None, HashMap::with_capacity(problems.len()));
        for some in problems.chunks(ROWS_PER_STATEMENT) {
            let select = Statement::new("SELECT (SELECT revision FROM hardware WHERE slug = ")
                .push_bind(slug.as_str())
                .push("), problem, method, entry FROM entries WHERE hardware = ")
                .push_bind(slug.as_str())
                .push(" AND problem IN (")
                .push_list(some.iter().map(|id| id.as_str()))
                .push(")");
            let rows: Vec<(i64, String, String, String)> = self.fetch_all(select).await?;
            for (at, id, method, entry) in rows {
                revision = Some(at);
                found.insert((parse("problem id", id)?, parse("method", method)?), read_entry(&entry)?);
            }
        }
        Ok((revision, found))
    }
}
