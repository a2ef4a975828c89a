//! Functions of shared libraries, found at run time. So one program serves nodes with and without a GPU, and
//! it can be built without any vendor's files.
#![allow(unsafe_code, reason = "a foreign function interface")]

use std::path::{Path, PathBuf};

use libloading::Library;

/// A function and its name in the library.
#[derive(Clone, Copy)]
pub(super) struct Call<F> {
    pub(super) name: &'static str,
    pub(super) function: F,
}

/// Declares a table of functions and how to fill it. A function has one name, or two if the vendors' differ:
/// NVIDIA's / AMD's. Every function returns 0 or an error code.
macro_rules! functions {
    ($(#[$about:meta])* $table:ident { $($field:ident = $name:literal ($($argument:ty),* $(,)?);)* }) => {
        $crate::devices::gpu::foreign::functions! {
            $(#[$about])*
            $table { $($field = $name / $name ($($argument),*);)* }
        }
    };
    ($(#[$about:meta])* $table:ident { $($field:ident = $cuda:literal / $hip:literal ($($argument:ty),* $(,)?);)* }) => {
        $(#[$about])*
        pub(super) struct $table {
            $(pub(super) $field: $crate::devices::gpu::foreign::Call<
                unsafe extern "C" fn($($argument),*) -> std::ffi::c_int
            >,)*
            // The pointers above are valid for as long as the library stays loaded.
            _library: libloading::Library,
        }

        impl $table {
            pub(super) fn resolve(
                library: libloading::Library,
                vendor: $crate::devices::gpu::GpuVendor,
            ) -> std::result::Result<Self, libloading::Error> {
                use $crate::devices::gpu::GpuVendor;
                Ok(Self {
                    $($field: {
                        let name = match vendor {
                            GpuVendor::Nvidia => $cuda,
                            GpuVendor::Amd => $hip,
                        };
                        // SAFETY: the signatures are those in the vendors' references, which agree.
                        let function = unsafe { *library.get(name.as_bytes())? };
                        $crate::devices::gpu::foreign::Call { name, function }
                    },)*
                    _library: library,
                })
            }
        }
    };
}

pub(super) use functions;

/// Loads the first of the library's `names` that is found: only in `folder` if it is given, otherwise where the system
/// looks for libraries and then in `installed`, where the vendor's installer puts them.
pub(super) fn open(
    names: &[&str],
    folder: Option<&Path>,
    installed: Option<&str>,
) -> Result<Library, libloading::Error> {
    let folders = folder.map_or_else(
        || [PathBuf::new()].into_iter().chain(installed.map(PathBuf::from)).collect(),
        |folder| vec![folder.to_owned()],
    );
    let mut paths = folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    // SAFETY: loading a vendor's library runs its initialisers, as in every program that uses the library.
    let load = |path: PathBuf| unsafe { Library::new(path) };
    let first = load(paths.next().unwrap_or_default());
    // If none loads, the first error is returned, because it is about the newest version.
    first.or_else(|error| paths.find_map(|path| load(path).ok()).ok_or(error))
}
