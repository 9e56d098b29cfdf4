//! Measures another program in turn with ours, on the same work, and compares them pair by pair.

use serde_json::{Value, json};

use super::{
    Options, Spread,
    program::{Programs, Run},
    spread,
    workloads::Workload,
};

/// Prints each pair and its ratio, then the median ratio; answers how many runs of ours failed.
pub fn run(options: &Options, programs: &Programs, all: &[Workload], other: &str) -> usize {
    all.iter().filter(|workload| pairs(options, programs, workload, other).is_err()).count()
}

/// An error is ours; what the other program cannot do is skipped, and said to be.
fn pairs(of: &Options, programs: &Programs, workload: &Workload, other: &str) -> Result<(), ()> {
    let mut ratios: Vec<Vec<f64>> = vec![Vec::new(); workload.metrics().len()];
    for pair in 0..of.rounds() {
        eprintln!("pair {} of {}: {}", pair + 1, of.rounds(), workload.name);
        let ours = || programs.ours(of, workload);
        let theirs = || programs.other(other, of, workload);
        let (ours, theirs) = in_turn(pair, ours, theirs);
        let ours = ours.map_err(|error| eprintln!("{}: ours: {error}", workload.name))?;
        let theirs = match theirs {
            Ok(theirs) => theirs,
            Err(error) => {
                eprintln!("{}: theirs: {error}", workload.name);
                break;
            }
        };
        for (metric, ratios) in workload.metrics().iter().zip(&mut ratios) {
            let both = (ours.figure(metric.field), theirs.figure(metric.field));
            let (Some(our), Some(their)) = both else { continue };
            let ratio = rounded(our / their);
            ratios.push(ratio);
            let mut line = json!({
                "store": of.store,
                "durability": ours["durability"],
                "workload": format!("{}{}", workload.name, metric.suffix),
                "jobs": workload.jobs,
                "slots": workload.slots,
                "unit": metric.unit,
                "beside": theirs["peer"],
                "pair": pair + 1,
                "ours": our,
                "theirs": their,
                "ratio": ratio,
            });
            // Speed counts for little where jobs ran twice or never ended.
            for flaw in ["dups", "left_in_store"].into_iter().filter(|flaw| flawed(&theirs, flaw)) {
                line[format!("their_{flaw}")] = theirs[flaw].clone();
            }
            println!("{line}");
        }
    }
    for (metric, ratios) in workload.metrics().iter().zip(ratios) {
        let runs = ratios.len();
        let Some(Spread { median, min, max }) = spread(ratios) else { continue };
        let line = json!({
            "store": of.store,
            "workload": format!("{}{}", workload.name, metric.suffix),
            "slots": workload.slots,
            "unit": "ours / theirs",
            "beside": other,
            "median": rounded(median),
            "min": min,
            "max": max,
            "runs": runs,
        });
        println!("{line}");
    }
    Ok(())
}

/// Ours, theirs, theirs, ours: neither is always the one that comes second.
fn in_turn<T>(pair: usize, ours: impl FnOnce() -> T, theirs: impl FnOnce() -> T) -> (T, T) {
    if pair.is_multiple_of(2) {
        let ours = ours();
        return (ours, theirs());
    }
    let theirs = theirs();
    (ours(), theirs)
}

fn flawed(line: &Value, field: &str) -> bool {
    line.figure(field).is_some_and(|number| number != 0.0)
}

fn rounded(ratio: f64) -> f64 {
    (ratio * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn both_come_first_equally_often() {
        let clock = Cell::new(0);
        let tick = || clock.replace(clock.get() + 1);
        let times: Vec<_> = (0..4).map(|pair| in_turn(pair, tick, tick)).collect();
        assert_eq!(times, [(0, 1), (3, 2), (4, 5), (7, 6)]);
    }

    #[test]
    fn a_flaw_of_theirs_is_seen() {
        let line = json!({ "dups": 2, "left_in_store": 0 });
        assert!(flawed(&line, "dups"));
        assert!(!flawed(&line, "left_in_store") && !flawed(&line, "missing"));
    }
}
