//! Rebuilds a release of the server when the dashboard that it holds changes.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let dashboard = std::path::Path::new("../web/dist");
    // A path that does not exist would rerun this on every build.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") && dashboard.exists() {
        println!("cargo:rerun-if-changed={}", dashboard.display());
    }
}
