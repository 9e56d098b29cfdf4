//! What is mixed up.

use super::*;

const OWN: &str = "a job keeps what it was pushed with";

#[test]
fn a_job_keeps_what_it_was_pushed_with() {
    let started = |change: fn(&mut Event)| {
        scene(move |s, _| s.lines.iter_mut().for_each(|line| change(&mut line.event)))
    };
    let other = |event: &mut Event| {
        if let Event::Start { payload, .. } = event {
            *payload = JobId::new().to_string();
        }
    };
    started(other).finds(OWN, "its handler was given another");
    let renamed = |event: &mut Event| {
        if let Event::Start { name, .. } = event {
            *name = "steady".into();
        }
    };
    started(renamed).finds(OWN, "its handler was given another");
    let elsewhere = |event: &mut Event| {
        if let Event::Taken { queue, .. } = event {
            *queue = "side".into();
        }
    };
    started(elsewhere).finds(OWN, "it was reserved from side and pushed to main");
    let kept =
        |change: fn(&mut Kept)| scene(move |s, job| change(s.store.jobs.get_mut(job).unwrap()));
    kept(|kept| kept.payload = "null".into()).finds(OWN, "it is stored as");
    kept(|kept| kept.queue = "side".into()).finds(OWN, "it is stored as");
    kept(|kept| kept.key = Some(Key { text: "k".into(), scope: KeyScope::UntilStarted }))
        .finds(OWN, "it is stored as");
}
