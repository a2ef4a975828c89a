//! cuBLASLt and hipBLASLt. They have the same functions, with different names and numbers.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr;

use diode_core::{Problem, Scaling};

use crate::devices::gpu::GpuVendor;
use crate::devices::gpu::driver::{Call, Gpu, Memory, Slice, functions, open_library};
use crate::devices::gpu::library::{Gemm, Handle, LibraryError, check};
use crate::devices::gpu::operands::Matrices;

functions! {
    /// The functions of both libraries.
    Functions {
        create = "cublasLtCreate" / "hipblasLtCreate" (*mut Handle);
        describe = "cublasLtMatmulDescCreate" / "hipblasLtMatmulDescCreate" (*mut Handle, c_int, c_int);
        set = "cublasLtMatmulDescSetAttribute" / "hipblasLtMatmulDescSetAttribute" (Handle, c_int, *const c_void, usize);
        forget = "cublasLtMatmulDescDestroy" / "hipblasLtMatmulDescDestroy" (Handle);
        lay_out = "cublasLtMatrixLayoutCreate" / "hipblasLtMatrixLayoutCreate" (*mut Handle, c_int, u64, u64, i64);
        set_layout = "cublasLtMatrixLayoutSetAttribute" / "hipblasLtMatrixLayoutSetAttribute" (
            Handle, c_int, *const c_void, usize
        );
        forget_layout = "cublasLtMatrixLayoutDestroy" / "hipblasLtMatrixLayoutDestroy" (Handle);
        prefer = "cublasLtMatmulPreferenceCreate" / "hipblasLtMatmulPreferenceCreate" (*mut Handle);
        set_preference = "cublasLtMatmulPreferenceSetAttribute" / "hipblasLtMatmulPreferenceSetAttribute" (
            Handle, c_int, *const c_void, usize
        );
        forget_preference = "cublasLtMatmulPreferenceDestroy" / "hipblasLtMatmulPreferenceDestroy" (Handle);
        choose = "cublasLtMatmulAlgoGetHeuristic" / "hipblasLtMatmulAlgoGetHeuristic" (
            Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Choice, *mut c_int
        );
        multiply = "cublasLtMatmul" / "hipblasLtMatmul" (
            Handle, Handle, *const f32, u64, Handle, u64, Handle, *const f32, u64, Handle, u64, Handle, *const Choice,
            u64, usize, Handle
        );
    }
}

functions! {
    /// The version of hipBLASLt. On NVIDIA GPUs, cuBLAS states the version.
    Version {
        version = "hipblasLtGetVersion" (Handle, *mut c_int);
    }
}

/// The constants of one of the libraries.
struct Numbers {
    /// The constants for an operand that is taken as it is, and for a transposed one.
    operations: [c_int; 2],
    /// Sums are in fp32, and there is no TF32. That is torch's default.
    compute: c_int,
    /// The same, with float32 inputs rounded to TF32. `None` if that is not tried.
    compute_rounding: Option<c_int>,
    transpose_a: c_int,
    transpose_b: c_int,
    epilogue: c_int,
    bias_pointer: c_int,
    batches: c_int,
    batch_distance: c_int,
    /// The size of the workspace that torch provides.
    workspace: u64,
}

const CUBLAS: Numbers = Numbers {
    operations: [0, 1],
    compute: 68,
    compute_rounding: Some(77),
    transpose_a: 3,
    transpose_b: 4,
    epilogue: 7,
    bias_pointer: 8,
    batches: 5,
    batch_distance: 6,
    workspace: 32 << 20,
};

const HIPBLAS: Numbers = Numbers {
    operations: [111, 112],
    compute: 2,
    compute_rounding: None,
    transpose_a: 0,
    transpose_b: 1,
    epilogue: 2,
    bias_pointer: 3,
    batches: 0,
    batch_distance: 1,
    workspace: 76 << 20,
};

const F32: c_int = 0;
const ADD_BIAS: u32 = 4;
const MAX_WORKSPACE: c_int = 1;
/// Attributes of cuBLASLt's multiplications of fp8: where the scales of its two operands are and how they are laid
/// out, and whether sums may have fewer bits. Its operands are in the other order: the first one is B.
const SCALES: [c_int; 2] = [17, 18];
const SCALE_MODES: [c_int; 2] = [31, 32];
const FAST_SUMS: c_int = 25;

/// How the scales of cuBLASLt's two operands are laid out. Scales by row and by block came with cuBLASLt 12.9.
fn scale_modes(scaling: Scaling) -> Option<[i32; 2]> {
    match scaling {
        Scaling::None => None,
        Scaling::Tensor => Some([0, 0]),
        Scaling::Row => Some([3, 3]),
        Scaling::Block => Some([5, 4]),
    }
}
const NOT_SUPPORTED: c_int = 15;

/// Room for the answer to a request for an algorithm. The answer begins with the algorithm and is shorter
/// than this, in cuBLASLt and in hipBLASLt.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Choice([u64; 16]);

pub(super) struct CublasLt {
    /// The last multiplication that was prepared. It serves many launches, which differ only in the addresses. It is
    /// dropped before the functions that destroy it.
    last: RefCell<Option<Prepared>>,
    functions: Functions,
    numbers: &'static Numbers,
    handle: Handle,
    workspace: Memory,
    pub(super) version: i32,
}

impl CublasLt {
    pub(super) fn load(vendor: GpuVendor, gpu: &Gpu, folder: Option<&Path>) -> Result<Self, LibraryError> {
        let (names, installed, called, numbers): (&[&str], _, _, _) = match vendor {
            GpuVendor::Nvidia => (
                &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"],
                "/usr/local/cuda/lib64",
                "cuBLASLt",
                &CUBLAS,
            ),
            GpuVendor::Amd => {
                (&["libhipblaslt.so.1", "libhipblaslt.so.0"], "/opt/rocm/lib", "hipBLASLt", &HIPBLAS)
            }
        };
        let missing =
            |error: libloading::Error| LibraryError::Missing(format!("{called} was not found ({error})"));
        let open = || open_library(names, folder, Some(installed)).map_err(missing);
        let functions = Functions::resolve(open()?, vendor).map_err(missing)?;
        let workspace = gpu.allocate(numbers.workspace)?;
        let mut handle: Handle = ptr::null_mut();
        // SAFETY: writes a handle.
        check(&functions.create, |call| unsafe { call(&mut handle) })?;
        let mut version = 0;
        if vendor == GpuVendor::Amd {
            let Version { version: ask, .. } = Version::resolve(open()?, vendor).map_err(missing)?;
            // SAFETY: writes a number.
            check(&ask, |call| unsafe { call(handle, &mut version) })?;
        }
        Ok(Self { last: RefCell::new(None), functions, numbers, handle, workspace, version })
    }

    /// Queues one multiplication. The output becomes the product plus the bias row, or plus `kept` times the old
    /// output.
    pub(super) fn multiply(
        &self,
        problem: &Problem,
        gemm: &Gemm,
        matrices: &Matrices<'_>,
        bias: Option<Slice<'_>>,
        kept: f32,
    ) -> Result<(), LibraryError> {
        let mut last = self.last.borrow_mut();
        let serves = |prepared: &Prepared| prepared.problem == *problem && prepared.rounds == gemm.rounds;
        if !last.as_ref().is_some_and(serves) {
            *last = None;
        }
        let prepared = match &mut *last {
            Some(prepared) => prepared,
            empty => empty.insert(self.prepare(problem, gemm, matrices, bias)?),
        };
        if let Some(bias) = bias {
            prepared.description.set(self.numbers.bias_pointer, &bias.pointer())?;
        }
        set_scales(&prepared.description, problem, matrices)?;
        let (one, output) = (1.0_f32, matrices.c.pointer());
        let [b, a, c] = [&prepared.b, &prepared.a, &prepared.c].map(|layout| layout.handle);
        // SAFETY: the matrices and the workspace lie within their allocations, and all else lives across the call.
        check(&self.functions.multiply, |call| unsafe {
            call(
                self.handle,
                prepared.description.handle,
                &one,
                matrices.b.pointer(),
                b,
                matrices.a.pointer(),
                a,
                &kept,
                output,
                c,
                output,
                c,
                &prepared.choice,
                self.workspace.slice(0, self.numbers.workspace).pointer(),
                self.numbers.workspace as usize,
                ptr::null_mut(),
            )
        })
    }

    /// Describes a multiplication and asks for an algorithm. Takes the first choice, as torch does.
    fn prepare(
        &self,
        problem: &Problem,
        gemm: &Gemm,
        matrices: &Matrices<'_>,
        bias: Option<Slice<'_>>,
    ) -> Result<Prepared, LibraryError> {
        let numbers = self.numbers;
        let [plain, transposed] = numbers.operations;
        let operation = |is_transposed| if is_transposed { transposed } else { plain };
        let compute = numbers.compute_rounding.filter(|_| gemm.rounds).unwrap_or(numbers.compute);
        let functions = &self.functions;
        // SAFETY: writes a handle.
        let description =
            owned(&functions.describe, functions.set, functions.forget, |call, handle| unsafe {
                call(handle, compute, F32)
            })?;
        description.set(numbers.transpose_a, &operation(gemm.b_transposed))?;
        description.set(numbers.transpose_b, &operation(gemm.a_transposed))?;
        if let Some(modes) = scale_modes(problem.scaling) {
            for (attribute, mode) in SCALE_MODES.into_iter().zip(modes) {
                // A scale for the whole operand is the default, also of versions that know no other.
                if mode != 0 {
                    description.set(attribute, &mode)?;
                }
            }
            description.set(FAST_SUMS, &i8::from(problem.scaling != Scaling::Block))?;
            // Without their addresses, cuBLASLt finds no algorithm for scales by row and by block.
            set_scales(&description, problem, matrices)?;
        }
        if let Some(bias) = bias {
            description.set(numbers.epilogue, &ADD_BIAS)?;
            description.set(numbers.bias_pointer, &bias.pointer())?;
        }
        let shape =
            |turned: bool, rows: u64, columns: u64| if turned { (columns, rows) } else { (rows, columns) };
        let matrix = |(rows, columns): (u64, u64), leading: u64, data_type: c_int| {
            // SAFETY: writes a handle.
            let layout = owned(
                &functions.lay_out,
                functions.set_layout,
                functions.forget_layout,
                |call, handle| unsafe { call(handle, data_type, rows, columns, leading as i64) },
            )?;
            if problem.b > 1 {
                layout.set(numbers.batches, &(problem.b as i32))?;
                layout.set(numbers.batch_distance, &((rows * columns) as i64))?;
            }
            Ok::<_, LibraryError>(layout)
        };
        let b = matrix(shape(gemm.b_transposed, problem.n, problem.k), gemm.ldb, gemm.data_type)?;
        let a = matrix(shape(gemm.a_transposed, problem.k, problem.m), gemm.lda, gemm.data_type)?;
        let c = matrix((problem.n, problem.m), problem.n, gemm.out_type)?;
        let choice = self.choose(&description, &b, &a, &c)?;
        Ok(Prepared { problem: problem.clone(), rounds: gemm.rounds, description, a, b, c, choice })
    }

    fn choose(
        &self,
        description: &Owned,
        left: &Owned,
        right: &Owned,
        out: &Owned,
    ) -> Result<Choice, LibraryError> {
        let functions = &self.functions;
        // SAFETY: writes a handle.
        let preference = owned(
            &functions.prefer,
            functions.set_preference,
            functions.forget_preference,
            |call, handle| unsafe { call(handle) },
        )?;
        preference.set(MAX_WORKSPACE, &self.numbers.workspace)?;
        let (mut choice, mut count) = (Choice::default(), 0);
        // SAFETY: all handles are alive, and there is room for one answer of either library.
        check(&self.functions.choose, |call| {
            let status = unsafe {
                call(
                    self.handle,
                    description.handle,
                    left.handle,
                    right.handle,
                    out.handle,
                    out.handle,
                    preference.handle,
                    1,
                    &mut choice,
                    &mut count,
                )
            };
            if status == 0 && count == 0 { NOT_SUPPORTED } else { status }
        })?;
        Ok(choice)
    }
}

/// Says where the scales are, if the operands have any.
fn set_scales(description: &Owned, problem: &Problem, matrices: &Matrices<'_>) -> Result<(), LibraryError> {
    let Some([a, b]) = matrices.scales.filter(|_| problem.scaling != Scaling::None) else { return Ok(()) };
    description.set(SCALES[0], &b.pointer())?;
    description.set(SCALES[1], &a.pointer())
}

/// A multiplication that has been described, with the algorithm chosen for it.
struct Prepared {
    problem: Problem,
    rounds: bool,
    description: Owned,
    a: Owned,
    b: Owned,
    c: Owned,
    choice: Choice,
}

/// What a library has made, and the functions that change and destroy it.
struct Owned {
    handle: Handle,
    set: Call<unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> c_int>,
    destroy: Call<unsafe extern "C" fn(Handle) -> c_int>,
}

fn owned<F: Copy>(
    make: &Call<F>,
    set: Call<unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> c_int>,
    destroy: Call<unsafe extern "C" fn(Handle) -> c_int>,
    run: impl FnOnce(F, &mut Handle) -> c_int,
) -> Result<Owned, LibraryError> {
    let mut handle: Handle = ptr::null_mut();
    check(make, |call| run(call, &mut handle))?;
    Ok(Owned { handle, set, destroy })
}

impl Owned {
    fn set<T>(&self, attribute: c_int, value: &T) -> Result<(), LibraryError> {
        // SAFETY: reads a value of the given size.
        check(&self.set, |call| unsafe {
            call(self.handle, attribute, ptr::from_ref(value).cast(), size_of::<T>())
        })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: this library made it, and it is destroyed once. An error here would only repeat an
        // earlier one.
        let _ = unsafe { (self.destroy.function)(self.handle) };
    }
}
