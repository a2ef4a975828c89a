//! The bill of materials, in CycloneDX's format: which crates each program contains.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Target, VERSION};
use crate::shell::{cargo, output, root};
use crate::web;

/// The parts of a release that contain Rust code, as pairs of name and package.
const PARTS: [(&str, &str); 6] = [
    ("diode", "diode-collector"),
    ("diode-server", "diode-server"),
    ("dashboard", "diode-web"),
    ("worker", web::WORKER),
    ("torch-diode", "torch-diode-py"),
    ("torch-diode", "diode-collector"),
];
const IN_BROWSERS: [&str; 2] = ["diode-web", web::WORKER];

/// `Cargo.lock`, as far as the bill needs it.
#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// A crate as `cargo tree` prints it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    licence: String,
}

impl Package {
    /// Reads `sha2 v0.11.1|MIT OR Apache-2.0`; a path or `(proc-macro)` may follow the version.
    fn parse(line: &str) -> Option<Self> {
        let (package, licence) = line.split_once('|')?;
        let mut words = package.split_whitespace();
        let name = words.next()?.to_owned();
        let version = words.next()?.strip_prefix('v')?.to_owned();
        Some(Self { name, version, licence: licence.to_owned() })
    }

    fn address(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

/// Writes the bill for everything that is built for these targets.
pub(super) fn write(targets: &[Target], file: &Path) -> anyhow::Result<()> {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).context("Cargo.lock")?;
    let lock: Lock = toml::from_str(&lock).context("Cargo.lock")?;
    let digests = lock.package.into_iter().filter_map(|p| Some(((p.name, p.version), p.checksum?))).collect();
    let triples: Vec<&str> = targets.iter().map(|target| target.triple()).collect();
    let mut parts: BTreeMap<&str, BTreeSet<Package>> = BTreeMap::new();
    for (name, package) in PARTS {
        let targets = if IN_BROWSERS.contains(&package) { &[web::WASM][..] } else { &triples };
        parts.entry(name).or_default().extend(packages(package, targets)?);
    }
    let bill = serde_json::to_string_pretty(&document(&parts, &digests))?;
    #[allow(
        clippy::disallowed_methods,
        reason = "the checksums, written last, tell a whole release from half a one"
    )]
    std::fs::write(file, bill + "\n")?;
    Ok(())
}

/// All packages from which a package is built, except the package itself.
fn packages(package: &str, targets: &[&str]) -> anyhow::Result<BTreeSet<Package>> {
    let mut found = BTreeSet::new();
    for target in targets {
        let tree = ["tree", "--locked", "--edges", "normal", "--prefix", "none", "--no-dedupe"];
        let lines = output(cargo().args(tree).args([
            "--format",
            "{p}|{l}",
            "--package",
            package,
            "--target",
            target,
        ]))?;
        for line in lines.lines() {
            found.insert(Package::parse(line).with_context(|| format!("cargo tree: got {line:?}"))?);
        }
    }
    found.retain(|one| one.name != package);
    Ok(found)
}

fn document(
    parts: &BTreeMap<&str, BTreeSet<Package>>,
    digests: &BTreeMap<(String, String), String>,
) -> Value {
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for (name, packages) in parts {
        let part = format!("diode:{name}");
        components.push(json!({ "type": "application", "bom-ref": part, "name": name, "version": VERSION }));
        let on: Vec<String> = packages.iter().map(Package::address).collect();
        dependencies.push(json!({ "ref": part, "dependsOn": on }));
    }
    for package in parts.values().flatten().collect::<BTreeSet<_>>() {
        let mut component = json!({
            "type": "library",
            "bom-ref": package.address(),
            "name": package.name,
            "version": package.version,
            "purl": package.address(),
            "licenses": [{ "expression": package.licence.replace('/', " OR ") }],
        });
        if let Some(digest) = digests.get(&(package.name.clone(), package.version.clone())) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": digest }]);
        }
        components.push(component);
    }
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "diode", "version": VERSION } },
        "components": components,
        "dependencies": dependencies,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cargo_tree_are_read() {
        let package = Package::parse("sha2 v0.11.1|MIT OR Apache-2.0").unwrap();
        assert_eq!(package.address(), "pkg:cargo/sha2@0.11.1");
        assert_eq!(package.licence, "MIT OR Apache-2.0");
        let macros = Package::parse("thiserror-impl v2.0.21 (proc-macro)|MIT").unwrap();
        assert_eq!((macros.version.as_str(), macros.licence.as_str()), ("2.0.21", "MIT"));
        assert_eq!(Package::parse("no bar"), None);
    }

    #[test]
    fn a_component_has_its_digest_and_its_users() {
        let package = Package::parse("sha2 v0.11.1|MIT/Apache-2.0").unwrap();
        let digests = [(("sha2".to_owned(), "0.11.1".to_owned()), "ab".to_owned())].into();
        let bill = document(&[("diode", [package].into())].into(), &digests);
        assert_eq!(bill["components"][1]["hashes"][0]["content"], "ab");
        assert_eq!(bill["components"][1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["dependencies"][0]["dependsOn"][0], "pkg:cargo/sha2@0.11.1");
    }
}
