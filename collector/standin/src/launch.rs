//! Launches: reads their arguments and checks them against what the kernel was compiled for.

use std::ffi::c_void;

use diode_core::Scaling;

use crate::kernel::{Bias, Computation, Kernel, Multiply, Serve, ServeKind};
use crate::memory::{Memory, Outside};
use crate::number::Number;
use crate::product::{Matrix, Product, Row, Scales, Served};

/// The arguments of a launch, read one after the other.
pub(crate) struct Arguments {
    next: *const *const c_void,
}

impl Arguments {
    pub(crate) fn new(pointers: *mut *mut c_void) -> Self {
        Self { next: pointers.cast_const().cast() }
    }

    fn take<T: Copy>(&mut self) -> T {
        // SAFETY: the caller passes as many pointers as the kernel has arguments. Each of them
        // leads to a value.
        unsafe {
            let value = self.next.read().cast::<T>().read();
            self.next = self.next.add(1);
            value
        }
    }

    fn pointer(&mut self) -> u64 {
        self.take()
    }

    fn size(&mut self) -> u64 {
        u64::from(self.take::<u32>())
    }

    fn wide(&mut self) -> u64 {
        self.take()
    }

    fn float(&mut self) -> f64 {
        self.take::<f32>().into()
    }

    /// Reads Triton's own two pointers. Few kernels have scratch memory, of which each block needs `bytes`.
    fn end(&mut self, blocks: u32, bytes: u64, memory: &mut Memory) -> Result<(), String> {
        let [scratch, profile]: [u64; 2] = [self.take(), self.take()];
        expect("the profile pointer", profile, 0)?;
        expect("whether there is scratch memory", scratch != 0, bytes > 0)?;
        if bytes == 0 {
            return Ok(());
        }
        memory.check(scratch, bytes * u64::from(blocks)).map_err(|outside| outside.to_string())
    }
}

/// The work that a launch asks for.
pub(crate) enum Task {
    Product(Box<Product>),
    Fill {
        at: u64,
        number: Number,
        count: u64,
        seed: u64,
    },
    FillScales {
        at: u64,
        count: u64,
        seed: u64,
        /// Of a matrix that is written column by column.
        size: [u64; 2],
    },
    Compare {
        result: u64,
        expected: u64,
        number: Number,
        wrong: u64,
        count: u64,
        absolute: f64,
        relative: f64,
    },
}

/// How many elements one program of `fill` and `compare` processes, and the tile of the reference.
const BLOCK: u64 = 4096;
const REFERENCE: [u64; 2] = [64, 64];

/// Reads the arguments of a launch. The error says what does not match the kernel.
pub(crate) fn task(
    kernel: &Kernel,
    grid: [u32; 3],
    arguments: &mut Arguments,
    memory: &mut Memory,
) -> Result<Task, String> {
    let outside = |error: Outside| error.to_string();
    let task = match kernel.work {
        Computation::Multiply(multiply) => {
            let product = multiply.product(grid, arguments)?;
            product.check(memory).map_err(outside)?;
            Task::Product(Box::new(product))
        }
        Computation::Serve(serve) => {
            let product = serve.product(grid, arguments, memory)?;
            product.check(memory).map_err(outside)?;
            Task::Product(Box::new(product))
        }
        Computation::GroupedReference { number, scaling } => {
            let product = grouped_reference(number, scaling, grid, arguments, memory)?;
            product.check(memory).map_err(outside)?;
            Task::Product(Box::new(product))
        }
        Computation::FillScales => {
            let (at, count, seed) = (arguments.pointer(), arguments.wide(), arguments.size());
            let size = [arguments.wide(), arguments.wide()];
            expect("the grid", grid, [programs(count), 1, 1])?;
            expect("the scales", size[0] * size[1], count)?;
            memory.check(at, count * 4).map_err(outside)?;
            Task::FillScales { at, count, seed, size }
        }
        Computation::Reference { number, bias } => {
            let product = reference(number, bias, grid, arguments)?;
            product.check(memory).map_err(outside)?;
            Task::Product(Box::new(product))
        }
        Computation::Fill(number) => {
            let (at, count, seed) = (arguments.pointer(), arguments.wide(), arguments.size());
            expect("the grid", grid, [programs(count).max(1), 1, 1])?;
            memory.check(at, count * number.size()).map_err(outside)?;
            Task::Fill { at, number, count, seed }
        }
        Computation::Compare(number) => {
            let [result, expected, wrong] = [(); 3].map(|()| arguments.pointer());
            let (count, absolute, relative) = (arguments.wide(), arguments.float(), arguments.float());
            expect("the grid", grid, [programs(count), 1, 1])?;
            memory.check(result, count * number.size()).map_err(outside)?;
            memory.check(expected, count * number.sum().size()).map_err(outside)?;
            memory.check(wrong, 4).map_err(outside)?;
            Task::Compare { result, expected, number, wrong, count, absolute, relative }
        }
    };
    /// What Triton's descriptors take at most.
    const SCRATCH: u64 = 512;
    let needs_scratch = matches!(kernel.work, Computation::Serve(Serve { tma: true, .. }));
    arguments.end(grid[0], if needs_scratch { SCRATCH } else { 0 }, memory)?;
    Ok(task)
}

fn programs(count: u64) -> u32 {
    count.div_ceil(BLOCK) as u32
}

impl Multiply {
    fn product(&self, grid: [u32; 3], arguments: &mut Arguments) -> Result<Product, String> {
        let [a, b, bias, out] = [(); 4].map(|()| arguments.pointer());
        let [m, n, k] = [(); 3].map(|()| arguments.size());
        let distances = [(); 3].map(|()| arguments.size());
        let batches = [(); 3].map(|()| arguments.size());
        let [rows_a, rows_b] = self.rows;
        for (name, pointer) in [("A", a), ("B", b), ("the bias", bias), ("the output", out)] {
            divides(&format!("the address of {name}"), pointer, 16)?;
        }
        expect(
            "the distances between rows",
            distances,
            [if rows_a { k } else { m }, if rows_b { n } else { k }, n],
        )?;
        expect("the distances between batches", batches, [m * k, k * n, m * n])?;
        for (place, divisor) in self.divisors.into_iter().enumerate() {
            divides("a distance between rows", distances[place], divisor)?;
            divides("a distance between batches", batches[place], divisor)?;
        }
        if self.even_k {
            divides("K", k, self.block[2])?;
        }
        if let Some(sizes) = self.sizes {
            expect("M, N and K", [m, n, k], sizes)?;
        }
        // A tile must fit only if nothing divides the size that an operand runs along.
        let undivided = [!rows_a && self.divisors[0] == 1, rows_b && self.divisors[1] == 1];
        for ((size, block), undivided) in [(m, self.block[0]), (n, self.block[1])].into_iter().zip(undivided)
        {
            if self.fits && undivided && size < block {
                return Err(format!("a tile of {block} was to fit into {size}"));
            }
        }
        expect("whether there is a bias", bias != 0, self.bias != Bias::None)?;
        let [tiles, count, one] = grid;
        let all = m.div_ceil(self.block[0]) * n.div_ceil(self.block[1]);
        expect("tiles in the grid", [u64::from(tiles), one.into()], [all, 1])?;
        if !self.batched {
            expect("batches in the grid", count, 1)?;
        }
        let number = self.number;
        let matrix = |address, row: bool, distance, batch| {
            let (row, column) = if row { (distance, 1) } else { (1, distance) };
            Matrix { address, number, row, column, batch }
        };
        let bias = match self.bias {
            Bias::None => None,
            Bias::Vector => Some(Matrix { address: bias, number, row: 0, column: 1, batch: 0 }),
            Bias::Matrix => Some(matrix(bias, true, distances[2], batches[2])),
        };
        Ok(Product {
            size: [count.into(), m, n, k],
            a: matrix(a, rows_a, distances[0], batches[0]),
            b: matrix(b, rows_b, distances[1], batches[1]),
            bias,
            out: matrix(out, true, distances[2], batches[2]),
            kept: 0.0,
            served: None,
            wrong: false,
        })
    }
}

/// Reads 32-bit numbers from the GPU's memory.
fn numbers(memory: &mut Memory, at: u64, count: u64) -> Result<Vec<u32>, String> {
    let bytes = memory.bytes_mut(at, 4 * count).map_err(|outside| outside.to_string())?;
    Ok(bytes.chunks_exact(4).map(|part| u32::from_le_bytes([part[0], part[1], part[2], part[3]])).collect())
}

/// The scales of A and of B, by their distances.
fn scales(
    scaling: Scaling,
    [a, b]: [u64; 2],
    [a_rows, n, k, groups]: [u64; 4],
    [a_row, b_group, b_row]: [u64; 3],
) -> Result<Option<[Scales; 2]>, String> {
    let blocks = |size: u64| size.div_ceil(128);
    let (expected, of_a, of_b) = match scaling {
        Scaling::None => return Ok(None),
        Scaling::Tensor => ([1, 1, 1], [1, 0, 0, 1], [1, 0, 0, groups]),
        Scaling::Row => ([1, n, n], [1, 1, 0, a_rows], [1, 1, 0, groups * n]),
        Scaling::Block => {
            let k = blocks(k);
            let of_b = [128, k, 1, groups * blocks(n) * k];
            ([k, blocks(n) * k, k], [1, k, 1, a_rows * k], of_b)
        }
    };
    // Only scales by block have a distance between rows that kernels look at.
    expect("the distance between groups of scales", b_group, expected[1])?;
    if scaling == Scaling::Block {
        expect("the distances between rows of scales", [a_row, b_row], [expected[0], expected[2]])?;
    }
    let of = |address, [block, row, depth, count]: [u64; 4], group| Scales {
        address,
        block,
        row,
        depth,
        group,
        count,
    };
    Ok(Some([of(a, of_a, 0), of(b, of_b, b_group)]))
}

/// The rows that sorted lists name: as many blocks as `experts` has, each of `height` pairs.
fn sorted_rows(
    pairs: &[u32],
    experts: &[u32],
    height: u64,
    [rows, top_k, groups]: [u64; 3],
) -> Result<Vec<Row>, String> {
    let mut found = Vec::new();
    for (block, pairs) in pairs.chunks(height as usize).enumerate() {
        let group = u64::from(experts[block]);
        if experts[block] == u32::MAX {
            continue;
        }
        expect("whether there is the expert of a block", group < groups, true)?;
        let real = pairs.iter().map(|&pair| u64::from(pair)).filter(|&pair| pair < rows);
        found.extend(real.map(|pair| Row { out: pair, a: pair / top_k, group }));
    }
    let mut places: Vec<u64> = found.iter().map(|row| row.out).collect();
    places.sort_unstable();
    expect("whether the lists name each row once", places, (0..rows).collect())?;
    Ok(found)
}

impl Serve {
    fn product(
        &self,
        grid: [u32; 3],
        arguments: &mut Arguments,
        memory: &mut Memory,
    ) -> Result<Product, String> {
        let pointers = [(); 9].map(|()| arguments.pointer());
        let [a, b, a_scales, b_scales, out, pairs, experts, ends, weights] = pointers;
        let [m, n, k, lda, ldb, ldc, b_group] = [(); 7].map(|()| arguments.size());
        let distances = [(); 3].map(|()| arguments.size());
        let [groups, top_k, weighted, blocks_m, group_m] = [(); 5].map(|()| arguments.size());
        pointers.into_iter().try_for_each(|pointer| divides("an address", pointer, 16))?;
        expect("the distances between rows", [lda, ldb, ldc, b_group], [k, k, n, n * k])?;
        expect("the width of a group", group_m > 0, true)?;
        divides("K", k, 16 / self.number.size())?;
        divides("N", n, 16 / self.out().size())?;
        // The accelerator reads zeros past the end.
        if self.even_k && !self.tma {
            divides("K", k, self.block[2])?;
        }
        let columns = n.div_ceil(self.block[1]);
        let whole = |row| Row { out: row, a: row, group: 0 };
        let rows = match self.kind {
            ServeKind::Scaled => (0..m).map(whole).collect(),
            ServeKind::Grouped => {
                let ends = numbers(memory, ends, groups)?;
                expect("the end of the last group", u64::from(ends[ends.len() - 1]), m)?;
                let group = |row| ends.partition_point(|&end| u64::from(end) <= row) as u64;
                (0..m).map(|row| Row { group: group(row), ..whole(row) }).collect()
            }
            ServeKind::Experts => {
                let used = u64::from(numbers(memory, ends, 1)?[0]);
                expect("whether all blocks are launched", used <= blocks_m * self.block[0], true)?;
                let experts = numbers(memory, experts, used / self.block[0])?;
                sorted_rows(&numbers(memory, pairs, used)?, &experts, self.block[0], [m, top_k, groups])?
            }
        };
        let tiles =
            if self.kind == ServeKind::Experts { blocks_m } else { m.div_ceil(self.block[0]) } * columns;
        let [blocks, rest @ ..] = grid;
        expect("the rest of the grid", rest, [1, 1])?;
        if self.kind == ServeKind::Grouped || self.tma {
            expect("whether there are blocks", blocks > 0, true)?;
        } else {
            expect("tiles in the grid", u64::from(blocks), tiles)?;
        }
        let a_rows = m.div_ceil(top_k);
        Ok(Product {
            size: [1, m, n, k],
            a: Matrix { address: a, number: self.number, row: k, column: 1, batch: 0 },
            b: Matrix { address: b, number: self.number, row: 1, column: k, batch: b_group },
            bias: None,
            out: Matrix { address: out, number: self.out(), row: n, column: 1, batch: 0 },
            kept: 0.0,
            served: Some(Served {
                rows,
                a_rows,
                groups,
                scales: scales(self.scaling, [a_scales, b_scales], [a_rows, n, k, groups], distances)?,
                weights: (weighted != 0).then_some(weights),
            }),
            wrong: false,
        })
    }
}

fn grouped_reference(
    number: Number,
    scaling: Scaling,
    grid: [u32; 3],
    arguments: &mut Arguments,
    memory: &mut Memory,
) -> Result<Product, String> {
    let [a, b, a_scales, b_scales, out, pairs, experts, weights] = [(); 8].map(|()| arguments.pointer());
    let [m, n, k, top_k, weighted] = [(); 5].map(|()| arguments.size());
    let distances = [(); 3].map(|()| arguments.wide());
    let [height, width] = REFERENCE;
    let blocks = u64::from(grid[0]) / n.div_ceil(width);
    expect("tiles in the grid", u64::from(grid[0]), blocks * n.div_ceil(width))?;
    let experts = numbers(memory, experts, blocks)?;
    let known = experts.iter().filter(|&&expert| expert != u32::MAX);
    let groups = u64::from(known.max().copied().unwrap_or(0)) + 1;
    let pairs = numbers(memory, pairs, blocks * height)?;
    let rows = sorted_rows(&pairs, &experts, height, [m, top_k, groups])?;
    let a_rows = m.div_ceil(top_k);
    let between = if scaling == Scaling::None { [0; 3] } else { distances };
    Ok(Product {
        size: [1, m, n, k],
        a: Matrix { address: a, number, row: k, column: 1, batch: 0 },
        b: Matrix { address: b, number, row: 1, column: k, batch: n * k },
        bias: None,
        out: Matrix { address: out, number: Number::Single, row: n, column: 1, batch: 0 },
        kept: 0.0,
        served: Some(Served {
            rows,
            a_rows,
            groups,
            scales: scales(scaling, [a_scales, b_scales], [a_rows, n, k, groups], between)?,
            weights: (weighted != 0).then_some(weights),
        }),
        wrong: false,
    })
}

fn reference(
    number: Number,
    has_bias: bool,
    grid: [u32; 3],
    arguments: &mut Arguments,
) -> Result<Product, String> {
    let [a, b, bias, out] = [(); 4].map(|()| arguments.pointer());
    let [m, n, k] = [(); 3].map(|()| arguments.size());
    let [a_row, a_column, b_row, b_column, bias_row, bias_column] = [(); 6].map(|()| arguments.wide());
    let [batch_a, batch_b, batch_bias] = [(); 3].map(|()| arguments.wide());
    let tiles = m.div_ceil(REFERENCE[0]) * n.div_ceil(REFERENCE[1]);
    expect("tiles in the grid", [u64::from(grid[0]), grid[2].into()], [tiles, 1])?;
    expect("whether there is a bias", bias != 0, has_bias)?;
    let bias = Matrix { address: bias, number, row: bias_row, column: bias_column, batch: batch_bias };
    Ok(Product {
        size: [grid[1].into(), m, n, k],
        a: Matrix { address: a, number, row: a_row, column: a_column, batch: batch_a },
        b: Matrix { address: b, number, row: b_row, column: b_column, batch: batch_b },
        bias: has_bias.then_some(bias),
        out: Matrix { address: out, number: number.sum(), row: n, column: 1, batch: m * n },
        kept: 0.0,
        served: None,
        wrong: false,
    })
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, given: T, expected: T) -> Result<(), String> {
    if given == expected { Ok(()) } else { Err(format!("{what}: got {given:?}, expected {expected:?}")) }
}

fn divides(what: &str, value: u64, divisor: u64) -> Result<(), String> {
    if value.is_multiple_of(divisor) {
        Ok(())
    } else {
        Err(format!("{what}: got {value}, expected a multiple of {divisor}"))
    }
}
