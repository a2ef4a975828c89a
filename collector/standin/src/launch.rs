//! Launches: reads their arguments and checks them against what the kernel was compiled for.

use std::ffi::c_void;

use crate::kernel::{Bias, Computation, Kernel, Multiply};
use crate::memory::{Memory, Outside};
use crate::number::Number;
use crate::product::{Matrix, Product};

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

    /// Reads Triton's own two pointers, which no kernel of a pack uses.
    fn end(&mut self) -> Result<(), String> {
        let scratch: [u64; 2] = [self.take(), self.take()];
        expect("the scratch pointers", scratch, [0, 0])
    }
}

/// The work that a launch asks for.
pub(crate) enum Task {
    Product(Product),
    Fill {
        at: u64,
        number: Number,
        count: u64,
        seed: u64,
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
            Task::Product(product)
        }
        Computation::Reference { number, bias } => {
            let product = reference(number, bias, grid, arguments)?;
            product.check(memory).map_err(outside)?;
            Task::Product(product)
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
    arguments.end()?;
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
            wrong: false,
        })
    }
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
