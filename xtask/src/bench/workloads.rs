//! The workloads and their sizes.

/// One workload.
#[derive(Clone, Debug)]
pub struct Workload {
    /// What it is called in the output.
    pub name: String,
    /// What the program calls it.
    pub mode: &'static str,
    /// How many jobs.
    pub jobs: usize,
    /// How many slots of the worker, or producers.
    pub slots: usize,
    /// What only our program understands.
    pub own: Vec<(&'static str, usize)>,
    /// So long that one round must do.
    pub once: bool,
}

/// One figure of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// What is added to the workload's name.
    pub suffix: &'static str,
    /// The field of the program's line.
    pub field: &'static str,
    /// What it is counted in.
    pub unit: &'static str,
}

const fn metric(suffix: &'static str, field: &'static str, unit: &'static str) -> Metric {
    Metric { suffix, field, unit }
}

const SPEED: &[Metric] = &[metric("", "jobs_per_s", "jobs/s")];
const LATENCY: &[Metric] = &[metric("-p50", "p50_ms", "ms"), metric("-p99", "p99_ms", "ms")];
const RESERVE: &[Metric] =
    &[metric("-of-8", "reserve_8_us", "µs"), metric("-of-100", "reserve_100_us", "µs")];
const IDLE: &[Metric] =
    &[metric("-memory", "rss_mib", "MiB"), metric("-cpu", "cpu_percent", "% of a core")];
const ALLOCATIONS: &[Metric] =
    &[metric("-push", "push_allocations", "per job"), metric("-run", "run_allocations", "per job")];

impl Workload {
    fn new(name: impl Into<String>, mode: &'static str, jobs: usize, slots: usize) -> Self {
        Self { name: name.into(), mode, jobs, slots, own: Vec::new(), once: false }
    }

    fn with(mut self, name: &'static str, value: usize) -> Self {
        self.own.push((name, value));
        self
    }

    /// Its figures.
    pub fn metrics(&self) -> &'static [Metric] {
        match self.mode {
            "latency" | "latency-across" => LATENCY,
            "reserve" => RESERVE,
            "idle" => IDLE,
            "allocations" => ALLOCATIONS,
            _ => SPEED,
        }
    }

    /// Is its number of jobs free to choose?
    pub fn is_sized(&self) -> bool {
        matches!(self.mode, "push-one" | "push-bulk" | "drain")
    }
}

/// All, or those that other programs know too.
pub fn all(quick: bool, beside: bool) -> Vec<Workload> {
    let size = |full, small| if quick { small } else { full };
    let mut all = Vec::new();
    for producers in [10, 50] {
        let name = format!("push-one-{producers}");
        all.push(Workload::new(name, "push-one", size(20_000, 2_000), producers));
    }
    all.push(Workload::new("push-bulk", "push-bulk", size(100_000, 10_000), 1));
    let drain =
        |slots| Workload::new(format!("drain-{slots}"), "drain", size(50_000, 5_000), slots);
    let latency = Workload::new("latency", "latency", size(200, 50), 10);
    if beside {
        all.extend([10, 50, 1000].map(drain));
        all.push(latency);
        return all;
    }
    for slots in [10, 50] {
        for (spread, tenants, names) in [("", 1, 1), ("-50-tenants", 50, 3)] {
            let of = |mut workload: Workload, kind: &str| {
                workload.name = format!("drain-{slots}{spread}{kind}");
                workload.with("--tenants", tenants).with("--names", names)
            };
            all.push(of(drain(slots), ""));
            let mut slow = of(drain(slots), "-1ms").with("--handler-ms", 1);
            slow.jobs = size(20_000, 2_000);
            all.push(slow);
        }
    }
    all.push(latency);
    all.push(Workload::new("latency-across", "latency-across", size(200, 50), 10));
    for depth in [10_000, size(100_000, 50_000), size(1_000_000, 0)] {
        if depth > 0 {
            let name = format!("reserve-at-{depth}");
            let reserve = Workload::new(name, "reserve", depth, 1);
            let reserve = reserve.with("--tenants", 50).with("--names", 3);
            all.push(Workload { once: depth >= 1_000_000, ..reserve });
        }
    }
    all.push(Workload::new("idle", "idle", size(30_000, 3_000), 10).with("--seconds", size(20, 5)));
    all.push(Workload::new("allocations", "allocations", size(20_000, 2_000), 10));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_others_get_nothing_of_ours() {
        for (quick, beside) in [(false, false), (true, false), (false, true), (true, true)] {
            let all = all(quick, beside);
            let mut names: Vec<_> = all.iter().map(|workload| &workload.name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), all.len());
            assert!(!beside || all.iter().all(|workload| workload.own.is_empty()));
        }
        assert_eq!(all(false, true).iter().filter(|w| w.mode == "drain").count(), 3);
    }
}
