//! Rebuilds a release of the server when the dashboard or the documents that it holds change.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    for held in ["../web/dist", "../docs/book"] {
        // If this watched a path that does not exist, cargo would run the script again on every build.
        if is_release && std::path::Path::new(held).exists() {
            println!("cargo:rerun-if-changed={held}");
        }
    }
}
