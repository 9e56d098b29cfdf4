//! Measures another program in turn with ours, on the same work, and compares them pair by pair.
//!
//! It is given our words after its own, so a program of several workloads runs the one of ours, its
//! `--mode drain` for ours, whatever its own words were. Where one says its durability by a word that
//! its settings do not keep, the word is compared and the note on the figures has to say so.
//!
//! Compared is only what did the same: with the same durability, each job once and none left. A pair
//! in which theirs did not is printed with what was wrong, and has no part in the median.

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
    let mut spoilt = 0;
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
        if let Err(error) = same_durability(&ours, &theirs, of.theirs.as_deref()) {
            eprintln!("{}: not compared: {error}", workload.name);
            break;
        }
        let flaws = flaws(&theirs, workload.jobs);
        spoilt += usize::from(!flaws.is_empty());
        for (metric, ratios) in workload.metrics().iter().zip(&mut ratios) {
            let both = (ours.figure(metric.field), theirs.figure(metric.field));
            let (Some(our), Some(their)) = both else { continue };
            let ratio = rounded(our / their);
            if flaws.is_empty() {
                ratios.push(ratio);
            }
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
            if !flaws.is_empty() {
                line["counts"] = false.into();
            }
            for (flaw, number) in &flaws {
                line[format!("their_{flaw}")] = (*number).into();
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
            "better": if metric.unit.ends_with("/s") { "more" } else { "less" },
            "beside": other,
            "median": rounded(median),
            "min": min,
            "max": max,
            "runs": runs,
            "spoilt": spoilt,
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

/// What is wrong with a run of theirs: jobs that ran twice, were left, or never ran. Speed is worth
/// nothing there.
fn flaws(line: &Value, jobs: usize) -> Vec<(&'static str, f64)> {
    // What a latency's line calls otherwise.
    let ran = line.figure("distinct").or_else(|| line.figure("seen"));
    let missing = ran.map(|ran| jobs as f64 - ran);
    let found = [
        ("dups", line.figure("dups")),
        ("left_in_store", line.figure("left_in_store")),
        ("missing", missing),
    ];
    found
        .into_iter()
        .filter_map(|(flaw, number)| Some((flaw, number.filter(|n| *n != 0.0)?)))
        .collect()
}

/// Does a commit of theirs survive what one of ours does, by their own word, or else by the word of
/// whoever compares?
fn same_durability(ours: &Value, theirs: &Value, said: Option<&str>) -> Result<(), String> {
    let word = |line: &Value, field: &str| Some(line.get(field)?.as_str()?.to_lowercase());
    let our = word(ours, "durability").unwrap_or_default();
    let their = word(theirs, "durability").or_else(|| word(theirs, "sync"));
    match their.or_else(|| said.map(str::to_lowercase)) {
        Some(their) if their == our => Ok(()),
        Some(their) => Err(format!(
            "theirs is durability {their}, ours {our}: change one of them, with --durability for ours"
        )),
        None => Err(format!(
            "their line does not say its durability: where you know that it is {our}, say \
             --theirs {our}"
        )),
    }
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
        let line = json!({ "dups": 2, "left_in_store": 0, "distinct": 9 });
        assert_eq!(flaws(&line, 10), [("dups", 2.0), ("missing", 1.0)]);
        let line = json!({ "dups": 0, "left_in_store": 3, "distinct": 10 });
        assert_eq!(flaws(&line, 10), [("left_in_store", 3.0)]);
        assert_eq!(flaws(&json!({ "dups": 0, "distinct": 10 }), 10), []);
        assert_eq!(flaws(&json!({ "p50_ms": 1, "seen": 7 }), 10), [("missing", 3.0)]);
        assert_eq!(flaws(&json!({ "jobs_per_s": 1 }), 10), [], "a push has no runs");
    }

    #[test]
    fn only_the_same_durability_is_compared() {
        let ours = json!({ "durability": "full" });
        for same in [json!({ "durability": "full" }), json!({ "sync": "FULL" })] {
            assert_eq!(same_durability(&ours, &same, None), Ok(()));
        }
        let other = same_durability(&ours, &json!({ "sync": "normal" }), Some("full")).unwrap_err();
        assert!(other.contains("theirs is durability normal, ours full"), "{other}");
        assert_eq!(same_durability(&ours, &json!({ "peer": "x" }), Some("full")), Ok(()));
        let silent = same_durability(&ours, &json!({ "peer": "x" }), None).unwrap_err();
        assert!(silent.contains("does not say"), "{silent}");
    }
}
