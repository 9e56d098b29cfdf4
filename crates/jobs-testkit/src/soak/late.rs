//! Late writes: settlements of claims that are over, as a network may deliver them when their job
//! has another holder. Each must be refused (S2) or told what was settled before (S3).

use std::{sync::Arc, thread, time::Duration};

use jobs_core::{Claim, Outcome, Settlement};
use tokio::{runtime::Builder, time::sleep};

use super::{
    Done, Soak, Trouble,
    ledger::{Event, Pen},
    opened,
    process::Orders,
    watched::Over,
};

/// Between two of one process.
const EVERY: Duration = Duration::from_millis(100);

/// Sends them on a thread of its own, with a handle of its own, until the process ends.
///
/// # Errors
/// The system gives no thread.
pub fn start(soak: &dyn Soak, orders: &Orders, pen: Arc<Pen>, over: Over) -> Done {
    let open = soak.opener();
    let (url, mut random) = (orders.url.clone(), fastrand::Rng::with_seed(orders.seed));
    let send = move || {
        let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            // It is a second writer, on a sound connection and clock.
            let Ok(store) = opened(&*open, &url, Trouble::default()).await else { return };
            loop {
                sleep(EVERY).await;
                // Young ones meet the job's retry, old ones whatever came after.
                let age = random.i64(100_000..1_500_000);
                let Some(claim) = over.take(age, random.bool()) else { continue };
                let settlement = Settlement { claim: claim.clone(), outcome: Outcome::Done };
                let answer = store.settle(&[settlement]).await;
                let Some(answer) = answer.ok().and_then(|answers| answers.into_iter().next())
                else {
                    continue;
                };
                let Claim { job, fence, .. } = claim;
                pen.write(Event::Late { job, fence, told: answer.into() });
            }
        });
    };
    let thread = thread::Builder::new().name("soak-late".to_owned()).spawn(send);
    thread.map(drop).map_err(|error| error.to_string())
}
