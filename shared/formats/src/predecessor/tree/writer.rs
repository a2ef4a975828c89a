//! Writes the tree of maps with serde, in torch-diode's order.

use std::collections::HashMap;
use std::hash::Hash;

use diode_core::{Config, Dataset, Millis, Op, Solution};
use serde::ser::{Error as _, SerializeMap as _};
use serde::{Serialize, Serializer};

use crate::predecessor::config::{ConfigMap, Version};
use crate::predecessor::shape;

/// A whole file. The keys of a map must differ. So all datasets with the same hardware name become
/// one entry, and so do all solutions of the same problem.
pub(super) struct Tree<'a>(pub(super) &'a [Dataset]);

impl Serialize for Tree<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hardware = grouped(self.0.iter().map(|dataset| (dataset.hardware.name.as_str(), dataset)));
        let entries = hardware.into_iter().map(|(name, datasets)| (name.to_owned(), HardwareNode(datasets)));
        node(serializer, "hardware", &Index(entries.collect()))
    }
}

struct HardwareNode<'a>(Vec<&'a Dataset>);

impl Serialize for HardwareNode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ops = grouped(self.0.iter().flat_map(|&dataset| {
            dataset.solutions.iter().map(move |solution| (solution.problem.op, (dataset, solution)))
        }));
        let entries = ops.into_iter().map(|(op, solutions)| (op.to_string(), OpNode(solutions)));
        node(serializer, "operation", &Index(entries.collect()))
    }
}

struct OpNode<'a>(Vec<(&'a Dataset, &'a Solution)>);

impl Serialize for OpNode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let problems = grouped(self.0.iter().map(|&entry| (&entry.1.problem, entry)));
        let entries =
            problems.into_iter().map(|(problem, solutions)| (shape::key(problem), SolutionNode(solutions)));
        node(serializer, "solution", &Index(entries.collect()))
    }
}

struct SolutionNode<'a>(Vec<(&'a Dataset, &'a Solution)>);

impl Serialize for SolutionNode<'_> {
    /// The timings come first. Failures follow, with an infinite time.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut timings = Vec::new();
        for &(dataset, solution) in &self.0 {
            let mut add = |index, time| {
                timings.push(Timing { op: solution.problem.op, config: dataset.configs.get(index), time });
            };
            for (row, &index) in solution.configs.iter().enumerate() {
                add(index, solution.times.millis(row));
            }
            for failure in &solution.failures {
                add(failure.config, Millis(f64::INFINITY));
            }
        }
        node(serializer, "timed_configs", &timings)
    }
}

struct Timing<'a> {
    op: Op,
    config: &'a Config,
    time: Millis,
}

impl Serialize for Timing<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tile = self.config.tile().ok_or_else(|| S::Error::custom("a config without a tile"))?;
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("config", &ConfigMap { op: self.op, tile })?;
        map.serialize_entry("time", &self.time.0)?;
        map.serialize_entry("version", &Version)?;
        map.end()
    }
}

/// An index: a map whose keys are data.
struct Index<N>(Vec<(String, N)>);

impl<N: Serialize> Serialize for Index<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// A node: a map with one field that matters.
fn node<S: Serializer>(
    serializer: S,
    field: &'static str,
    value: &impl Serialize,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(2))?;
    map.serialize_entry(field, value)?;
    map.serialize_entry("version", &Version)?;
    map.end()
}

/// Groups entries by key. Groups and their entries stand in the order of first appearance.
fn grouped<K: Hash + Eq + Copy, V>(entries: impl Iterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut places = HashMap::new();
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in entries {
        let place = *places.entry(key).or_insert(groups.len());
        if place == groups.len() {
            groups.push((key, Vec::new()));
        }
        groups[place].1.push(value);
    }
    groups
}
