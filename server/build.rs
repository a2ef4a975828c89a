//! Rebuilds the server when the dashboard that it embeds changes.

fn main() {
    // A path that does not exist would rerun this on every build.
    let dashboard = if std::path::Path::new("../web/dist").exists() { "../web/dist" } else { "../web" };
    println!("cargo:rerun-if-changed={dashboard}");
}
